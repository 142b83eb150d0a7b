package pointwise

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/imgfeed/imgfeed/internal/kernel"
)

// TestPosterizeToZeroBits covers the one depth that Pillow's checksums do not.
func TestPosterizeToZeroBits(t *testing.T) {
	src := []byte{255, 0, 0, 10, 20, 30, 200, 100, 50}
	for _, level := range kernel.Available() {
		if got := (adjustment{"posterize", 0}).run(New(level), src, 3, 1); !bytes.Equal(got, make([]byte, len(src))) {
			t.Errorf("%v: %v, want zeros", level, got)
		}
	}
}

// TestEqualTables compares the tables of Equalize with Pillow's formula, which divides, for images of all sizes up to 2^30 pixels.
func TestEqualTables(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for i := range 2000 {
		var counts [256]uint32
		for v := range counts {
			if counts[v] = 1 + rng.Uint32N(1<<(i%23)); i%3 == 0 && v%7 < 5 {
				counts[v] = 0
			}
		}
		total, last := 0, 0
		for _, n := range counts {
			if total += int(n); n > 0 {
				last = int(n)
			}
		}
		var got [256]byte
		equal(&got, &counts)
		step := (total - last) / 255
		if step == 0 {
			continue // no table
		}
		n := step / 2
		for v := range got {
			if want := byte(min(n/step, 255)); got[v] != want {
				t.Fatalf("%d pixels, a step of %d: %d becomes %d, want %d", total, step, v, got[v], want)
			}
			n += int(counts[v])
		}
	}
}

// TestHueTables compares the way by tables with Pillow's own, written down, for colours of all orders and every shift.
func TestHueTables(t *testing.T) {
	a := New(kernel.Generic)
	for shift := range 256 {
		for c := range 4096 {
			r, g, b := byte(c*31+shift), byte(c>>4*17), byte(c*7>>3+c&1*shift)
			pix := []byte{r, g, b}
			a.Hue(pix, pix, uint8(shift))
			h, s, v := toHSV(r, g, b)
			wantR, wantG, wantB := fromHSV(h+uint8(shift), s, v)
			if want := []byte{wantR, wantG, wantB}; !bytes.Equal(pix, want) {
				t.Fatalf("%d %d %d by %d: %v, want %v", r, g, b, shift, pix, want)
			}
		}
	}
}

// TestEveryColour compares every level with the generic code for every colour there is, each with one of many shifts of hue and factors of
// saturation.
func TestEveryColour(t *testing.T) {
	levels := kernel.Available()
	src, want, got := make([]byte, 3<<16), make([]byte, 3<<16), make([]byte, 3<<16)
	step := 1
	if testing.Short() {
		step = 17
	}
	for red := 0; red < 256; red += step {
		for i := range 1 << 16 {
			src[3*i], src[3*i+1], src[3*i+2] = byte(red), byte(i>>8), byte(i)
		}
		shift, factor := uint8(red*37), float32(red*53%256)/100 // 0 to 2.55
		for name, work := range map[string]func(a *Adjuster, dst []byte){
			"hue":        func(a *Adjuster, dst []byte) { a.Hue(dst, src, shift) },
			"saturation": func(a *Adjuster, dst []byte) { a.Saturation(dst, src, factor) },
			"gray":       func(a *Adjuster, dst []byte) { a.Gray(dst, src) },
		} {
			work(New(kernel.Generic), want)
			for _, level := range levels[1:] {
				work(New(level), got)
				if i := firstDifference(got, want); i >= 0 {
					t.Fatalf("%v: %s of %v (by %d, %v): %v, generic %v",
						level, name, src[i/3*3:i/3*3+3], shift, factor, got[i/3*3:i/3*3+3], want[i/3*3:i/3*3+3])
				}
			}
		}
	}
}

// fromHSV is Pillow's hsv2rgb. The middle channel is q in sextants of odd number, otherwise t.
func fromHSV(h, s, v byte) (r, g, b byte) {
	sextant, f := sextantOf(h)
	fs := float32(float64(s) / 255)
	p := lowOf(s, v)
	q := rounded(float64(v) * (1 - float64(float32(fs*f))))
	t := rounded(float64(v) * (1 - float64(float64(fs)*(1-float64(f)))))
	switch sextant {
	case 1:
		return q, v, p
	case 2:
		return p, v, t
	case 3:
		return p, q, v
	case 4:
		return t, p, v
	case 5:
		return v, p, q
	}
	return v, t, p
}

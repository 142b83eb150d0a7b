package pointwise

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/testenv"
)

// TestPosterizeToZeroBits covers the one depth that Pillow's checksums do not.
func TestPosterizeToZeroBits(t *testing.T) {
	src := []byte{255, 0, 0, 10, 20, 30, 200, 100, 50}
	for _, level := range kernel.Available() {
		testenv.Same(t, (adjustment{"posterize", 0}).run(New(level), src, 3, 1), make([]byte, len(src)), "%v", level)
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
		shift, factor := float64(red*37%256), float64(red*53%256)/100 // 0 to 2.55
		for name, work := range map[string]func(a *Adjuster, dst []byte){
			"hue":        func(a *Adjuster, dst []byte) { a.Hue(dst, src, shift) },
			"saturation": func(a *Adjuster, dst []byte) { a.Saturation(dst, src, factor) },
			"gray":       func(a *Adjuster, dst []byte) { a.Gray(dst, src, 0) },

			"tensor hue":        func(a *Adjuster, dst []byte) { a.On(true).Hue(dst, src, shift/255-0.5) },
			"tensor saturation": func(a *Adjuster, dst []byte) { a.On(true).Saturation(dst, src, factor) },
			"tensor gray":       func(a *Adjuster, dst []byte) { a.On(true).Gray(dst, src, 0) },
		} {
			work(New(kernel.Generic), want)
			for _, level := range levels[1:] {
				work(New(level), got)
				testenv.Same(t, got, want, "%v: %s of the colours with red %d, by %v or %v", level, name, red, shift, factor)
			}
		}
	}
}

// TestLevels compares the kernels with the generic code for images of every width, and looks for bytes that were changed around them.
func TestLevels(t *testing.T) {
	levels := kernel.Available()[1:]
	if len(levels) == 0 {
		t.Skip("no accelerated kernels in this build (GOEXPERIMENT=simd on amd64 or arm64) or for this processor")
	}
	rng := rand.New(rand.NewPCG(3, 4))
	const room = 256
	for w := 1; w <= 140; w++ {
		h := 1 + rng.IntN(5)
		src := testImage(rng, w, h)
		for _, a := range slices.Concat(adjustments(rng), tensorAdjustments(rng), []adjustment{{"permute", 120}, {"permute", 210}}) {
			want := a.run(New(kernel.Generic), src, w, h)
			for _, level := range levels {
				memory := bytes.Repeat([]byte{0xA5}, len(src)+2*room)
				copy(memory[room:], src)
				inside := memory[room : room+len(src) : room+len(src)]
				a.inPlace(New(level), inside, src, w, h)
				testenv.Same(t, inside, want, "%v: %s(%v) of %d×%d", level, a.op, a.value, w, h)
				edge := bytes.Repeat([]byte{0xA5}, room)
				testenv.Same(t, memory[:room], edge, "%v: %s(%v) of %d×%d: before the image", level, a.op, a.value, w, h)
				testenv.Same(t, memory[room+len(src):], edge, "%v: %s(%v) of %d×%d: behind the image", level, a.op, a.value, w, h)
			}
		}
	}
}

// at returns what a line gives for a byte.
func (t *line) at(v byte) byte {
	if v <= t.before && t.always == 0 {
		return 0
	}
	v -= min(v, t.start)
	h, l := v>>4, v&15
	bits := t.first[l]
	if h >= 8 {
		bits = t.second[l]
	}
	return byte(min(int(t.base[h])+int(t.offset[l])+int(bits>>(h%8)&1), 255))
}

// TestLines: the tables of blends and of autocontrast are lines, which give the same bytes.
func TestLines(t *testing.T) {
	var table [256]byte
	var l line
	check := func(name string, of ...any) {
		for v := range table {
			if got := l.at(byte(v)); got != table[v] {
				t.Fatalf(name+": %d gives %d, want %d", append(of, v, got, table[v])...)
			}
		}
	}
	rng := rand.New(rand.NewPCG(5, 6))
	factors := []float32{0, 1e-7, 1 - 1e-7, 1, 1 + 1e-7, 255, 1e6}
	for i := range 4000 {
		factors = append(factors, float32(i)/1000, 2*rng.Float32(), 1+0.9*float32(i%31)/30, 1-0.99*float32(i%31)/30, 1/max(rng.Float32(), 1e-6))
	}
	for i, factor := range factors {
		with := byte(i * 7)
		if i%3 == 0 {
			with = 0
		}
		for v := range table {
			table[v] = blend(with, byte(v), factor)
		}
		testenv.Check(t, l.fit(&table, float64(factor), 1), "the blend with %d by %v is not a line", with, factor)
		check("the blend with %d by %v", with, factor)
	}
	others := 0
	for high := range 256 {
		for low := range high + 1 {
			if slope := spread(&table, low, high); !l.fit(&table, slope, 0) {
				others++
				continue
			}
			l.always = 255 // autocontrast's kernel does not look at leading zeros
			check("the spread of %d to %d", low, high)
		}
	}
	if others > 5 { // these five are looked up
		t.Errorf("%d spreads are not lines, want 5", others)
	}
	for v := range table {
		table[v] = byte(v * v >> 8)
	}
	testenv.Check(t, !l.fit(&table, 1, 1), "a square is a line")
}

// BenchmarkAdjustments measures adjustments that differ for images of Pillow and for tensors, with the image of training.
func BenchmarkAdjustments(b *testing.B) {
	const side = 224
	rng := rand.New(rand.NewPCG(5, 6))
	src, dst := make([]byte, 3*side*side), make([]byte, 3*side*side)
	for i := range src {
		src[i] = byte(i/17) + byte(rng.IntN(64))
	}
	for _, level := range kernel.Available()[1:] {
		adjuster := New(level)
		for _, op := range []struct {
			name   string
			amount [2]float64 // of the image of Pillow, and of the tensor
		}{{"gray", [2]float64{}}, {"saturation", [2]float64{1.3, 1.3}}, {"contrast", [2]float64{1.3, 1.3}}, {"hue", [2]float64{30, 0.117}}} {
			for i, name := range [2]string{op.name, "tensor " + op.name} {
				b.Run(fmt.Sprintf("%v/%s", level, name), func(b *testing.B) {
					b.SetBytes(int64(len(src)))
					for b.Loop() {
						byName[op.name](adjuster.On(i == 1), dst, src, op.amount[i])
					}
				})
			}
		}
	}
}

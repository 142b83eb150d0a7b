package pointwise

import (
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

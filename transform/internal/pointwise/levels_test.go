package pointwise

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/imgfeed/imgfeed/internal/kernel"
)

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
		for _, a := range adjustments(rng) {
			want := a.run(New(kernel.Generic), src, w, h)
			for _, level := range levels {
				memory := bytes.Repeat([]byte{0xA5}, len(src)+2*room)
				copy(memory[room:], src)
				inside := memory[room : room+len(src) : room+len(src)]
				a.inPlace(New(level), inside, src, w, h)
				if i := firstDifference(inside, want); i >= 0 {
					t.Fatalf("%v: %s(%v) of %d×%d: byte %d is %d, generic %d", level, a.op, a.value, w, h, i, inside[i], want[i])
				}
				if edge := bytes.Repeat([]byte{0xA5}, room); !bytes.Equal(memory[:room], edge) || !bytes.Equal(memory[room+len(src):], edge) {
					t.Fatalf("%v: %s(%v) of %d×%d: bytes around the image were changed", level, a.op, a.value, w, h)
				}
			}
		}
	}
}

func BenchmarkAdjust(b *testing.B) {
	src := testImage(rand.New(rand.NewPCG(1, 1)), 224, 224)
	for i := range src {
		src[i] = byte(i/3%224/2 + i/672/2 + i%3*9 + i*7%13)
	}
	pix := bytes.Clone(src)
	for _, a := range []adjustment{
		{"invert", 0}, {"posterize", 3}, {"solarize", 100}, {"solarize add", 50}, {"gray", 0}, {"brightness", 1.3}, {"contrast", 0.6},
		{"saturation", 1.4}, {"sharpness", 1.8}, {"hue", 30}, {"autocontrast", 0}, {"equalize", 0},
	} {
		for _, level := range kernel.Available() {
			adjuster := New(level)
			b.Run(a.op+"/"+level.String(), func(b *testing.B) {
				b.SetBytes(int64(len(src)))
				for b.Loop() {
					copy(pix, src)
					a.inPlace(adjuster, pix, src, 224, 224)
				}
			})
		}
	}
}

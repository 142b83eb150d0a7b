package pointwise

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/imgfeed/imgfeed/internal/kernel"
)

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

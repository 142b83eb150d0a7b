package affine

import (
	"math/rand/v2"
	"testing"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/testenv"
)

// TestTensorSpans compares maps at every level with those whose pixels are all computed one by one. Some matrices lead to pixels'
// exact middles and edges.
func TestTensorSpans(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	image := func(w, h int) *imagefile.RGB {
		pix := make([]byte, 3*w*h, 3*w*h+imagefile.SlackBytes)
		for i := range pix {
			pix[i] = byte(rng.Uint32())
		}
		return &imagefile.RGB{Width: w, Height: h, Pix: pix}
	}
	numbers := []float64{0, 0, 0.5, -0.5, 1, -1, 2, 1e-9, 100, 1e5}
	for range 3000 {
		src, dst := image(1+rng.IntN(90), 1+rng.IntN(40)), image(1+rng.IntN(150), 1+rng.IntN(30))
		var a Matrix
		for i := range a {
			if a[i] = numbers[rng.IntN(len(numbers))]; rng.IntN(2) == 0 {
				a[i] = 3 * rng.NormFloat64()
			}
		}
		m, colour := NewTensor(a, src.Width, src.Height, rng.IntN(2) == 0, true), [3]byte{9, 200, byte(rng.Uint32())}
		want, g := image(dst.Width, dst.Height), &new(Mapper).tensor
		g.start(want, src, &m, colour)
		for y := range want.Height {
			fill(g.y[:], float32(y)-float32(want.Height-1)/2)
			g.edge(row(want, y), src, 0, want.Width)
		}
		for _, level := range kernel.Available() {
			New(level).MapTensor(dst, src, &m, colour)
			testenv.Same(t, dst.Pix, want.Pix, "%v: %+v of %d × %d pixels to %d × %d differs", level, m, src.Width, src.Height, dst.Width, dst.Height)
		}
	}
}

package resample

import (
	"fmt"
	"image"
	"testing"

	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/testenv"
)

// benchShape is a resize that is measured.
type benchShape struct {
	name                   string
	srcW, srcH, outW, outH int
	keep                   image.Rectangle
}

// measure reports images/s of a 224 × 224 result; source warm in the cache.
func (s benchShape) measure(b *testing.B, f Filter, level kernel.Level, layout Layout) {
	have := SourceRegion(s.srcW, s.srcH, s.outW, s.outH, s.keep, f)
	src := make([]byte, 3*have.Dx()*have.Dy())
	for i := range src {
		src[i] = byte(i * 7)
	}
	dst := Output{Pix: make([]byte, 3*224*224), Width: 224, Height: 224, Layout: layout, Flip: false}
	r := New(level)
	for b.Loop() {
		testenv.OK(b, r.Resize(dst, Scaling{src, 3 * have.Dx(), have, s.srcW, s.srcH, false, s.outW, s.outH, s.keep, f, Pillow13}))
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "images/s")
	b.ReportAllocs()
}

// BenchmarkResize measures the shapes of ImageNet training: a 500×375 photo to the centre crop of eval, and a random box
// of a photo to a 224 square as train does.
func BenchmarkResize(b *testing.B) {
	for _, shape := range []benchShape{
		{"eval", 500, 375, 341, 256, image.Rect(58, 16, 282, 240)},
		{"train", 320, 290, 224, 224, image.Rect(0, 0, 224, 224)},
		{"train-tall", 280, 370, 224, 224, image.Rect(0, 0, 224, 224)}, // vertically first
		{"train-of-256", 150, 140, 224, 224, image.Rect(0, 0, 224, 224)},
		{"eval-of-12-megapixels", 4000, 3000, 341, 256, image.Rect(58, 16, 282, 240)},
	} {
		for _, f := range []Filter{Bilinear, Bicubic, Lanczos, Nearest} {
			for _, level := range kernel.Available() {
				for _, layout := range []Layout{NHWC, NCHW} {
					if layout == NCHW && f != Bilinear {
						continue
					}
					b.Run(fmt.Sprintf("%s/%v/%v/%v", shape.name, f, level, layout), func(b *testing.B) {
						shape.measure(b, f, level, layout)
					})
				}
			}
		}
	}
}

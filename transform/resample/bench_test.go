package resample

import (
	"fmt"
	"image"
	"testing"

	"github.com/imgfeed/imgfeed/transform/kernel"
)

// BenchmarkResize reports images/s for the shapes of ImageNet training: a 500×375 photo to the centre crop of eval, and
// a random box of a photo to a 224 square as train does; source warm in the cache.
func BenchmarkResize(b *testing.B) {
	for _, shape := range []struct {
		name                   string
		srcW, srcH, outW, outH int
		keep                   image.Rectangle
	}{
		{"eval", 500, 375, 341, 256, image.Rect(58, 16, 282, 240)},
		{"train", 320, 290, 224, 224, image.Rect(0, 0, 224, 224)},
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
						have := SourceRegion(shape.srcW, shape.srcH, shape.outW, shape.outH, shape.keep, f)
						src := make([]byte, 3*have.Dx()*have.Dy())
						for i := range src {
							src[i] = byte(i * 7)
						}
						dst := Output{make([]byte, 3*224*224), 224, 224, layout, false}
						r := New(level)
						for b.Loop() {
							if err := r.Resize(dst, src, 3*have.Dx(), have, shape.srcW, shape.srcH, shape.outW, shape.outH, shape.keep, f); err != nil {
								b.Fatal(err)
							}
						}
						b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "images/s")
						b.ReportAllocs()
					})
				}
			}
		}
	}
}

// BenchmarkCopy reports images/s for a 224 crop without a resize.
func BenchmarkCopy(b *testing.B) {
	src := make([]byte, 3*341*256)
	keep := image.Rect(58, 16, 282, 240)
	for _, level := range kernel.Available() {
		for variant := range 4 {
			dst := Output{make([]byte, 3*224*224), 224, 224, Layout(variant & 1), variant&2 != 0}
			b.Run(fmt.Sprintf("%v/%v/flip=%v", level, dst.Layout, dst.Flip), func(b *testing.B) {
				r := New(level)
				for b.Loop() {
					if err := r.Copy(dst, src, 3*341, image.Rect(0, 0, 341, 256), keep); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "images/s")
			})
		}
	}
}

package resample

import (
	"fmt"
	"image"
	"testing"

	"github.com/imgfeed/imgfeed/internal/kernel"
)

// benchShape is a resize that is measured.
type benchShape struct {
	name                   string
	srcW, srcH, outW, outH int
	keep                   image.Rectangle
}

// measure reports images/s of a 224 × 224 result; source warm in the cache.
func (s benchShape) measure(b *testing.B, f Filter, a Algorithm, level kernel.Level, layout Layout) {
	have := SourceRegion(s.srcW, s.srcH, s.outW, s.outH, s.keep, f)
	src := make([]byte, 3*have.Dx()*have.Dy())
	for i := range src {
		src[i] = byte(i * 7)
	}
	dst := Output{make([]byte, 3*224*224), 224, 224, layout, false}
	r := New(level)
	for b.Loop() {
		if err := r.Resize(dst, src, 3*have.Dx(), have, s.srcW, s.srcH, s.outW, s.outH, s.keep, f, a); err != nil {
			b.Fatal(err)
		}
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
						shape.measure(b, f, Pillow13, level, layout)
					})
				}
			}
		}
	}
}

// BenchmarkOrder measures shapes whose vertical pass comes first by pillow-13, in both orders: a tall box of a photo as
// train draws it, one that is enlarged to the sides, and a tall photo to the centre crop of eval.
func BenchmarkOrder(b *testing.B) {
	all := image.Rect(0, 0, 224, 224)
	for _, shape := range []benchShape{
		{"train-tall", 280, 370, 224, 224, all},
		{"train-narrow", 190, 250, 224, 224, all},
		{"eval-tall", 300, 700, 256, 597, image.Rect(16, 186, 240, 410)},
		{"tall-4-megapixels", 1000, 4000, 256, 1024, image.Rect(16, 400, 240, 624)},
	} {
		if !Pillow13.verticalFirst(shape.srcW, shape.srcH, shape.outW, shape.outH) {
			b.Fatalf("%s: the horizontal pass comes first", shape.name)
		}
		for _, f := range []Filter{Bilinear, Bicubic} {
			for _, level := range kernel.Available() {
				for _, a := range []Algorithm{Pillow12, Pillow13} {
					b.Run(fmt.Sprintf("%s/%v/%v/%v", shape.name, f, level, a), func(b *testing.B) {
						shape.measure(b, f, a, level, NHWC)
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
					if err := r.CopyPadded(dst, src, 3*341, image.Rect(0, 0, 341, 256), keep, [3]byte{}); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "images/s")
			})
		}
	}
}

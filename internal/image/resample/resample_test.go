package resample

import (
	"errors"
	"fmt"
	"image"
	"math/rand/v2"
	"testing"

	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/testenv"
)

// everyFilter has the order of testdata/golden.txt.
var everyFilter = []Filter{Nearest, Box, Bilinear, Hamming, Bicubic, Lanczos}

func TestParseFilterRoundTrip(t *testing.T) {
	for _, f := range everyFilter {
		testenv.Equal(t, testenv.Must(ParseFilter(f.String()))(t), f, "ParseFilter")
	}
	testenv.Fails(ParseFilter("cubic"))(t, "bicubic", "ParseFilter(cubic)")
}

func TestParseAlgorithmRoundTrip(t *testing.T) {
	for i, name := range Algorithms() {
		got, err := ParseAlgorithm(name)
		testenv.Check(t, err == nil && got == Algorithm(i) && got.String() == name, "ParseAlgorithm(%q) = %v, %v", name, got, err)
		var read Algorithm
		text, err := Algorithm(i).MarshalText()
		testenv.Check(t, err == nil && read.UnmarshalText(text) == nil && read == Algorithm(i),
			"%q is written as %q and reads back as %v, %v", name, text, read, err)
	}
	testenv.Fails(ParseAlgorithm("pillow-11"))(t, "pillow-12", "ParseAlgorithm(pillow-11)")
}

// TestVerticalFirst has the rule at its boundary; TestPillow shows that it is Pillow's.
func TestVerticalFirst(t *testing.T) {
	for _, c := range []struct {
		srcW, srcH, outW, outH int
		want                   bool
	}{
		{300, 700, 256, 597, true},
		{375, 500, 256, 341, false},
		{20, 30, 15, 20, false}, // 10 rows are not more than twice 5 columns
		{20, 31, 15, 20, true},
		{10, 11, 20, 10, true}, // a row goes, and columns come
		{10, 10, 20, 10, false},
		{10, 9, 20, 10, false},  // both grow
		{10, 20, 10, 10, false}, // no horizontal pass
	} {
		testenv.Equal(t, Pillow13.verticalFirst(c.srcW, c.srcH, c.outW, c.outH), c.want, "%+v: vertical first", c)
		testenv.Check(t, !Pillow12.verticalFirst(c.srcW, c.srcH, c.outW, c.outH), "%+v: vertical first before 13", c)
	}
}

func TestResizeShortSide(t *testing.T) {
	for _, c := range [][5]int{{500, 375, 256, 341, 256}, {375, 500, 256, 256, 341}, {100, 100, 32, 32, 32}, {3, 1, 7, 21, 7}} {
		w, h := ResizeShortSide(c[0], c[1], c[2])
		testenv.Check(t, w == c[3] && h == c[4], "ResizeShortSide(%d, %d, %d) = %d, %d; want %d, %d", c[0], c[1], c[2], w, h, c[3], c[4])
	}
}

// TestPackageExample is the worked example of the package comment.
func TestPackageExample(t *testing.T) {
	var a axis
	a.compute(axisSpec{4, 2, 0, 2, Bilinear, false, false}, kernel.Generic, false)
	testenv.Equal(t, [3]int32{a.weight[0], a.weight[a.pitch], a.weight[2*a.pitch]}, [3]int32{1797559, 1797559, 599186}, "weights")
	c := resizeCase{[]byte{10, 10, 10, 20, 20, 20, 30, 30, 30, 40, 40, 40}, 4, 1, 2, 1, image.Rect(0, 0, 1, 1), Bilinear, Pillow13}
	got := c.run(t, &Resampler{}, NHWC, false)
	testenv.Check(t, got[0] == 17, "first pixel %d, want 17", got[0])
}

// TestLayoutAndFlip compares each variant with a rearrangement of the plain result.
func TestLayoutAndFlip(t *testing.T) {
	rng := rand.New(rand.NewPCG(15, 16))
	for _, f := range everyFilter {
		c := randomCase(rng, f, 100)
		plain := c.run(t, &Resampler{}, NHWC, false)
		w, h := c.keep.Dx(), c.keep.Dy()
		for variant := range 4 {
			layout, flip := Layout(variant&1), variant&2 != 0
			got := c.run(t, &Resampler{}, layout, flip)
			for i, want := range plain {
				x, y, channel := i/3%w, i/3/w, i%3
				if flip {
					x = w - 1 - x
				}
				at := (y*w+x)*3 + channel
				if layout == NCHW {
					at = (channel*h+y)*w + x
				}
				if got[at] != want {
					t.Fatalf("%v, %v, flip %v: byte %d is %d, want %d", c, layout, flip, at, got[at], want)
				}
			}
		}
	}
}

func TestResizeErrors(t *testing.T) {
	src := make([]byte, 3*10*10)
	all := image.Rect(0, 0, 10, 10)
	dst := Output{Pix: make([]byte, 3*5*5), Width: 5, Height: 5}
	keep := image.Rect(0, 0, 5, 5)
	type args struct {
		dst Output
		Scaling
	}
	good := args{dst, Scaling{src, 30, all, 10, 10, false, 5, 5, keep, Bilinear, Pillow13}}
	resize := func(a args) error { return New(kernel.Generic).Resize(a.dst, a.Scaling) }
	testenv.OK(t, resize(good))
	for name, spoil := range map[string]func(*args){
		"no width":          func(a *args) { a.SrcW = 0 },
		"huge source":       func(a *args) { a.SrcH = sourceSideMax + 1 },
		"huge result":       func(a *args) { a.OutH = resultSideMax + 1 },
		"empty keep":        func(a *args) { a.Keep = image.Rectangle{} },
		"keep outside":      func(a *args) { a.Keep = image.Rect(1, 0, 6, 5) },
		"region missing":    func(a *args) { a.Have = image.Rect(1, 0, 10, 10) },
		"short stride":      func(a *args) { a.Stride = 29 },
		"short source":      func(a *args) { a.Src = src[:299] },
		"short output":      func(a *args) { a.dst.Pix = a.dst.Pix[:74] },
		"other output size": func(a *args) { a.dst.Width = 4 },
		"unknown filter":    func(a *args) { a.Filter = PlainBicubic + 1 },
		"unknown resampler": func(a *args) { a.Algorithm = Torch + 1 },
		"unknown layout":    func(a *args) { a.dst.Layout = 2 },
		"planes with gaps":  func(a *args) { a.dst.Layout, a.dst.Stride = NCHW, 20 },
	} {
		a := good
		spoil(&a)
		testenv.Says(t, name, resize(a), ErrArgument)
	}
}

func TestCopyPadded(t *testing.T) {
	rng := rand.New(rand.NewPCG(19, 20))
	const w, h = 32, 30
	src := make([]byte, 3*w*h)
	for i := range src {
		src[i] = byte(rng.Uint32())
	}
	for range 400 {
		x, y := rng.IntN(80)-40, rng.IntN(80)-40
		keep := image.Rect(x, y, x+1+rng.IntN(45), y+1+rng.IntN(45))
		for variant := range 4 {
			fill := [3]byte{byte(x), byte(y), 7}
			dst := Output{Pix: make([]byte, 3*keep.Dx()*keep.Dy()), Width: keep.Dx(), Height: keep.Dy(), Layout: Layout(variant & 1), Flip: variant&2 != 0}
			for i := range dst.Pix {
				dst.Pix[i] = canary
			}
			for _, level := range kernel.Available() {
				testenv.OK(t, New(level).CopyPadded(dst, src, 3*w, image.Rect(0, 0, w, h), keep, fill))
				for i, got := range dst.Pix {
					px, py, channel := i/3%dst.Width, i/3/dst.Width, i%3
					if dst.Layout == NCHW {
						px, py, channel = i%dst.Width, i/dst.Width%dst.Height, i/dst.Width/dst.Height
					}
					if dst.Flip {
						px = dst.Width - 1 - px
					}
					px, py = px+keep.Min.X, py+keep.Min.Y
					want := fill[channel]
					if image.Pt(px, py).In(image.Rect(0, 0, w, h)) {
						want = src[3*(py*w+px)+channel]
					}
					if got != want {
						t.Fatalf("keep %v, %v, flip %v, %v: byte %d is %d, want %d", keep, dst.Layout, dst.Flip, level, i, got, want)
					}
				}
			}
		}
	}
}

func TestCopyErrors(t *testing.T) {
	src := make([]byte, 300)
	dst := Output{Pix: make([]byte, 75), Width: 5, Height: 5}
	err := new(Resampler).CopyPadded(dst, src, 30, image.Rect(0, 0, 10, 11), image.Rect(5, 5, 10, 10), [3]byte{})
	testenv.Check(t, errors.Is(err, ErrArgument), "a source without its last row: %v", err)
	err = new(Resampler).CopyPadded(dst, src, 30, image.Rect(0, 0, 10, 10), image.Rect(5, 5, 5, 5), [3]byte{})
	testenv.Check(t, errors.Is(err, ErrArgument), "a copy of nothing: %v", err)
	testenv.OK(t, new(Resampler).CopyPadded(dst, src, 30, image.Rect(0, 0, 10, 10), image.Rect(5, 5, 10, 10), [3]byte{}))
}

// TestAllocations runs varied resizes twice; the second time nothing may be allocated.
func TestAllocations(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 22))
	var cases []resizeCase
	for _, f := range everyFilter {
		for range 4 {
			cases = append(cases, randomCase(rng, f, 200))
		}
	}
	for _, level := range kernel.Available() {
		r := New(level)
		pix := make([]byte, 3*200*200)
		all := func() {
			for i, c := range cases {
				dst := Output{Pix: pix, Width: c.keep.Dx(), Height: c.keep.Dy(), Layout: Layout(i & 1), Flip: i&2 != 0}
				testenv.OK(t, r.Resize(dst, Scaling{c.src, 3 * c.srcW, image.Rect(0, 0, c.srcW, c.srcH), c.srcW, c.srcH, false, c.outW, c.outH, c.keep, c.filter, c.algorithm}))
			}
		}
		testenv.NoAllocations(t, 3, all, "%v", level)
	}
}

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
					b.Run(fmt.Sprintf("%s/%v/%v/%v", shape.name, f, level, layout), func(b *testing.B) { shape.measure(b, f, level, layout) })
				}
			}
		}
	}
}

package resample

import (
	"bytes"
	"fmt"
	"image"
	"math/rand/v2"
	"testing"

	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/testenv"
	"golang.org/x/sys/unix"
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
	padded := func(have, keep image.Rectangle) error {
		return new(Resampler).CopyPadded(dst, src, 30, have, keep, [3]byte{})
	}
	testenv.Says(t, "a source without its last row", padded(image.Rect(0, 0, 10, 11), image.Rect(5, 5, 10, 10)), ErrArgument)
	testenv.Says(t, "a copy of nothing", padded(image.Rect(0, 0, 10, 10), image.Rect(5, 5, 5, 5)), ErrArgument)
	testenv.OK(t, padded(image.Rect(0, 0, 10, 10), image.Rect(5, 5, 10, 10)))
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

// accelerated returns the levels that are compared with the generic code; the test is skipped where there are none.
func accelerated(t testing.TB) []kernel.Level {
	levels := kernel.Available()[1:]
	if len(levels) == 0 {
		t.Skip("no accelerated kernels in this build (GOEXPERIMENT=simd on amd64 or arm64) or for this processor")
	}
	return levels
}

// compareLevels runs the case at every level, in both layouts, mirrored and not, at the end and before, with the buffers between guard pages.
// The source has only the region that the result needs; in some cases it has more around it, and gaps between its rows. In some cases the
// result is a part of an image.
func compareLevels(t *testing.T, g *guarded, c resizeCase, levels []*Resampler) {
	t.Helper()
	have := SourceRegion(c.srcW, c.srcH, c.outW, c.outH, c.keep, c.filter)
	have = have.Inset(-((c.srcW + c.keep.Min.X) % 3)).Intersect(image.Rect(0, 0, c.srcW, c.srcH))
	stride := 3*have.Dx() + (c.srcH+c.keep.Min.Y)%5*7
	for variant := range 8 {
		layout, flip := Layout(variant&1), variant&2 != 0
		want := c.run(t, &Resampler{}, layout, flip)
		source, have := c, have
		if variant >= 4 {
			have = Mirrored(have, c.srcW)
			source.src = make([]byte, len(c.src))
			for y := range c.srcH {
				mirror(source.src[3*y*c.srcW:][:3*c.srcW], c.src[3*y*c.srcW:][:3*c.srcW])
			}
		}
		src := g.source(source, have, stride)
		for i, r := range levels {
			pix := g.output(len(want))
			dst := Output{Pix: pix, Width: c.keep.Dx(), Height: c.keep.Dy(), Layout: layout, Flip: flip}
			if layout == NHWC && variant >= 4 { // a part of a larger image
				dst.Width, dst.Height = dst.Width+i, dst.Height+1
				dst.Pix, pix = g.output(3*dst.Width*dst.Height), make([]byte, len(want))
				dst = dst.Part(image.Rectangle{Max: c.keep.Size()}.Add(image.Pt(i/2, i%2)))
			}
			err := r.Resize(dst, Scaling{src, stride, have, c.srcW, c.srcH, variant >= 4, c.outW, c.outH, c.keep, c.filter, c.algorithm})
			testenv.OK(t, err, "%v, %v", c, r.level)
			for y := range dst.Height * min(dst.Stride, 1) {
				copy(pix[3*dst.Width*y:][:3*dst.Width], dst.Pix[dst.Stride*y:])
			}
			testenv.Same(t, pix, want, "%v, %v, %v, flip %v", c, r.level, layout, flip)
			g.check(t, c)
		}
	}
}

func newResamplers(levels []kernel.Level) []*Resampler {
	var all []*Resampler
	for _, l := range levels {
		all = append(all, New(l))
	}
	return all
}

// TestLevelsSmall compares every size from 1 to 70, with the other sides drawn at random.
func TestLevelsSmall(t *testing.T) {
	levels := newResamplers(kernel.Available())
	g := newGuarded(t)
	rng := rand.New(rand.NewPCG(7, 8))
	cases := 0
	for _, f := range everyFilter {
		for size := 1; size <= 70; size++ {
			for side := range 4 {
				c := randomCase(rng, f, 70)
				sides := [4]*int{&c.srcW, &c.srcH, &c.outW, &c.outH}
				*sides[side] = size
				c.draw(rng)
				compareLevels(t, g, c, levels)
				cases++
			}
		}
	}
	t.Logf("%d cases identical, 4 variants each, at %v", cases, kernel.Available())
}

// TestLevelsRandom compares larger images, at scales of 1/20 to 10.
func TestLevelsRandom(t *testing.T) {
	levels := newResamplers(accelerated(t))
	g := newGuarded(t)
	rng := rand.New(rand.NewPCG(9, 10))
	cases := 0
	for _, f := range everyFilter {
		for range 60 {
			compareLevels(t, g, randomCase(rng, f, 500), levels)
			compareLevels(t, g, boundaryCase(rng, f, 500), levels)
			cases += 2
		}
	}
	t.Logf("%d cases identical, 4 variants each, at %v", cases, kernel.Available())
}

// TestLevelsExtremes compares shapes at the far ends: threads of images, and scales far beyond what training meets.
func TestLevelsExtremes(t *testing.T) {
	levels := newResamplers(accelerated(t))
	g := newGuarded(t)
	rng := rand.New(rand.NewPCG(25, 26))
	for _, c := range []resizeCase{
		{srcW: 1, srcH: 5000, outW: 256, outH: 1280000, keep: image.Rect(16, 639888, 240, 640112)},
		{srcW: 5000, srcH: 1, outW: 1280000, outH: 256, keep: image.Rect(639888, 16, 640112, 240)},
		{srcW: 20000, srcH: 3, outW: 2, outH: 1, keep: image.Rect(0, 0, 2, 1)},
		{srcW: 2, srcH: 20000, outW: 3, outH: 1, keep: image.Rect(0, 0, 3, 1)},
		{srcW: 4097, srcH: 2, outW: 1, outH: 3, keep: image.Rect(0, 0, 1, 3)},
		{srcW: 70, srcH: 4099, outW: 9, outH: 2, keep: image.Rect(2, 1, 9, 2)},
	} {
		c.fill(rng)
		for _, c.filter = range everyFilter {
			compareLevels(t, g, c, levels)
		}
	}
}

// TestLevelsEveryKeep keeps every rectangle of a small result.
func TestLevelsEveryKeep(t *testing.T) {
	levels := newResamplers(kernel.Available())
	g := newGuarded(t)
	rng := rand.New(rand.NewPCG(11, 12))
	for _, f := range everyFilter {
		c := resizeCase{srcW: 11, srcH: 17, outW: 8, outH: 7, filter: f} // vertical first by pillow-13
		c.fill(rng)
		c.keep = image.Rect(0, 0, c.outW, c.outH)
		whole := c.run(t, &Resampler{}, NHWC, false)
		for x0 := range c.outW {
			for y0 := range c.outH {
				for x1 := x0 + 1; x1 <= c.outW; x1++ {
					for y1 := y0 + 1; y1 <= c.outH; y1++ {
						c.keep = image.Rect(x0, y0, x1, y1)
						want := make([]byte, 0, 3*c.outW*c.outH)
						for y := y0; y < y1; y++ {
							want = append(want, whole[3*(y*c.outW+x0):3*(y*c.outW+x1)]...)
						}
						testenv.Same(t, c.run(t, &Resampler{}, NHWC, false), want, "%v: not the same pixels as in the whole image", c)
						compareLevels(t, g, c, levels[1:])
					}
				}
			}
		}
	}
}

// TestCopyBetweenGuardPages copies rows of every width, whose buffers end where memory does.
func TestCopyBetweenGuardPages(t *testing.T) {
	g := newGuarded(t)
	rng := rand.New(rand.NewPCG(23, 24))
	for w := 1; w <= 200; w++ {
		h := 1 + rng.IntN(3)
		keep := image.Rect(0, 0, w, h)
		c := resizeCase{srcW: w, srcH: h, outW: w, outH: h, keep: keep}
		c.draw(rng)
		c.keep = keep
		src := g.source(c, keep, 3*w)
		for variant := range 4 {
			layout, flip := Layout(variant&1), variant&2 != 0
			want := Output{Pix: make([]byte, 3*w*h), Width: w, Height: h, Layout: layout, Flip: flip}
			testenv.OK(t, new(Resampler).CopyPadded(want, c.src, 3*w, keep, keep, [3]byte{}))
			for _, level := range kernel.Available() {
				got := Output{Pix: g.output(3 * w * h), Width: w, Height: h, Layout: layout, Flip: flip}
				testenv.OK(t, New(level).CopyPadded(got, src, 3*w, keep, keep, [3]byte{}))
				testenv.Same(t, got.Pix, want.Pix, "%v, %v, %v, flip %v", c, level, layout, flip)
				g.check(t, c)
			}
		}
	}
}

// TestLevelsWeights compares tables, mirrored ones too, over many sizes.
func TestLevelsWeights(t *testing.T) {
	levels := accelerated(t)
	rng := rand.New(rand.NewPCG(13, 14))
	var want, got axis
	for range 6000 {
		in, out := randomSides(rng, 4000)
		from := rng.IntN(out)
		s := axisSpec{in, out, from, 1 + rng.IntN(min(out-from, 300)), everyFilter[1+rng.IntN(5)], rng.IntN(2) == 0, rng.IntN(2) == 0}
		tensor := rng.IntN(2) == 0
		want.compute(s, kernel.Generic, tensor)
		for _, level := range levels {
			got.compute(s, level, tensor)
			for i := range want.n {
				if got.low[i] != want.low[i] || got.count[i] != want.count[i] {
					t.Fatalf("%+v, %v: entry %d reads %d inputs from %d, want %d from %d", s, level, i,
						got.count[i], got.low[i], want.count[i], want.low[i])
				}
				for k := range want.taps {
					if k < got.taps && got.weight[k*got.pitch+i] != want.weight[k*want.pitch+i] {
						t.Fatalf("%+v, %v: entry %d tap %d is %d, want %d", s, level, i, k, got.weight[k*got.pitch+i], want.weight[k*want.pitch+i])
					}
				}
			}
			testenv.Require(t, got.first == want.first && got.end == want.end && got.taps >= want.taps,
				"%+v, %v: inputs %d to %d, %d taps; want %d to %d, %d", s, level, got.first, got.end, got.taps, want.first, want.end, want.taps)
		}
	}
}

// guarded holds two buffers, each between pages that cannot be touched. Reading or writing one byte before or after a
// buffer that is aligned to such a page is a fault, which ends the test with a stack trace.
type guarded struct {
	src, dst []byte // the accessible pages
	room     []byte // part of dst in front of the last output
}

const (
	guardPage = 1 << 16
	guardSize = 2 << 20
	canary    = 0xa5
)

func newGuarded(t *testing.T) *guarded {
	t.Helper()
	pages := func() []byte {
		all := testenv.Must(unix.Mmap(-1, 0, guardSize+2*guardPage, unix.PROT_NONE, unix.MAP_ANON|unix.MAP_PRIVATE))(t)
		t.Cleanup(func() { unix.Munmap(all) })
		inner := all[guardPage : guardPage+guardSize : guardPage+guardSize]
		testenv.OK(t, unix.Mprotect(inner, unix.PROT_READ|unix.PROT_WRITE))
		return inner
	}
	return &guarded{src: pages(), dst: pages()}
}

// source copies the region have of c's source, rows stride bytes apart, ending at the guard page.
func (g *guarded) source(c resizeCase, have image.Rectangle, stride int) []byte {
	src := g.src[guardSize-(have.Dy()-1)*stride-3*have.Dx():]
	for y := range have.Dy() {
		copy(src[y*stride:][:3*have.Dx()], c.src[3*((have.Min.Y+y)*c.srcW+have.Min.X):])
	}
	return src
}

// output returns size bytes that end at the guard page. check looks at the bytes in front of them.
func (g *guarded) output(size int) []byte {
	g.room = g.dst[max(0, guardSize-size-4096) : guardSize-size]
	for i := range g.room {
		g.room[i] = canary
	}
	clear(g.dst[guardSize-size:])
	return g.dst[guardSize-size:]
}

// check reports bytes written in front of the output.
func (g *guarded) check(t *testing.T, c resizeCase) {
	t.Helper()
	testenv.Require(t, bytes.Count(g.room, []byte{canary}) == len(g.room), "%v: bytes in front of the output were written", c)
}

package resample

import (
	"bytes"
	"image"
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/testenv"
)

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

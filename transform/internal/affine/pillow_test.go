package affine

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/internal/image/resample"
	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/pillowtest"
	"github.com/imgfeed/imgfeed/internal/testenv"
)

var update = flag.Bool("update", false, "write the checksums of testdata anew, once Pillow has the same results")

var everyFilter = []resample.Filter{resample.Nearest, resample.Bilinear, resample.Bicubic}

// newImage returns an image of random colours, some of whose pixels are like their neighbours.
func newImage(rng *rand.Rand, w, h int) *imagefile.RGB {
	m := new(imagefile.RGB)
	m.Resize(w, h)
	for i := range m.Pix {
		m.Pix[i] = byte(rng.Uint32())
		if i >= 3 && rng.IntN(3) == 0 {
			m.Pix[i] = m.Pix[i-3]
		}
	}
	return m
}

// randomMatrix returns maps of every kind: turns, shears, scales, shifts by whole pixels and by fractions, and wild ones.
func randomMatrix(rng *rand.Rand, w, h int) Matrix {
	cx, cy := float64(w)/2, float64(h)/2
	shift := func() float64 { return math.Round(rng.NormFloat64() * cx / 2) }
	switch rng.IntN(7) {
	case 0: // a turn
		sin, cos := math.Sincos(rng.Float64() * 2 * math.Pi)
		return Matrix{cos, sin, cx - cx*cos - cy*sin, -sin, cos, cy + cx*sin - cy*cos}
	case 1:
		return Matrix{1, rng.NormFloat64() / 2, shift(), 0, 1, 0}
	case 2:
		return Matrix{1, 0, 0, rng.NormFloat64() / 2, 1, shift()}
	case 3:
		return Matrix{1, 0, shift(), 0, 1, shift()}
	case 4:
		return Matrix{rng.NormFloat64() * 2, 0, shift(), 0, rng.NormFloat64() * 2, shift() / 3}
	case 5: // for nearest, what does not fit 16 bits
		scale := math.Exp(rng.Float64() * 12)
		return Matrix{rng.NormFloat64() * scale, rng.NormFloat64(), shift(), rng.NormFloat64(), rng.NormFloat64() * scale, shift()}
	}
	return Matrix{rng.NormFloat64(), rng.NormFloat64(), shift() * 1.7, rng.NormFloat64(), rng.NormFloat64(), shift() * 1.3}
}

// pillow is a Python process that answers with Pillow's results; see testdata/pillow.py.
type pillow struct {
	t       *testing.T
	in      io.Writer
	r       *bufio.Reader
	answers *pillowtest.Answers
}

func startPillow(t *testing.T, checksums string) *pillow {
	t.Helper()
	p := &pillow{t: t, answers: pillowtest.Load(t, checksums, *update)}
	if p.answers.Live {
		p.in, p.r, _ = pillowtest.Start(t)
	}
	return p
}

// ask fills want with the answer to a question about src. In a quick run it asks nothing.
func (p *pillow) ask(want, src *imagefile.RGB, question string) {
	p.t.Helper()
	if !p.answers.Live {
		return
	}
	testenv.Must(io.WriteString(p.in, question+"\n"))(p.t)
	testenv.Must(p.in.Write(src.Pix))(p.t)
	if _, err := io.ReadFull(p.r, want.Pix); err != nil {
		p.t.Fatalf("no answer to %q: %v", question, err)
	}
}

// TestPillow compares maps of every kind with Pillow's, at every level.
func TestPillow(t *testing.T) {
	p, rng := startPillow(t, "testdata/maps.crc"), rand.New(rand.NewPCG(3, 4))
	var mappers []*Mapper
	for _, level := range kernel.Available() {
		mappers = append(mappers, New(level))
	}
	for i := range 3000 {
		src, got, want := newImage(rng, 1+rng.IntN(90), 1+rng.IntN(60)), new(imagefile.RGB), new(imagefile.RGB)
		w, h := src.Width, src.Height
		if i%3 == 0 {
			w, h = 1+rng.IntN(90), 1+rng.IntN(60)
		}
		a, f, fill := randomMatrix(rng, src.Width, src.Height), everyFilter[rng.IntN(3)], [3]byte{byte(i), byte(i >> 3), 7}
		got.Resize(w, h)
		want.Resize(w, h)
		matrix := strings.Trim(fmt.Sprint([6]float64(a)), "[]")
		question := fmt.Sprintf("%d %d %d %d %v %d %d %d %s", src.Width, src.Height, w, h, f, fill[0], fill[1], fill[2], matrix)
		p.ask(want, src, question)
		for k, m := range mappers {
			clear(got.Pix)
			m.Map(got, src, a, f, fill)
			testenv.OK(t, p.answers.Compare(i, got.Pix, want.Pix), "%v: %s", kernel.Available()[k], question)
		}
	}
}

// TestLevels compares the levels' kernels with the generic code, on images and maps of every kind, and looks for bytes that were changed behind.
func TestLevels(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	var generic Mapper
	for range 3000 {
		src, got, want := newImage(rng, 1+rng.IntN(150), 1+rng.IntN(9)), new(imagefile.RGB), new(imagefile.RGB)
		got.Resize(1+rng.IntN(150), 1+rng.IntN(9))
		want.Resize(got.Width, got.Height)
		a, f := randomMatrix(rng, src.Width, src.Height), everyFilter[rng.IntN(3)]
		generic.Map(want, src, a, f, [3]byte{1, 2, 3})
		for _, level := range kernel.Available() {
			clear(got.Pix)
			behind := got.Pix[len(got.Pix):][:64]
			clear(behind)
			New(level).Map(got, src, a, f, [3]byte{1, 2, 3})
			testenv.Same(t, got.Pix, want.Pix, "%v: %v of %d×%d by %v", level, f, src.Width, src.Height, a)
			testenv.Same(t, behind, make([]byte, len(behind)), "%v: %v of %d×%d by %v: behind the result", level, f, src.Width, src.Height, a)
		}
	}
}

// TestLargeMaps compares turns and maps like them of larger images with the generic code: rows of several stretches.
func TestLargeMaps(t *testing.T) {
	rng := rand.New(rand.NewPCG(15, 16))
	var generic Mapper
	for i := range 1200 {
		src, got, want := newImage(rng, 1+rng.IntN(700), 1+rng.IntN(60)), new(imagefile.RGB), new(imagefile.RGB)
		switch got.Resize(1+rng.IntN(700), 1+rng.IntN(40)); i % 61 {
		case 20:
			src = newImage(rng, 4500, 30)
			got.Resize(500+rng.IntN(4000), 1+rng.IntN(20))
		case 40:
			src = newImage(rng, 60, 800)
			got.Resize(1+rng.IntN(60), 800)
		}
		want.Resize(got.Width, got.Height)
		sin, cos := math.Sincos(rng.NormFloat64() * math.Exp(-6*rng.Float64()))
		a := Matrix{cos, sin, rng.NormFloat64() * 50, -sin, cos, float64(src.Height)/2 + rng.NormFloat64()*20}
		switch i % 4 {
		case 0: // small steps along y
			a[0], a[3] = 0.8+0.2*rng.Float64(), 0.7*rng.Float64()-0.35
		case 2: // columns grow by one
			a[0] = 1
		case 1: // rows begin and end at whole pixels
			for k := range a {
				a[k] = math.Round(a[k]*64) / 64
			}
		}
		generic.Map(want, src, a, resample.Nearest, [3]byte{1, 2, 3})
		for _, level := range kernel.Available() {
			clear(got.Pix)
			New(level).Map(got, src, a, resample.Nearest, [3]byte{1, 2, 3})
			testenv.Same(t, got.Pix, want.Pix, "%v: %d×%d by %v", level, src.Width, src.Height, a)
		}
	}
}

func TestAllocations(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	src, dst := newImage(rng, 90, 70), new(imagefile.RGB)
	dst.Resize(90, 70)
	for _, level := range kernel.Available() {
		m := New(level)
		run := func() {
			for _, f := range everyFilter {
				m.Map(dst, src, Matrix{1, 0.1, 2, 0.2, 1, 3}, f, [3]byte{})
				m.Map(dst, src, Matrix{2, 0, 2, 0, 2, 3}, f, [3]byte{})
				m.Map(dst, src, Matrix{0.96, 0.25, 2, -0.25, 0.96, 3}, f, [3]byte{})
			}
		}
		run()
		testenv.NoAllocations(t, 20, run, "%v", level)
	}
}

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

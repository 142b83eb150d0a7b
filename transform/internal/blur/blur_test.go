package blur

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/pillowtest"
	"github.com/imgfeed/imgfeed/internal/testenv"
)

var update = flag.Bool("update", false, "write the checksums of testdata anew, once Pillow has the same results")

// newImage returns an image of random colours, or of black and white only.
func newImage(rng *rand.Rand, w, h int) *imagefile.RGB {
	m, extreme := new(imagefile.RGB), rng.IntN(4) == 0
	m.Resize(w, h)
	for i := range m.Pix {
		if m.Pix[i] = byte(rng.Uint32()); extreme {
			m.Pix[i] = byte(-int(m.Pix[i] & 1))
		}
	}
	return m
}

func blurrers() (all []*Blurrer) {
	for _, level := range kernel.Available() {
		all = append(all, New(level))
	}
	return all
}

// blurred returns what blur makes of an image, and checks that it writes nothing else.
func blurred(t *testing.T, src *imagefile.RGB, blur func(dst *imagefile.RGB)) *imagefile.RGB {
	t.Helper()
	dst := new(imagefile.RGB)
	dst.Resize(src.Width, src.Height)
	all := dst.Pix[:cap(dst.Pix)]
	for i := range all {
		all[i] = 0xA5
	}
	blur(dst)
	for i := len(dst.Pix) + vectorMax; i < len(all); i++ {
		testenv.Require(t, all[i] == 0xA5, "wrote %d bytes behind an image of %d×%d", i-len(dst.Pix), src.Width, src.Height)
	}
	return dst
}

// startPillow starts a Python process and returns what asks it for Pillow's pixels.
func startPillow(t *testing.T) func(src *imagefile.RGB, radius float64) []byte {
	in, out, _ := pillowtest.Start(t)
	return func(src *imagefile.RGB, radius float64) []byte {
		fmt.Fprintln(in, src.Width, src.Height, radius)
		in.Write(src.Pix)
		pix := make([]byte, len(src.Pix))
		testenv.Must(io.ReadFull(out, pix))(t)
		return pix
	}
}

// TestPillow compares with Pillow's bits, at every level.
func TestPillow(t *testing.T) {
	answers, rng := pillowtest.Load(t, "testdata/boxes.crc", *update), rand.New(rand.NewPCG(1, 2))
	ask := func(*imagefile.RGB, float64) []byte { return nil }
	if answers.Live {
		ask = startPillow(t)
	}
	for i := range 400 {
		src := newImage(rng, 1+rng.IntN(80), 1+rng.IntN(50))
		radius := []float64{0.1 + rng.Float64()*1.9, rng.Float64() * 8, rng.Float64() * RadiusMax, float64(rng.IntN(RadiusMax + 1)), 1e-6}[i%5]
		want := ask(src, radius)
		for k, r := range blurrers() {
			got := blurred(t, src, func(dst *imagefile.RGB) { r.Pillow(dst, src, radius) })
			testenv.OK(t, answers.Compare(i, got.Pix, want), "%v: %d×%d by %v", kernel.Available()[k], src.Width, src.Height, radius)
		}
	}
}

// gaussian returns the weights of a kernel's middle tap and of those to one side.
func gaussian(size int, sigma float64) []float32 {
	weights, sum := make([]float32, size/2+1), -1.0
	for i := range weights {
		sum += 2 * math.Exp(-0.5*float64(i*i)/sigma/sigma)
	}
	for i := range weights {
		weights[i] = float32(math.Exp(-0.5*float64(i*i)/sigma/sigma) / sum)
	}
	return weights
}

// TestTorchvision compares with a plain sum by both directions in float64, from which float32 may round otherwise where it is as
// good as half way; all levels have the same bits.
func TestTorchvision(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	values, others := 0, 0
	for range 60 {
		w, h := 12+rng.IntN(60), 12+rng.IntN(30)
		src, sigma := newImage(rng, w, h), 0.1+rng.Float64()*3
		across, down := gaussian(1+2*rng.IntN(12), sigma), gaussian(1+2*rng.IntN(12), sigma)
		var first *imagefile.RGB
		for k, r := range blurrers() {
			got := blurred(t, src, func(dst *imagefile.RGB) { r.Torchvision(dst, src, across, down) })
			if first == nil {
				first = got
			} else if !bytes.Equal(got.Pix, first.Pix) {
				t.Fatalf("%v: %d×%d with %d × %d weights differs from the generic code's", kernel.Available()[k], w, h, len(across), len(down))
			}
		}
		mirrored := func(at, n int) int {
			if at < 0 {
				at = -at
			}
			return min(at, 2*(n-1)-at)
		}
		for i := range src.Pix {
			x, y, sum := i/3%w, i/3/w, 0.0
			for dy := 1 - len(down); dy < len(down); dy++ {
				for dx := 1 - len(across); dx < len(across); dx++ {
					weight := float64(down[max(dy, -dy)]) * float64(across[max(dx, -dx)])
					sum += weight * float64(src.Pix[3*(mirrored(y+dy, h)*w+mirrored(x+dx, w))+i%3])
				}
			}
			want := int(math.RoundToEven(sum))
			if off := int(first.Pix[i]) - want; off < -1 || off > 1 || off != 0 && math.Abs(math.Abs(sum-math.Floor(sum))-0.5) > 1e-3 {
				t.Fatalf("%d×%d: byte %d is %d, want %v", w, h, i, first.Pix[i], sum)
			} else if values++; off != 0 {
				others++
			}
		}
	}
	testenv.Between(t, others, 0, values/1000, "of %d values rounded otherwise", values)
}

func TestAllocations(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	src, dst := newImage(rng, 90, 70), new(imagefile.RGB)
	dst.Resize(90, 70)
	weights := gaussian(23, 2)
	for _, r := range blurrers() {
		run := func() {
			r.Pillow(dst, src, 2)
			r.Torchvision(dst, src, weights, weights)
		}
		run()
		testenv.NoAllocations(t, 20, run, "in the steady state")
	}
}

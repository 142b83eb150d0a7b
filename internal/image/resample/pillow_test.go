package resample

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"hash/crc32"
	"image"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/pillowtest"
	"github.com/imgfeed/imgfeed/internal/testenv"
)

// pillow is a Python process that answers with Pillow's results; see testdata/pillow.py.
type pillow struct {
	t         *testing.T
	in        *bufio.Writer
	r         *bufio.Reader
	algorithm Algorithm // whose bits it gives
}

func startPillow(t *testing.T) *pillow {
	t.Helper()
	in, out, name := pillowtest.Start(t)
	algorithm := testenv.Must(ParseAlgorithm(name))(t)
	return &pillow{t, bufio.NewWriterSize(in, 1<<20), out, algorithm}
}

func (p *pillow) ask(payload []byte, format string, args ...any) []byte {
	p.t.Helper()
	fmt.Fprintf(p.in, format+"\n", args...)
	p.in.Write(payload)
	testenv.OK(p.t, p.in.Flush())
	var length int32
	testenv.OK(p.t, binary.Read(p.r, binary.NativeEndian, &length), "no answer to %q", fmt.Sprintf(format, args...))
	answer := make([]byte, length)
	testenv.Must(io.ReadFull(p.r, answer))(p.t)
	return answer
}

func (p *pillow) ints(format string, args ...any) []int32 {
	p.t.Helper()
	data := p.ask(nil, format, args...)
	ints := make([]int32, len(data)/4)
	for i := range ints {
		ints[i] = int32(binary.NativeEndian.Uint32(data[4*i:]))
	}
	return ints
}

// TestPillow compares whole images and crops with Pillow: every filter, scales of 1/20 to 10 each way, each kernel.
func TestPillow(t *testing.T) {
	p := startPillow(t)
	rng := rand.New(rand.NewPCG(1, 2))
	images, verticalFirst := 0, 0
	for _, f := range everyFilter {
		cases := []resizeCase{
			{srcW: 500, srcH: 375, outW: 341, outH: 256, keep: image.Rect(58, 16, 282, 240)},
			{srcW: 2592, srcH: 1456, outW: 455, outH: 256, keep: image.Rect(115, 16, 339, 240)},
			{srcW: 300, srcH: 700, outW: 256, outH: 597, keep: image.Rect(16, 186, 240, 410)},
			{srcW: 190, srcH: 480, outW: 224, outH: 224, keep: image.Rect(0, 0, 224, 224)},
			{srcW: 37, srcH: 61, outW: 224, outH: 224, keep: image.Rect(0, 0, 224, 224)},
		}
		for i := range cases {
			cases[i].filter = f
			cases[i].fill(rng)
		}
		for i := range 240 {
			if i%2 == 0 {
				cases = append(cases, randomCase(rng, f, 300))
			} else {
				cases = append(cases, boundaryCase(rng, f, 300))
			}
		}
		for _, c := range cases {
			c.algorithm = p.algorithm
			p.compare(c)
			images++
			if f != Nearest && c.algorithm.verticalFirst(c.srcW, c.srcH, c.outW, c.outH) {
				verticalFirst++
			}
		}
	}
	t.Logf("%d images identical to Pillow's at each of %v, %d of them resized vertically first", images, kernel.Available(), verticalFirst)
}

// resize returns Pillow's pixels.
func (p *pillow) resize(c resizeCase) []byte {
	p.t.Helper()
	return p.ask(c.src, "resize %d %d %d %d %v %d %d %d %d", c.srcW, c.srcH, c.outW, c.outH, c.filter,
		c.keep.Min.X, c.keep.Min.Y, c.keep.Max.X, c.keep.Max.Y)
}

// compare resizes at every level and wants Pillow's pixels.
func (p *pillow) compare(c resizeCase) {
	p.t.Helper()
	want := p.resize(c)
	for _, level := range kernel.Available() {
		testenv.Same(p.t, c.run(p.t, New(level), NHWC, false), want, "%v, %v", c, level)
	}
}

// boundaryCase draws sizes at which the rows taken away are about twice the columns, within one either way or just as
// many: where releases of Pillow begin to differ.
func boundaryCase(rng *rand.Rand, f Filter, limit int) resizeCase {
	for {
		c := resizeCase{filter: f, algorithm: Algorithm(rng.IntN(3))}
		c.srcW, c.outW = randomSides(rng, limit)
		rows := 2*(c.srcW-c.outW) + rng.IntN(3) - 1
		if rng.IntN(4) == 0 {
			rows = rng.IntN(3) - 1 // and where none are
		}
		c.outH = 1 + rng.IntN(limit)
		if c.srcH = c.outH + rows; c.srcH < 1 || c.srcH > 20*c.outH || c.outH > 10*c.srcH {
			continue
		}
		c.draw(rng)
		return c
	}
}

// TestPillowWeights compares the fixed-point tables themselves, where a difference shows that no image may show.
func TestPillowWeights(t *testing.T) {
	p := startPillow(t)
	rng := rand.New(rand.NewPCG(3, 4))
	tables, weights := 0, 0
	for f := Box; f <= Lanczos; f++ {
		for range 250 {
			in, out := randomSides(rng, 400)
			from := rng.IntN(out)
			n := 1 + rng.IntN(out-from)
			want := p.ints("weights %d %d %d %d %v", in, out, from, n, f)
			for _, level := range kernel.Available() {
				var a axis
				a.compute(axisSpec{in, out, from, n, f, false, false}, level, false)
				testenv.OK(t, compareTable(&a, want), "%v, %d to %d, outputs %d to %d, %v", f, in, out, from, from+n-1, level)
			}
			tables++
			weights += len(want) - 1 - 2*n
		}
	}
	t.Logf("%d tables, %d weights identical to Pillow's arithmetic at each of %v", tables, weights, kernel.Available())
}

// compareTable compares with the answer to "weights". A table of an unchanged size holds the weight 1 alone.
func compareTable(a *axis, want []int32) error {
	taps, lows, counts, weights := int(want[0]), want[1:1+a.n], want[1+a.n:1+2*a.n], want[1+2*a.n:]
	for i := range a.n {
		for t := range taps {
			x, got := int(lows[i])+t, int32(0)
			if at := x - int(a.low[i]); at >= 0 && at < int(a.count[i]) {
				got = a.weight[at*a.pitch+i]
			}
			if w := weights[i*taps+t]; t < int(counts[i]) && got != w {
				return fmt.Errorf("entry %d weighs input %d with %d, Pillow with %d", i, x, got, w)
			}
		}
		if a.low[i] < lows[i] || a.low[i]+a.count[i] > lows[i]+counts[i] {
			return fmt.Errorf("entry %d reads %d inputs from %d, Pillow %d from %d", i, a.count[i], a.low[i], counts[i], lows[i])
		}
	}
	return nil
}

// A resizeCase is one resize of a random image. The slice holds the whole source, rows tightly packed.
type resizeCase struct {
	src                    []byte
	srcW, srcH, outW, outH int
	keep                   image.Rectangle
	filter                 Filter
	algorithm              Algorithm
}

func (c resizeCase) String() string {
	return fmt.Sprintf("%dx%d to %dx%d, %v, %v, keep %v", c.srcW, c.srcH, c.outW, c.outH, c.filter, c.algorithm, c.keep)
}

// randomSides returns sizes of at most limit whose scale lies within 1/20 and 10, often 1.
func randomSides(rng *rand.Rand, limit int) (in, out int) {
	for {
		in, out = 1+rng.IntN(limit), 1+rng.IntN(limit)
		if rng.IntN(2) == 0 {
			in, out = 1+rng.IntN(70), 1+rng.IntN(70)
		}
		if rng.IntN(16) == 0 {
			out = in
		}
		if in <= 20*out && out <= 10*in {
			return in, out
		}
	}
}

// randomCase draws sizes, a part to keep and pixels.
func randomCase(rng *rand.Rand, f Filter, limit int) resizeCase {
	c := resizeCase{filter: f}
	c.srcW, c.outW = randomSides(rng, limit)
	c.srcH, c.outH = randomSides(rng, limit)
	c.algorithm = Algorithm(rng.IntN(3))
	c.draw(rng)
	return c
}

// draw sets the part to keep (often all) and the pixels for the sides in c.
func (c *resizeCase) draw(rng *rand.Rand) {
	c.keep = image.Rect(0, 0, c.outW, c.outH)
	if rng.IntN(3) > 0 {
		x, y := rng.IntN(c.outW), rng.IntN(c.outH)
		c.keep = image.Rect(x, y, x+1+rng.IntN(c.outW-x), y+1+rng.IntN(c.outH-y))
	}
	c.fill(rng)
}

// fill sets the pixels: noise, or extremes that make ringing filters clip.
func (c *resizeCase) fill(rng *rand.Rand) {
	c.src = make([]byte, c.srcW*c.srcH*3)
	extremes := rng.IntN(2) == 0
	for i := range c.src {
		c.src[i] = byte(rng.Uint32())
		if extremes {
			c.src[i] = byte(int8(c.src[i]) >> 7)
		}
	}
}

// run resizes with the whole source given.
func (c resizeCase) run(t *testing.T, r *Resampler, layout Layout, flip bool) []byte {
	t.Helper()
	dst := Output{Pix: make([]byte, c.keep.Dx()*c.keep.Dy()*3), Width: c.keep.Dx(), Height: c.keep.Dy(), Layout: layout, Flip: flip}
	whole := image.Rect(0, 0, c.srcW, c.srcH)
	testenv.OK(t, r.Resize(dst, Scaling{c.src, 3 * c.srcW, whole, c.srcW, c.srcH, false, c.outW, c.outH, c.keep, c.filter, c.algorithm}))
	return dst.Pix
}

var update = flag.Bool("update", false, "write the lines of testdata/golden.txt that are of the installed Pillow's releases")

const goldenFile = "testdata/golden.txt"

// goldenCases are those of every filter, and half of them at the boundary between the orders, with pixels by their number.
func goldenCases(a Algorithm) []resizeCase {
	rng := rand.New(rand.NewPCG(31, 32))
	var cases []resizeCase
	for _, f := range everyFilter {
		for i := range 24 {
			c := randomCase(rng, f, 120)
			if i%2 == 1 {
				c = boundaryCase(rng, f, 120)
			}
			c.algorithm = a
			cases = append(cases, c)
		}
	}
	return cases
}

// goldenLine describes a case and its result.
func goldenLine(c resizeCase, pix []byte) string {
	return fmt.Sprintf("%v %v %d %d %d %d %d %d %d %d %08x", c.algorithm, c.filter, c.srcW, c.srcH, c.outW, c.outH, c.keep.Min.X, c.keep.Min.Y,
		c.keep.Max.X, c.keep.Max.Y, crc32.ChecksumIEEE(pix))
}

// TestGolden compares with checksums of what both kinds of Pillow's releases have made, where neither is installed.
func TestGolden(t *testing.T) {
	if *update {
		updateGolden(t)
	}
	file := testenv.Opened(os.Open(goldenFile))(t)
	want := map[string][]string{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if name, _, ok := strings.Cut(lines.Text(), " "); ok && name != "#" {
			want[name] = append(want[name], lines.Text())
		}
	}
	for _, level := range kernel.Available() {
		r := New(level)
		differ := 0
		after, before := goldenCases(Pillow13), goldenCases(Pillow12)
		for i := range after {
			newer, older := after[i].run(t, r, NHWC, false), before[i].run(t, r, NHWC, false)
			if !bytes.Equal(newer, older) {
				differ++
			}
			for _, line := range []string{goldenLine(after[i], newer), goldenLine(before[i], older)} {
				name, _, _ := strings.Cut(line, " ")
				testenv.Require(t, len(want[name]) == len(after) && line == want[name][i],
					"%v: %s is not line %d of the %d of this resampler", level, line, i+1, len(want[name]))
			}
		}
		testenv.Check(t, differ >= 10, "%v: %d results tell the releases apart, too few to test their order", level, differ)
	}
}

// updateGolden asks the installed Pillow.
func updateGolden(t *testing.T) {
	p := startPillow(t)
	old, err := os.ReadFile(goldenFile)
	testenv.Require(t, err == nil || os.IsNotExist(err), "%v", err)
	lines := []string{"# resampler filter source output kept-from kept-to crc32: TestGolden's, by go test -run Golden -update with each Pillow"}
	for _, line := range strings.Split(strings.TrimSpace(string(old)), "\n") {
		if !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, p.algorithm.String()+" ") && line != "" {
			lines = append(lines, line)
		}
	}
	for _, c := range goldenCases(p.algorithm) {
		lines = append(lines, goldenLine(c, p.resize(c)))
	}
	// Lines keep the cases' order; those of the release that was asked come last.
	testenv.OK(t, os.WriteFile(goldenFile, []byte(strings.Join(lines, "\n")+"\n"), 0o666))
}

package pointwise

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/pillowtest"
	"github.com/imgfeed/imgfeed/internal/testenv"
)

// TestPosterizeToZeroBits covers the one depth that Pillow's checksums do not.
func TestPosterizeToZeroBits(t *testing.T) {
	src := []byte{255, 0, 0, 10, 20, 30, 200, 100, 50}
	for _, level := range kernel.Available() {
		testenv.Same(t, (adjustment{"posterize", 0}).run(New(level), src, 3, 1), make([]byte, len(src)), "%v", level)
	}
}

// TestEveryColour compares every level with the generic code for every colour there is, each with one of many shifts of hue and factors of
// saturation.
func TestEveryColour(t *testing.T) {
	levels := kernel.Available()
	src, want, got := make([]byte, 3<<16), make([]byte, 3<<16), make([]byte, 3<<16)
	step := 1
	if testing.Short() {
		step = 17
	}
	for red := 0; red < 256; red += step {
		for i := range 1 << 16 {
			src[3*i], src[3*i+1], src[3*i+2] = byte(red), byte(i>>8), byte(i)
		}
		shift, factor := float64(red*37%256), float64(red*53%256)/100 // 0 to 2.55
		for name, work := range map[string]func(a *Adjuster, dst []byte){
			"hue":        func(a *Adjuster, dst []byte) { a.Hue(dst, src, shift) },
			"saturation": func(a *Adjuster, dst []byte) { a.Saturation(dst, src, factor) },
			"gray":       func(a *Adjuster, dst []byte) { a.Gray(dst, src, 0) },

			"tensor hue":        func(a *Adjuster, dst []byte) { a.On(true).Hue(dst, src, shift/255-0.5) },
			"tensor saturation": func(a *Adjuster, dst []byte) { a.On(true).Saturation(dst, src, factor) },
			"tensor gray":       func(a *Adjuster, dst []byte) { a.On(true).Gray(dst, src, 0) },
		} {
			work(New(kernel.Generic), want)
			for _, level := range levels[1:] {
				work(New(level), got)
				testenv.Same(t, got, want, "%v: %s of the colours with red %d, by %v or %v", level, name, red, shift, factor)
			}
		}
	}
}

// TestLevels compares the kernels with the generic code for images of every width, and looks for bytes that were changed around them.
func TestLevels(t *testing.T) {
	levels := kernel.Available()[1:]
	if len(levels) == 0 {
		t.Skip("no accelerated kernels in this build (GOEXPERIMENT=simd on amd64 or arm64) or for this processor")
	}
	rng := rand.New(rand.NewPCG(3, 4))
	const room = 256
	for w := 1; w <= 140; w++ {
		h := 1 + rng.IntN(5)
		src := testImage(rng, w, h)
		for _, a := range slices.Concat(adjustments(rng), tensorAdjustments(rng), []adjustment{{"permute", 120}, {"permute", 210}}) {
			want := a.run(New(kernel.Generic), src, w, h)
			for _, level := range levels {
				memory := bytes.Repeat([]byte{0xA5}, len(src)+2*room)
				copy(memory[room:], src)
				inside := memory[room : room+len(src) : room+len(src)]
				a.inPlace(New(level), inside, src, w, h)
				testenv.Same(t, inside, want, "%v: %s(%v) of %d×%d", level, a.op, a.value, w, h)
				edge := bytes.Repeat([]byte{0xA5}, room)
				testenv.Same(t, memory[:room], edge, "%v: %s(%v) of %d×%d: before the image", level, a.op, a.value, w, h)
				testenv.Same(t, memory[room+len(src):], edge, "%v: %s(%v) of %d×%d: behind the image", level, a.op, a.value, w, h)
			}
		}
	}
}

// at returns what a line gives for a byte.
func (t *line) at(v byte) byte {
	if v <= t.before && t.always == 0 {
		return 0
	}
	v -= min(v, t.start)
	h, l := v>>4, v&15
	bits := t.first[l]
	if h >= 8 {
		bits = t.second[l]
	}
	return byte(min(int(t.base[h])+int(t.offset[l])+int(bits>>(h%8)&1), 255))
}

// TestLines: the tables of blends and of autocontrast are lines, which give the same bytes.
func TestLines(t *testing.T) {
	var table [256]byte
	var l line
	check := func(name string, of ...any) {
		for v := range table {
			if got := l.at(byte(v)); got != table[v] {
				t.Fatalf(name+": %d gives %d, want %d", append(of, v, got, table[v])...)
			}
		}
	}
	rng := rand.New(rand.NewPCG(5, 6))
	factors := []float32{0, 1e-7, 1 - 1e-7, 1, 1 + 1e-7, 255, 1e6}
	for i := range 4000 {
		factors = append(factors, float32(i)/1000, 2*rng.Float32(), 1+0.9*float32(i%31)/30, 1-0.99*float32(i%31)/30, 1/max(rng.Float32(), 1e-6))
	}
	for i, factor := range factors {
		with := byte(i * 7)
		if i%3 == 0 {
			with = 0
		}
		for v := range table {
			table[v] = blend(with, byte(v), factor)
		}
		testenv.Check(t, l.fit(&table, float64(factor), 1), "the blend with %d by %v is not a line", with, factor)
		check("the blend with %d by %v", with, factor)
	}
	others := 0
	for high := range 256 {
		for low := range high + 1 {
			if slope := spread(&table, low, high); !l.fit(&table, slope, 0) {
				others++
				continue
			}
			l.always = 255 // autocontrast's kernel does not look at leading zeros
			check("the spread of %d to %d", low, high)
		}
	}
	if others > 5 { // these five are looked up
		t.Errorf("%d spreads are not lines, want 5", others)
	}
	for v := range table {
		table[v] = byte(v * v >> 8)
	}
	testenv.Check(t, !l.fit(&table, 1, 1), "a square is a line")
}

// BenchmarkAdjustments measures adjustments that differ for images of Pillow and for tensors, with the image of training.
func BenchmarkAdjustments(b *testing.B) {
	const side = 224
	rng := rand.New(rand.NewPCG(5, 6))
	src, dst := make([]byte, 3*side*side), make([]byte, 3*side*side)
	for i := range src {
		src[i] = byte(i/17) + byte(rng.IntN(64))
	}
	for _, level := range kernel.Available()[1:] {
		adjuster := New(level)
		for _, op := range []struct {
			name   string
			amount [2]float64 // of the image of Pillow, and of the tensor
		}{{"gray", [2]float64{}}, {"saturation", [2]float64{1.3, 1.3}}, {"contrast", [2]float64{1.3, 1.3}}, {"hue", [2]float64{30, 0.117}}} {
			for i, name := range [2]string{op.name, "tensor " + op.name} {
				b.Run(fmt.Sprintf("%v/%s", level, name), func(b *testing.B) {
					b.SetBytes(int64(len(src)))
					for b.Loop() {
						byName[op.name](adjuster.On(i == 1), dst, src, op.amount[i])
					}
				})
			}
		}
	}
}

var update = flag.Bool("update", false, "write the checksums of testdata anew, once Pillow has the same results")

var everyColour = flag.Bool("every-colour", false, "compare with Pillow on an image of all 2^24 colours, too")

// An adjustment is one function of Adjuster with its parameter, by the name that testdata/adjust.py has for it.
type adjustment struct {
	op    string
	value float64
}

// byName are the functions that change pixels in place.
var byName = map[string]Adjustment{
	"invert": (*Adjuster).Invert, "gray": (*Adjuster).Gray, "permute": (*Adjuster).Permute, "autocontrast": (*Adjuster).Autocontrast, "equalize": (*Adjuster).Equalize,
	"posterize": (*Adjuster).Posterize, "solarize": (*Adjuster).Solarize, "solarize add": (*Adjuster).SolarizeAdd,
	"brightness": (*Adjuster).Brightness, "contrast": (*Adjuster).Contrast, "saturation": (*Adjuster).Saturation, "hue": (*Adjuster).Hue,
}

// run adjusts an image of w × h pixels and returns the result, in new memory.
func (a adjustment) run(adjuster *Adjuster, src []byte, w, h int) []byte {
	dst := bytes.Repeat([]byte{0xA5}, len(src))
	a.into(adjuster, dst, src, src, w, h)
	return dst
}

// inPlace adjusts pix, which equals src.
func (a adjustment) inPlace(adjuster *Adjuster, pix, src []byte, w, h int) {
	a.into(adjuster, pix, pix, src, w, h)
}

// into adjusts src, which may be dst. other is an equal image in other memory, for sharpness.
func (a adjustment) into(adjuster *Adjuster, dst, src, other []byte, w, h int) {
	op, tensors := strings.CutPrefix(a.op, "tensor ")
	if adjuster.On(tensors); op == "sharpness" {
		adjuster.Sharpness(dst, other, w, h, a.value)
	} else {
		byName[op](adjuster, dst, src, a.value)
	}
}

// adjustments returns every function, with parameters at the edges and at random.
func adjustments(rng *rand.Rand) []adjustment {
	all := []adjustment{{"invert", 0}, {"gray", 0}, {"autocontrast", 0}, {"equalize", 0}, {"hue", 0}, {"hue", 255}, {"hue", float64(rng.IntN(256))}}
	for bits := 1; bits <= 8; bits++ {
		all = append(all, adjustment{"posterize", float64(bits)})
	}
	for _, t := range []float64{0, 1, 127.5, 128, 255, 256, 256 * rng.Float64()} {
		all = append(all, adjustment{"solarize", t})
	}
	for _, add := range []float64{0, 1, 110, 128, float64(rng.IntN(256))} {
		all = append(all, adjustment{"solarize add", add})
	}
	for _, op := range []string{"brightness", "contrast", "saturation", "sharpness"} {
		for _, f := range []float64{0, 1, 0.1, 0.5, 1.5, 1.9, 2, 10, 300, 1e6, 1 - 1e-7, 1 + 1e-7, 2 * rng.Float64(), 4 * rng.Float64()} {
			all = append(all, adjustment{op, f})
		}
	}
	return all
}

// tensorAdjustments returns those of tensors, and those that are the same for both.
func tensorAdjustments(rng *rand.Rand) []adjustment {
	all := []adjustment{
		{"tensor gray", 0}, {"tensor autocontrast", 0}, {"equalize", 0}, {"invert", 0}, {"posterize", 3}, {"solarize", 127.5}, {"solarize", 255},
		{"brightness", 0.3}, {"brightness", 1.7},
	}
	for _, shift := range []float64{0, 0.5, -0.5, 1e-9, -1e-9, 1. / 3, rng.Float64() - 0.5, rng.Float64() - 0.5} {
		all = append(all, adjustment{"tensor hue", shift})
	}
	for _, op := range []string{"contrast", "saturation", "sharpness"} {
		for _, f := range []float64{0, 1, 0.1, 0.5, 1.5, 1.9, 2, 10, 300, 1e6, 1 - 1e-8, 1 + 1e-8, 2 * rng.Float64(), 4 * rng.Float64()} {
			all = append(all, adjustment{"tensor " + op, f})
		}
	}
	return all
}

// A testImage has w × h pixels of noise, of few levels or of one.
func testImage(rng *rand.Rand, w, h int) []byte {
	pix := make([]byte, 3*w*h)
	low, span := rng.IntN(200), 1+rng.IntN(256)
	switch rng.IntN(4) {
	case 0:
		span = 1
	case 1:
		low, span = 0, 256
	}
	for i := range pix {
		pix[i] = byte(min(low+rng.IntN(span), 255))
	}
	return pix
}

// TestMatchesPillow compares every adjustment with Pillow's, at every level.
func TestMatchesPillow(t *testing.T) {
	compareWith(t, "adjust", adjustments, "gray", "saturation", "hue")
}

// TestMatchesTorchvision compares every adjustment of tensors with torchvision's.
func TestMatchesTorchvision(t *testing.T) {
	compareWith(t, "tensor", tensorAdjustments, "tensor gray", "tensor saturation", "tensor hue")
}

// compareWith compares adjustments with those of a program of testdata; with every colour those of three names.
func compareWith(t *testing.T, program string, adjustments func(*rand.Rand) []adjustment, gray, saturation, hue string) {
	answers := pillowtest.Load(t, "testdata/"+program+".crc", *update)
	rng := rand.New(rand.NewPCG(1, 2))
	var asked bytes.Buffer
	type expected struct {
		adjustment
		src  []byte
		w, h int
	}
	var list []expected
	ask := func(e expected) {
		line := testenv.Must(json.Marshal(map[string]any{"op": e.op, "value": e.value, "width": e.w, "height": e.h}))(t)
		asked.Write(append(append(line, '\n'), e.src...))
		list = append(list, e)
	}
	for _, size := range [][2]int{{1, 1}, {2, 5}, {3, 3}, {17, 2}, {20, 20}, {33, 31}, {47, 61}, {64, 40}, {129, 20}} {
		for _, a := range adjustments(rng) {
			if a.op == "tensor contrast" && size[0]*size[1]*3%16 != 0 {
				continue // torch does not fuse all additions of the last values
			}
			ask(expected{a, testImage(rng, size[0], size[1]), size[0], size[1]})
		}
	}
	if *everyColour && answers.Live && !*update {
		pix := make([]byte, 0, 3<<24)
		for c := range 1 << 24 {
			pix = append(pix, byte(c>>16), byte(c>>8), byte(c))
		}
		for _, a := range []adjustment{{gray, 0}, {saturation, 0.3}, {saturation, 1.7}, {hue, 0}, {hue, map[bool]float64{true: 100, false: 0.4}[hue == "hue"]}} {
			ask(expected{a, pix, 4096, 4096})
		}
	}
	var made []byte
	if answers.Live {
		modules := map[string][]string{"tensor": {"torchvision.transforms.v2"}}[program]
		python, _ := pillowtest.Find(t, modules...)
		cmd := exec.Command(python, "-W", "ignore", "testdata/"+program+".py")
		cmd.Stdin = &asked
		made = testenv.Must(cmd.Output())(t)
	}
	for k, e := range list {
		var want []byte
		if answers.Live {
			want, made = made[:len(e.src)], made[len(e.src):]
		}
		for _, level := range kernel.Available() {
			testenv.OK(t, answers.Compare(k, e.run(New(level), e.src, e.w, e.h), want), "%v: %s(%v) of %d×%d", level, e.op, e.value, e.w, e.h)
		}
	}
	t.Logf("%d results identical at %v", len(list), kernel.Available())
}

package pointwise

import (
	"bytes"
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/pillowtest"
	"github.com/imgfeed/imgfeed/internal/testenv"
)

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

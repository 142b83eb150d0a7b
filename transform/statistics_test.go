package transform

import (
	"fmt"
	"image"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/pillowtest"
	"github.com/imgfeed/imgfeed/internal/testenv"
)

// Statistics of draws, of as many samples as statisticsOf says, against the distributions that torchvision and timm state. Seeds are fixed: a
// test passes always or never.
func statisticsOf() int {
	if testing.Short() {
		return 10000
	}
	return 100000
}

// eachRecord calls visit with what an operation records for each of n samples, of an image of w × h pixels.
func eachRecord(t *testing.T, text string, w, h, n int, visit func(record string)) {
	t.Helper()
	op := mustParse(fmt.Sprintf(`[{"op":"CenterCrop","size":[%d,%d]},%s]`, h, w, text)).ops[1]
	engine, log := NewEngine(kernel.Active()), &recorder{}
	engine.scratch[0].Resize(w, h)
	for i := range n {
		log.text = log.text[:0]
		c := &canvas{engine: engine, draws: NewRNG(4, 5, i), log: log, from: &engine.scratch[0], step: wholeImage(w, h), rendered: 1}
		testenv.OK(t, op.apply(c))
		visit(log.String())
	}
}

// numberIn returns an argument of the first call of a record: the first number, if it has several.
func numberIn(t *testing.T, record, name string) float64 {
	t.Helper()
	_, after, found := strings.Cut(record, `"`+name+`": `)
	after = strings.TrimLeft(after, "[")
	v, err := strconv.ParseFloat(after[:strings.IndexAny(after, ",]}")], 64)
	testenv.Require(t, found && err == nil, "%s has no %s: %v", record, name, err)
	return v
}

// near checks that a number is less than off away from another.
func near(t *testing.T, got, want, off float64, of string, args ...any) {
	t.Helper()
	testenv.Between(t, got, want-off, want+off, of, args...)
}

// within compares a count with a binomial distribution: five standard deviations.
func within(t *testing.T, what string, count, n int, p float64) {
	t.Helper()
	near(t, float64(count), float64(n)*p, 5*math.Sqrt(float64(n)*p*(1-p)), "%s of %d", what, n)
}

// TestProbabilities: operations with a p are done with that probability, and nothing is done else.
func TestProbabilities(t *testing.T) {
	for _, text := range []string{
		`{"op":"RandomHorizontalFlip","p":%v}`, `{"op":"RandomVerticalFlip","p":%v}`, `{"op":"RandomInvert","p":%v}`, `{"op":"RandomGrayscale","p":%v}`,
		`{"op":"RandomAdjustSharpness","sharpness_factor":2,"p":%v}`, `{"op":"RandomPosterize","bits":3,"p":%v}`,
		`{"op":"RandomSolarize","threshold":9,"p":%v}`, `{"op":"RandomAutocontrast","p":%v}`, `{"op":"RandomEqualize","p":%v}`,
		`{"op":"PILGaussianBlur","p":%v}`, `{"op":"RandomApply","transforms":[{"op":"RandomInvert","p":1},{"op":"RandomInvert","p":1}],"p":%v}`,
		`{"op":"TimmAugment","config":"rand-n1-p%v"}`,
	} {
		const p = 0.3
		done := 0
		eachRecord(t, fmt.Sprintf(text, p), 4, 3, statisticsOf(), func(record string) {
			if record != "[]" {
				done++
			}
		})
		within(t, fmt.Sprintf(text, p), done, statisticsOf(), p)
	}
}

// TestEvenNumbers: numbers that are drawn from a range are spread over it evenly, χ² of twenty cells.
func TestEvenNumbers(t *testing.T) {
	for _, c := range []struct {
		text, name string
		low, high  float64
	}{
		{`{"op":"RandomRotation","degrees":30}`, "angle", -30, 30},
		{`{"op":"RandomRotation","degrees":[10,170]}`, "angle", 10, 170},
		{`{"op":"RandomAffine","degrees":[-20,50],"scale":[0.5,2]}`, "angle", -20, 50},
		{`{"op":"RandomAffine","degrees":0,"scale":[0.5,2]}`, "scale", 0.5, 2},
		{`{"op":"RandomAffine","degrees":0,"shear":[-8,4]}`, "shear", -8, 4},
		{`{"op":"GaussianBlur","kernel_size":3}`, "sigma", 0.1, 2},
		{`{"op":"PILGaussianBlur","p":1}`, "radius", 0.1, 2},
		{`{"op":"ColorJitter","brightness":0.4}`, "brightness_factor", 0.6, 1.4},
		{`{"op":"ColorJitter","contrast":[0.2,3]}`, "contrast_factor", 0.2, 3},
		{`{"op":"ColorJitter","saturation":1.5}`, "saturation_factor", 0, 2.5},
		{`{"op":"ColorJitter","hue":0.1}`, "hue_factor", -0.1, 0.1},
	} {
		cells := map[string]int{}
		eachRecord(t, c.text, 4, 3, statisticsOf(), func(record string) {
			at := (numberIn(t, record, c.name) - c.low) / (c.high - c.low)
			testenv.Require(t, at >= 0 && at <= 1, "%s: %s", c.text, record)
			cells[fmt.Sprint(min(int(20*at), 19))]++
		})
		evenly(t, c.text, cells, 20)
	}
}

// TestEvenOffsets: every offset of a crop is as likely, and so is every shift of an affine map, in whole pixels.
func TestEvenOffsets(t *testing.T) {
	offsets := map[string]int{}
	eachRecord(t, `{"op":"RandomCrop","size":[6,7],"padding":2}`, 9, 8, statisticsOf(), func(record string) {
		offsets[fmt.Sprint(numberIn(t, record, "top"), numberIn(t, record, "left"))]++
	})
	evenly(t, "offsets of 6×7 in 12×13", offsets, 7*7)
	shifts := map[string]int{}
	eachRecord(t, `{"op":"RandomAffine","degrees":0,"translate":[0.5,0]}`, 7, 5, statisticsOf(), func(record string) {
		shifts[fmt.Sprint(numberIn(t, record, "translate"))]++
	})
	// torchvision rounds an even number of [−3.5, 3.5], halves to even: the ends come half as often, as their neighbours do entirely.
	evenly(t, "shifts", shifts, 7)
}

// TestChoicesAndOrders: each is as likely, or as its weight says.
func TestChoicesAndOrders(t *testing.T) {
	const three = `[{"op":"RandomInvert","p":1},{"op":"RandomEqualize","p":1},{"op":"RandomAutocontrast","p":1}]`
	orders, choices, weighted := map[string]int{}, map[string]int{}, map[string]int{}
	eachRecord(t, `{"op":"RandomOrder","transforms":`+three+`}`, 3, 2, statisticsOf(), func(record string) { orders[record]++ })
	evenly(t, "orders", orders, 6)
	jitters, factor := map[string]int{}, regexp.MustCompile(`\w+_factor`)
	eachRecord(t, `{"op":"ColorJitter","brightness":0.4,"contrast":0.4,"saturation":0.4,"hue":0.1}`, 3, 2, statisticsOf(), func(record string) {
		jitters[fmt.Sprint(factor.FindAllString(record, -1))]++
	})
	evenly(t, "orders of ColorJitter", jitters, 24)
	eachRecord(t, `{"op":"RandomChoice","transforms":`+three+`}`, 3, 2, statisticsOf(), func(record string) { choices[record]++ })
	evenly(t, "choices", choices, 3)
	eachRecord(t, `{"op":"RandomChoice","transforms":`+three+`,"p":[1,0,4]}`, 3, 2, statisticsOf(), func(record string) { weighted[record]++ })
	within(t, "a choice with a weight of 1 of 5", weighted[`[{"op": "invert"}]`], statisticsOf(), 0.2)
	within(t, "a choice with a weight of 4 of 5", weighted[`[{"op": "autocontrast"}]`], statisticsOf(), 0.8)
}

// callsOfSteps says which calls are of the steps of AutoAugment's policies and timm's.
var callsOfSteps = map[string]string{
	"Rotate": "rotate", "Invert": "invert", "Equalize": "equalize", "Color": "adjust_saturation", "ShearX": "shear", "ShearY": "shear",
	"TranslateX": "translate", "TranslateY": "translate", "Contrast": "adjust_contrast", "Sharpness": "adjust_sharpness",
	"Brightness": "adjust_brightness", "Solarize": "solarize", "SolarizeAdd": "solarize_add", "Posterize": "posterize", "PosterizeOriginal": "posterize",
	"PosterizeIncreasing": "posterize", "AutoContrast": "autocontrast", "TranslateYRel": "translate", "Desaturate": "adjust_saturation",
	"GaussianBlurRand": "pillow_gaussian_blur",
}

// groupedKind is a kind of call without what tells shears and translations apart, which are the same where they are by nothing.
func groupedKind(kind string) string {
	if kind = strings.TrimRight(kind, "XY"); kind == "shear" || kind == "translate" || kind == "affine by nothing" || kind == "pillow_transform" {
		return "map"
	}
	return kind
}

// TestPolicyDraws: of policies that are lists of steps with probabilities, each policy is as likely, and each of its steps done with its own.
func TestPolicyDraws(t *testing.T) {
	want := map[string]map[string]float64{}
	add := func(text, step string, p float64) {
		if want[text] == nil {
			want[text] = map[string]float64{}
		}
		if p > 0 {
			want[text][groupedKind(callsOfSteps[step])] += p
		}
	}
	for name, pairs := range autoAugmentPolicies {
		for _, pair := range pairs {
			for _, step := range pair {
				add(fmt.Sprintf(`{"op":"AutoAugment","policy":%q}`, name), step.name, step.p/float64(len(pairs)))
			}
		}
	}
	for _, name := range []string{"v0", "original", "originalr", "3a"} {
		policies := timmPolicies(name)
		for _, policy := range policies {
			for _, step := range policy {
				add(fmt.Sprintf(`{"op":"TimmAugment","config":%q}`, name), step.name, step.p/float64(len(policies)))
			}
		}
	}
	for text, shares := range want {
		done := map[string]float64{}
		for _, record := range drawnRecords(t, text, statisticsOf()) {
			for _, call := range record {
				done[groupedKind(kindOfCall(call))]++
			}
		}
		for kind, share := range shares {
			// Of a kind there are two at most for an image, so that the variance is below twice the mean.
			expected := share * float64(statisticsOf())
			near(t, done[kind], expected, 5*math.Sqrt(2*expected), "%s: %s", text, kind)
		}
		testenv.Equal(t, len(done), len(shares), "%s: %v: kinds", text, done)
	}
}

// TestMixDraws: the chains' depths are as likely, and so is every augmentation of each, with every magnitude up to the severity.
func TestMixDraws(t *testing.T) {
	for text, kinds := range map[string]int{`{"op":"AugMix","severity":3}`: 13, `{"op":"TimmAugment","config":"augmix"}`: 13, `{"op":"AugMix","severity":3,"all_ops":false}`: 9} {
		depths, calls, factors, all := map[string]int{}, map[string]int{}, map[string]int{}, 0
		for _, record := range drawnRecords(t, text, statisticsOf()/6) { // of about six calls each
			for _, chain := range record[0]["chains"].([]any) {
				depths[fmt.Sprint(len(chain.([]any)))]++
				for _, c := range chain.([]any) {
					call := c.(map[string]any)
					calls[groupedKind(kindOfCall(call))]++
					all++
					if call["op"] == "adjust_contrast" {
						factors[fmt.Sprint(call["contrast_factor"])]++
					}
				}
			}
		}
		evenly(t, text+": depths", depths, 3)
		maps := calls["map"]
		delete(calls, "map")
		within(t, text+": shears and translations", maps, all, 4/float64(kinds))
		evenly(t, text+": other augmentations", calls, kinds-4)
		if strings.Contains(text, `"AugMix"`) && kinds == 13 {
			if factors["1"] /= 2; len(factors) != 5 { // which comes with either sign
				t.Fatalf("factors %v, want 5", factors)
			}
			evenly(t, text+": factors", factors, 5)
		}
	}
}

// drawnCells counts what an operation draws: quantities in cells.
type drawnCells map[string]map[string]int

func (d drawnCells) count(quantity, cell string) {
	if d[quantity] == nil {
		d[quantity] = map[string]int{}
	}
	d[quantity][cell]++
}

// tenth returns the cell of a share, of ten.
func tenth(x float64) string { return fmt.Sprint(min(int(10*x), 9)) }

// TestTargetDraws compares what operations of detection and segmentation draw with what torchvision draws: χ² of two samples.
func TestTargetDraws(t *testing.T) {
	torchvisions := testenv.FromJSON[map[string]drawnCells](t, pillowtest.Output(t, "testdata/target_draws.py", *update, "torchvision.tv_tensors"))
	const w, h = 100, 80
	for name, text := range map[string]string{
		"RandomZoomOut": `{"op":"RandomZoomOut","p":1}`, "RandomIoUCrop": `{"op":"RandomIoUCrop"}`, "RandomPhotometricDistort": `{"op":"RandomPhotometricDistort"}`,
		"RandomResize": `{"op":"RandomResize","min_size":10,"max_size":17}`, "ScaleJitter": `{"op":"ScaleJitter","target_size":[60,50]}`,
		"RandomShortestSize": `{"op":"RandomShortestSize","min_size":[20,33,50],"max_size":60}`,
	} {
		op := mustParse(`[` + text + `,{"op":"CenterCrop","size":9}]`).ops[0]
		engine, log, got := NewEngine(kernel.Active()), &recorder{}, drawnCells{}
		engine.scratch[0].Resize(w, h)
		targets := new(Targets)
		for i := range 20000 {
			log.text = log.text[:0]
			targets.Boxes = append(targets.Boxes[:0], 10, 10, 60, 50, 40, 30, 95, 75)
			targets.begin(w, h)
			c := &canvas{engine: engine, draws: NewRNG(4, 5, i), log: log, from: &engine.scratch[0], step: wholeImage(w, h), rendered: 1, targets: targets}
			testenv.OK(t, op.apply(c))
			countDraws(t, got, name, log.String(), w, h, c)
		}
		for quantity, want := range torchvisions[name] {
			alike(t, name+" "+quantity, got[quantity], want)
		}
	}
}

// countDraws counts what one application drew, of an image of w × h pixels.
func countDraws(t *testing.T, got drawnCells, name, record string, w, h int, c *canvas) {
	t.Helper()
	calls := testenv.FromJSON[[]map[string]any](t, record)
	newW, newH := c.size()
	switch name {
	case "RandomZoomOut":
		got.count("width", tenth(float64(newW-w)/float64(3*w)))
		got.count("height", tenth(float64(newH-h)/float64(3*h)))
		if newW >= 2*w {
			r := calls[0]["padding"].([]any)
			got.count("left", tenth(r[0].(float64)/float64(newW-w+1)))
			got.count("top", tenth(r[1].(float64)/float64(newH-h+1)))
		}
	case "RandomIoUCrop":
		got.count("whole", map[bool]string{true: "True", false: "False"}[len(calls) == 0])
		if len(calls) == 0 {
			return
		}
		part := image.Pt(int(calls[0]["left"].(float64)), int(calls[0]["top"].(float64)))
		got.count("width", tenth(float64(newW)/float64(w+1)))
		got.count("height", tenth(float64(newH)/float64(h+1)))
		got.count("left", tenth(float64(part.X)/float64(w)))
		got.count("top", tenth(float64(part.Y)/float64(h)))
		kept := []string{}
		for _, outside := range c.targets.marked {
			kept = append(kept, map[bool]string{true: "0", false: "1"}[outside])
		}
		got.count("kept", strings.Join(kept, ","))
	case "RandomPhotometricDistort":
		countDistortions(got, calls)
	case "RandomResize":
		got.count("size", fmt.Sprintf("[%d]", min(newW, newH)))
	case "ScaleJitter":
		got.count("width", tenth(float64(newW)/125))
	case "RandomShortestSize":
		got.count("size", fmt.Sprintf("%d,%d", newH, newW))
	}
}

func countDistortions(got drawnCells, calls []map[string]any) {
	names := []string{"brightness", "contrast", "saturation", "hue"}
	ranges := [][2]float64{{0.875, 1.125}, {0.5, 1.5}, {0.5, 1.5}, {-0.05, 0.05}}
	which, channels, at := []byte("----"), "0,1,2", [4]int{}
	for k, call := range calls {
		if call["op"] == "permute_channels" {
			channels = strings.Trim(strings.ReplaceAll(fmt.Sprint(call["permutation"]), " ", ","), "[]")
		}
		for i, name := range names {
			if f, ok := call[name+"_factor"].(float64); ok {
				which[i], at[i] = 'x', k
				got.count(name, tenth((f-ranges[i][0])/(ranges[i][1]-ranges[i][0])))
			}
		}
	}
	got.count("which", string(which))
	if got.count("channels", channels); which[1] == 'x' && which[2] == 'x' {
		got.count("order", map[bool]string{true: "contrast first", false: "contrast last"}[at[1] < at[2]])
	}
}

// alike compares two samples by χ², of the cells with ten counts at least: its mean plus five deviations are allowed.
func alike(t *testing.T, what string, got, want map[string]int) {
	t.Helper()
	sums := [2]float64{}
	for _, n := range got {
		sums[0] += float64(n)
	}
	for _, n := range want {
		sums[1] += float64(n)
	}
	chi, cells := 0.0, 0
	for cell, n := range want {
		a, b := float64(got[cell]), float64(n)
		if a+b < 10 {
			continue
		}
		expected := (a + b) * sums[0] / (sums[0] + sums[1])
		other := a + b - expected
		chi += (a-expected)*(a-expected)/expected + (b-other)*(b-other)/other
		cells++
	}
	for cell, n := range got {
		testenv.Check(t, want[cell] != 0 || n < 10, "%s: %s comes %d times, and never in torchvision", what, cell, n)
	}
	free := float64(max(cells-1, 1))
	testenv.Between(t, chi, 0, free+5*math.Sqrt(2*free), "%s: χ² with %v degrees of freedom: %v, torchvision %v", what, free, got, want)
}

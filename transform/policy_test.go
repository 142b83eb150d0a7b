package transform

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/pillowtest"
	"github.com/imgfeed/imgfeed/internal/testenv"
)

// TestSpacesAreTorchvisions compares what policies choose from with torchvision's own.
func TestSpacesAreTorchvisions(t *testing.T) {
	out := pillowtest.Output(t, "testdata/spaces.py", *update, "torchvision")
	var want struct {
		Rand, Wide, Mix []map[string][]float64
		Policies        map[string][][2][3]any
	}
	testenv.OK(t, json.Unmarshal(out, &want))
	for i, size := range [][2]int{{224, 224}, {97, 161}} {
		compareSpace(t, &randSpace, want.Rand[i], 31, size)
		compareSpace(t, &wideSpace, want.Wide[i], 31, size)
		compareSpace(t, &mixSpace, want.Mix[i], mixBins, size)
	}
	for name, pairs := range want.Policies {
		for i, pair := range pairs {
			for j, step := range pair {
				got := autoAugmentPolicies[name][i][j]
				magnitude, ok := step[2].(float64)
				testenv.Check(t, got.name == step[0] && got.p == step[1] && (!ok || got.magnitude == magnitude) && leveled(got.name) == ok,
					"%s, pair %d: %v, want %v", name, i, got, step)
			}
		}
		testenv.Equal(t, len(pairs), len(autoAugmentPolicies[name]), "%s: pairs", name)
	}
}

func compareSpace(t *testing.T, s *space, want map[string][]float64, bins int, size [2]int) {
	t.Helper()
	testenv.Equal(t, len(s.augmentations), len(want), "augmentations")
	for _, a := range s.augmentations {
		magnitudes, ok := want[a]
		testenv.Check(t, ok && leveled(a) == (len(magnitudes) > 0), "%s: torchvision has %v", a, magnitudes)
		for k, m := range magnitudes {
			near(t, s.magnitude(a, k, bins, size[0], size[1]), m, 1e-6*math.Abs(m), "%s %d of %d", a, k, bins)
		}
	}
}

// TestSpacedAsTorch compares with torch 2.15 on a processor with fused multiplication and addition, where the whole part is another one without: shifts.
func TestSpacedAsTorch(t *testing.T) {
	for _, bins := range []int{15, 27, 29, 31, 53, 57, 61} {
		testenv.Equal(t, spaced32(0, 32, bins/2, bins), 15.999999046325684, "the middle of %d from 0 to 32", bins)
	}
	for _, tc := range []struct {
		low, high float64
		k, bins   int
		want      float64
	}{{0, 32, 15, 33, 15}, {0, 0.99, 30, 31, 0.9900000095367432}, {255, 0, 16, 31, 119}} {
		testenv.Equal(t, spaced32(tc.low, tc.high, tc.k, tc.bins), tc.want, "%+v", tc)
	}
}

// drawnRecords returns the calls that an operation has recorded for many samples.
func drawnRecords(t *testing.T, text string, n int) (records [][]map[string]any) {
	t.Helper()
	eachRecord(t, text, 8, 8, n, func(record string) {
		calls := testenv.FromJSON[[]map[string]any](t, record)
		records = append(records, calls)
	})
	return records
}

// evenly compares counts with even ones: χ² within six standard deviations.
func evenly(t *testing.T, what string, counts map[string]int, cells int) {
	t.Helper()
	n, chi2 := 0, 0.0
	for _, count := range counts {
		n += count
	}
	expected := float64(n) / float64(cells)
	for _, count := range counts {
		chi2 += (float64(count) - expected) * (float64(count) - expected) / expected
	}
	chi2 += float64(cells-len(counts)) * expected
	df := float64(cells - 1)
	testenv.Check(t, chi2 <= df+6*math.Sqrt(2*df), "%s: χ² = %.1f of %d cells: %v", what, chi2, cells, counts)
}

// kindOfCall names the augmentation that a call is of.
func kindOfCall(call map[string]any) string {
	if call["op"] != "affine" {
		return fmt.Sprint(call["op"])
	}
	shear, translate := call["shear"].([]any), call["translate"].([]any)
	for i, axis := range "XY" {
		if shear[i] != 0. {
			return "shear" + string(axis)
		}
		if translate[i] != 0. {
			return "translate" + string(axis)
		}
	}
	return "affine by nothing"
}

// TestTrivialAugmentWideDraws: every augmentation is as likely, and so is every magnitude of one, with either sign.
func TestTrivialAugmentWideDraws(t *testing.T) {
	n := statisticsOf()
	kinds, factors := map[string]int{}, map[string]int{}
	for _, record := range drawnRecords(t, `{"op":"TrivialAugmentWide","num_magnitude_bins":31}`, n) {
		kind := "identity"
		if len(record) > 0 {
			kind = kindOfCall(record[0])
		}
		if kind == "adjust_contrast" {
			factors[fmt.Sprint(record[0]["contrast_factor"])]++
		}
		kinds[groupedKind(kind)]++ // maps by nothing are not told apart
	}
	maps := kinds["map"]
	delete(kinds, "map")
	within(t, "shear or translate", maps, n, 4./14)
	evenly(t, "augmentations", kinds, 10)
	if len(factors) != 61 { // 1, which comes with either sign, and 30 to each side
		t.Fatalf("%d factors of contrast, want 61: %v", len(factors), factors)
	}
	factors["1"] /= 2
	evenly(t, "factors of contrast", factors, 61)
}

// TestRandAugmentDraws: each of the 14, with either sign, num_ops times.
func TestRandAugmentDraws(t *testing.T) {
	signs, kinds, calls := map[string]int{}, map[string]int{}, 0
	n := statisticsOf()
	for _, record := range drawnRecords(t, `{"op":"RandAugment","num_ops":2}`, n) {
		for _, call := range record {
			calls++
			kind := kindOfCall(call)
			kinds[kind]++
			if kind == "rotate" {
				signs[fmt.Sprint(call["angle"].(float64) > 0)]++
			}
		}
	}
	evenly(t, "augmentations", kinds, 13)
	evenly(t, "signs of angles", signs, 2)
	within(t, "calls: one of 14 does nothing", calls, 2*n, 13./14)
}

// TestDistributions compares mean and variance of normal and gamma numbers, and of the parts of a whole.
func TestDistributions(t *testing.T) {
	const n = 100000
	moments := func(draw func(d *RNG) float64) (mean, variance float64) {
		for i := range n {
			d := NewRNG(6, 7, i)
			x := draw(&d)
			mean += x / n
			variance += x * x / n
		}
		return mean, variance - mean*mean
	}
	five := 5 / math.Sqrt(n) // standard deviations of a mean
	mean, variance := moments((*RNG).normal)
	near(t, mean, 0, five, "the normal mean")
	near(t, variance, 1, five*math.Sqrt2, "the normal variance")
	for _, alpha := range []float64{0.1, 0.5, 1, 2.5, 40} {
		mean, variance := moments(func(d *RNG) float64 { return d.gamma(alpha) })
		near(t, mean, alpha, five*math.Sqrt(alpha), "the mean of gamma(%v)", alpha)
		near(t, variance, alpha, five*math.Sqrt(2*alpha*alpha+6*alpha), "the variance of gamma(%v)", alpha)
		mean, variance = moments(func(d *RNG) float64 {
			var parts [3]float32
			d.dirichlet(alpha, parts[:])
			near(t, float64(parts[0])+float64(parts[1])+float64(parts[2]), 1, 1e-6, "sum of parts")
			return float64(parts[1])
		})
		near(t, mean, 1./3, five*math.Sqrt(2./9), "the mean of a third by %v", alpha)
		near(t, variance, 2./9/(3*alpha+1), five*0.5, "the variance of a third by %v", alpha)
	}
}

func TestPolicyErrors(t *testing.T) {
	refused(t, `[{"op":"CenterCrop","size":3},%s]`, map[string]string{
		`{"op":"RandAugment","num_ops":-1}`:                           "num_ops is -1, want 0 to 32",
		`{"op":"RandAugment","magnitude":31}`:                         "magnitude is 31, want 0 to 30: num_magnitude_bins is 31",
		`{"op":"RandAugment","magnitude":-1}`:                         "magnitude is -1",
		`{"op":"RandAugment","num_magnitude_bins":1}`:                 "num_magnitude_bins is 1, want 2 to",
		`{"op":"RandAugment","interpolation":"lanczos"}`:              "interpolation is lanczos, want nearest, bilinear or bicubic",
		`{"op":"RandAugment","fill":[1,2]}`:                           "fill has 2 numbers",
		`{"op":"TrivialAugmentWide","num_magnitude_bins":1000000000}`: "num_magnitude_bins is 1000000000",
		`{"op":"TrivialAugmentWide","interpolation":"box"}`:           "interpolation is box",
		`{"op":"AutoAugment","policy":"coco"}`:                        `policy is "coco", want one of cifar10, imagenet, svhn`,
		`{"op":"AutoAugment","interpolation":"hamming"}`:              "interpolation is hamming",
		`{"op":"AugMix","severity":0}`:                                "severity is 0, want 1 to 10",
		`{"op":"AugMix","mixture_width":0}`:                           "mixture_width is 0, want 1 to 32",
		`{"op":"AugMix","chain_depth":1000}`:                          "chain_depth is 1000, want up to 32",
		`{"op":"AugMix","alpha":0}`:                                   "alpha is 0, want 0.01 to 1e+06",
		`{"op":"AugMix","all_ops":1}`:                                 "all_ops is 1, want true or false",
	})
	testenv.Equal(t, strings.Join(mixSpace.augmentations[mixFewer:], " "), "Brightness Color Contrast Sharpness", "what all_ops takes in")
}

// TestTimmIsTimms compares what strings say, and what magnitudes are, with timm's own.
func TestTimmIsTimms(t *testing.T) {
	out := pillowtest.Output(t, "testdata/timm_levels.py", *update, "torchvision", "timm")
	var want struct {
		Configs map[string]struct {
			Policies             [][][3]any
			Layers, Width, Depth int
			Alpha                float64
			Blends               bool
			Translate            float64
			Deviation, Bound     float64
		}
		Magnitudes []float64
		Levels     map[string][]float64
	}
	testenv.OK(t, json.Unmarshal(out, &want))
	for config, w := range want.Configs {
		p := testenv.Must(parseTimm(config))(t)
		deviation := p.deviation
		if math.IsInf(deviation, 1) {
			deviation = -1
		}
		if p.layers != w.Layers || p.width != w.Width || p.depth != w.Depth || w.Width > 0 && p.alpha != w.Alpha || deviation != w.Deviation ||
			p.bound != w.Bound || p.blends != w.Blends || p.translate != w.Translate {
			t.Errorf("%s: %+v, want %+v", config, p, w)
		}
		if got, want := fmt.Sprint(p.policies), strings.NewReplacer("[[[", "[[{", "]]]", "}]]", "] [", "} {").Replace(fmt.Sprint(w.Policies)); strings.NewReplacer("[", "", "]", "", "{", "", "}", "").Replace(got) !=
			strings.NewReplacer("[", "", "]", "", "{", "", "}", "").Replace(want) {
			t.Errorf("%s: %s, want %s", config, got, want)
		}
	}
	compareTimmLevels(t, want.Magnitudes, want.Levels)
}

// argumentOf returns what the record of a step says, where timm's function of levels says it.
func argumentOf(name string, call map[string]any, side float64) float64 {
	switch name {
	case "ShearX":
		return call["data"].([]any)[1].(float64)
	case "ShearY":
		return call["data"].([]any)[3].(float64)
	case "TranslateXRel":
		return call["data"].([]any)[2].(float64) / side
	case "TranslateYRel":
		return call["data"].([]any)[5].(float64) / side
	}
	for _, argument := range []string{"angle", "bits", "add", "threshold", "radius", "brightness_factor", "contrast_factor", "saturation_factor", "sharpness_factor"} {
		if v, ok := call[argument]; ok {
			return v.(float64)
		}
	}
	return math.NaN()
}

func compareTimmLevels(t *testing.T, magnitudes []float64, levels map[string][]float64) {
	t.Helper()
	plan := timmPlan{bound: 12, translate: 0.45, maps: []Interpolation{Bilinear}}
	engine, log := NewEngine(kernel.Active()), &recorder{}
	engine.scratch[0].Resize(8, 8)
	for name, arguments := range levels {
		if name == "TranslateX" || name == "TranslateY" || name == "GaussianBlurRand" {
			continue // not part of any of its policies; draws
		}
		for i, magnitude := range magnitudes {
			for draw := 0; ; draw++ { // until nothing is negated
				log.text = log.text[:0]
				c := &canvas{engine: engine, draws: NewRNG(1, 1, draw), log: log, from: &engine.scratch[0], step: wholeImage(8, 8), rendered: 1}
				first := c.draws
				testenv.OK(t, plan.do(c, policyStep{name, 1, magnitude}))
				if first.unit() > 0.5 {
					continue
				}
				break
			}
			calls := testenv.FromJSON[[]map[string]any](t, log.String())
			testenv.Require(t, len(calls) == 1, "%s of %v: %s", name, magnitude, log)
			want := arguments[i]
			switch {
			case strings.HasPrefix(name, "Posterize"):
				want = min(max(want, 0), 8)
			case name == "Desaturate":
				want = min(1, max(0, 1-want))
			}
			near(t, argumentOf(name, calls[0], 8), want, 1e-15*math.Abs(want), "%s of %v", name, magnitude)
		}
	}
}

// TestTimmDraws: steps are as likely, done with their probability, with a magnitude that varies as it should.
func TestTimmDraws(t *testing.T) {
	kinds, angles, n := map[string]int{}, []float64{}, statisticsOf()
	for _, record := range drawnRecords(t, `{"op":"TimmAugment","config":"rand-m9-mstd0.5-inc1"}`, n) {
		for _, call := range record {
			kind := kindOfCall(call)
			if data, ok := call["data"].([]any); ok {
				kind = fmt.Sprint("transform ", data[1] == 0., data[2] == 0., data[3] == 0., data[5] == 0.)
			}
			kinds[kind]++
			if kind == "rotate" {
				angles = append(angles, math.Abs(call["angle"].(float64)))
			}
		}
	}
	evenly(t, "steps", kinds, 15)
	total, mean, square := 0, 0.0, 0.0
	for _, count := range kinds {
		total += count
	}
	near(t, float64(total), float64(n), 5*math.Sqrt(2*float64(n)/4), "steps of images, two with a probability of one half")
	for _, a := range angles {
		mean += a / float64(len(angles))
		square += a * a / float64(len(angles))
	}
	// 27° with a deviation of 1.5°, of which magnitudes above 10 are cut: 0.5·φ(2) − … of a standard normal's mean and variance above 2.
	near(t, mean, 27-1.5*0.0085, 0.15, "the mean of angles")
	near(t, math.Sqrt(square-mean*mean), 1.5, 0.15, "the deviation of angles")
}

// TestTimmBlends: blends one after the other leave each chain its weight in the sum, and the image what is left.
func TestTimmBlends(t *testing.T) {
	for _, sum := range [][]float32{{0.2, 0.3, 0.5}, {1}, {0, 0, 1}, {1, 0, 0}, {0.25, 0.75, 0}} {
		for _, share := range []float32{0, 0.3, 1} {
			weights := slices.Clone(sum)
			blendWeights(weights, share)
			left := float32(1)
			for i, weight := range slices.Backward(weights) {
				near(t, float64(weight*left), float64(sum[i]*share), 1e-6, "%v of %v: weight of chain %d", sum, share, i)
				left *= 1 - weight
			}
			near(t, float64(left), float64(1-share), 1e-6, "%v of %v: weight of the image", sum, share)
		}
	}
}

func TestTimmErrors(t *testing.T) {
	for config, want := range map[string]string{
		``:                 `config is ""`,
		`random-m9`:        `config is "random-m9", want rand, augmix, v0`,
		`rand-x5`:          `config "rand-x5": setting "x5", want m, n, p, mstd, mmax, inc with a number`,
		`rand-m9.5`:        "m is 9.5, want a whole number",
		`rand-m9e9`:        `setting "m9e9"`,
		`rand-p1.5`:        "p is 1.5, want 0 to 1",
		`rand-n33`:         "n is 33, want 0 to 32",
		`rand-m9-tweights`: `setting "tweights", want m, n`,
		`v0-`:              `setting "", want mstd`,
		`original-m5`:      `setting "m5", want mstd with a number`,
		`augmix-w40`:       "w is 40, want 1 to 32",
		`augmix-a0`:        "a is 0, want 0.01 to 1e+06",
	} {
		refused(t, `[{"op":"CenterCrop","size":3},{"op":"TimmAugment","config":%s}]`, map[string]string{fmt.Sprintf("%q", config): want})
	}
	refused(t, `[{"op":"CenterCrop","size":3},{"op":"TimmAugment","config":"rand-m9",%s}]`, map[string]string{
		`"interpolation":"box"`: `interpolation is "box", want one of random, bilinear`,
		`"fill":[1]`:            "",
		`"fill":[1,2]`:          "fill has 2 numbers",
	})
}

// TestTimmFill: without a fill, or with null, TimmAugment has timm's grey.
func TestTimmFill(t *testing.T) {
	for text, want := range map[string]Fill{
		`[{"op":"CenterCrop","size":8},{"op":"TimmAugment","config":"rand"}]`:             {128, 128, 128},
		`[{"op":"CenterCrop","size":8},{"op":"TimmAugment","config":"rand","fill":null}]`: {128, 128, 128},
		`[{"op":"CenterCrop","size":8},{"op":"TimmAugment","config":"rand","fill":7}]`:    {7, 7, 7},
	} {
		testenv.Equal(t, mustParse(text).Ops()[1].(TimmAugment).Fill, want, "%s has the fill", text)
	}
}

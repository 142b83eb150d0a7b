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
			var calls []map[string]any
			err := json.Unmarshal([]byte(log.String()), &calls)
			testenv.Require(t, err == nil && len(calls) == 1, "%s of %v: %v, %s", name, magnitude, err, log)
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

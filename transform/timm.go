package transform

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// TimmAugment is timm's auto_augment: AutoAugment, RandAugment, AugMix and 3-Augment as in timm.data.auto_augment,
// given by timm's strings such as "rand-m9-mstd0.5-inc1", "original-mstd0.5" and "3a".
type TimmAugment struct {
	// Config is timm's string: rand, augmix, or a policy (v0, v0r, original, originalr, 3a), and settings after it:
	//
	//	rand    m9       magnitude, default 10.
	//	        n2       number of operations, default 2.
	//	        p0.5     probability of each operation, default 0.5.
	//	        mstd0.5  standard deviation of the magnitude, default 0. Above 100 it is uniform from 0.
	//	        mmax10   limit of the magnitude, default 10.
	//	        inc1     operations become stronger with the magnitude.
	//	augmix  m3, w3   magnitude and number of chains, default 3 each.
	//	        d3       depth of the chains, drawn from 1 to 3 by default.
	//	        a1       alpha, default 1.
	//	        b1       blend the image with each chain instead of with their sum.
	//	        mstd0.5  as above.
	//	policy  mstd0.5  as above.
	Config string `param:"config"`
	// Fill is timm's img_mean, the colour outside the image.
	Fill Fill `param:"fill" default:"128"`
	// Interpolation is "bilinear", "bicubic", "nearest", or "random", which draws bilinear or bicubic each time. "random" is
	// timm's default, and the default in JSON.
	Interpolation string `param:"interpolation" default:"random" oneof:"random bilinear bicubic nearest"`

	plan timmPlan
}

func (o TimmAugment) prepare() (Op, error) {
	plan, err := parseTimm(o.Config)
	if err != nil {
		return nil, err
	}
	plan.maps = timmMaps[o.Interpolation]
	plan.fill = o.Fill
	o.plan = plan
	return o, nil
}

// timmMaps are the filters of each interpolation.
var timmMaps = map[string][]Interpolation{
	"random": {Bilinear, Bicubic}, "bilinear": {Bilinear}, "bicubic": {Bicubic}, "nearest": {Nearest},
}

func (o TimmAugment) apply(c *canvas) error { return o.plan.apply(c) }

// A timmPlan is a parsed string of timm.
type timmPlan struct {
	policies [][]policyStep // apply does one of them; rand and augmix have one, and choose steps from it
	layers   int            // number of steps that rand draws; 0 for a policy

	width, depth int // augmix only, otherwise 0
	alpha        float64
	blends       bool

	translate float64 // shift at the largest level, as a fraction of the side
	deviation float64 // standard deviation of the magnitude; infinite draws it uniformly from 0
	bound     float64 // upper limit of the magnitude

	maps []Interpolation
	fill Fill
}

// timmLevels is timm's _LEVEL_DENOM.
const timmLevels = 10

// A timmSetting is a setting of a string: a name followed by a number.
type timmSetting struct {
	name      string
	value     float64 // default value
	low, high float64
	fraction  bool // fractions are allowed
}

// timmSettings are the accepted settings by a string's first part. Policies accept only mstd.
var timmSettings = map[string][]timmSetting{
	"rand": {
		{"m", timmLevels, 0, 1e6, false}, {"n", 2, 0, opsMax, false}, {"p", 0.5, 0, 1, true}, {"mstd", 0, 0, 1e6, true},
		{"mmax", timmLevels, 0, 1e6, false}, {"inc", 0, 0, 1e6, false},
	},
	// The defaults of timm's create_transform.
	"augmix": {
		{"m", 3, 0, 1e6, false}, {"w", 3, 1, mixWidthMax, false}, {"d", -1, 0, mixDepthMax, false}, {"a", 1, alphaMin, alphaMax, true},
		{"b", 0, 0, 1e6, false}, {"mstd", math.Inf(1), 0, 1e6, true},
	},
}

// parseTimm reads a string of timm.
func parseTimm(config string) (timmPlan, error) {
	parts := strings.Split(config, "-")
	known, chooses := timmSettings[parts[0]]
	p := timmPlan{policies: timmPolicies(parts[0]), translate: 0.45, alpha: 1}
	switch {
	case !chooses && p.policies == nil:
		return p, fmt.Errorf("config is %.60q, want rand, augmix, v0, v0r, original, originalr or 3a, then settings such as -m9", config)
	case !chooses:
		known = []timmSetting{{"mstd", 0, 0, 1e6, true}}
	}
	value, err := readTimmSettings(config, parts[1:], known)
	if err != nil {
		return p, err
	}
	p.layers, p.width, p.depth = int(value["n"]), int(value["w"]), int(value["d"])
	p.blends, p.deviation = value["b"] != 0, value["mstd"]
	if p.bound = value["mmax"]; p.bound == 0 { // timm treats 0 as None
		p.bound = timmLevels
	}
	var names []string
	probability := 1.0
	switch parts[0] {
	case "rand":
		if names = policySteps; value["inc"] != 0 {
			names = timmIncreasing
		}
		if probability = value["p"]; p.deviation > 100 {
			p.deviation = math.Inf(1)
		}
	case "augmix":
		names, p.translate, p.alpha = timmMixSteps, 0.3, value["a"]
	}
	if names != nil {
		steps := make([]policyStep, len(names))
		for i, name := range names {
			steps[i] = policyStep{name, probability, value["m"]}
		}
		p.policies = [][]policyStep{steps}
	}
	return p, nil
}

// readTimmSettings returns the numbers of all settings. It refuses parts that timm would ignore.
func readTimmSettings(config string, parts []string, known []timmSetting) (map[string]float64, error) {
	value := make(map[string]float64)
	var names []string
	for _, setting := range known {
		value[setting.name] = setting.value
		names = append(names, setting.name)
	}
	for _, part := range parts {
		name := strings.TrimRight(part, "0123456789.")
		number, err := strconv.ParseFloat(part[len(name):], 64)
		i := slices.Index(names, name)
		switch {
		case err != nil || i < 0:
			return nil, fmt.Errorf("config %.60q: setting %.20q, want %s with a number", config, part, strings.Join(names, ", "))
		case number != math.Trunc(number) && !known[i].fraction:
			return nil, fmt.Errorf("config %.60q: %s is %v, want a whole number", config, name, number)
		case !(known[i].low <= number && number <= known[i].high):
			return nil, fmt.Errorf("config %.60q: %s is %v, want %g to %g", config, name, number, known[i].low, known[i].high)
		}
		value[name] = number
	}
	return value, nil
}

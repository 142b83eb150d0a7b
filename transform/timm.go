package transform

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// TimmAugment is timm's auto_augment: AutoAugment, RandAugment, AugMix and 3-Augment as timm.data.auto_augment has them, by timm's own
// strings, such as "rand-m9-mstd0.5-inc1", "original-mstd0.5" and "3a".
type TimmAugment struct {
	// Config is timm's string. The first part is rand, augmix, or a policy: v0, v0r, original, originalr, 3a. Those after it: of rand
	// m (magnitude, 10), n (operations, 2), p (probability of each, 0.5), mstd (deviation of the magnitude, 0; beyond 100 it is even
	// from 0), mmax (its bound, 10), inc1 (operations that grow with the magnitude), t3a, t3aw and tweights (other sets); of augmix m (3), w (chains, 3), d
	// (depth, by chance), a (alpha, 1), b1 (the image is blended with each chain, not with their sum), mstd; of policies mstd.
	Config string `param:"config"`
	// Fill is timm's img_mean, the colour of what shows nothing of the image. In JSON its default is timm's, 128.
	Fill Fill `param:"fill" default:"128"`
	// Interpolation is "bilinear", "bicubic", "nearest", or "random" for bilinear or bicubic by chance, which is what timm does unless
	// told, and the default in JSON.
	Interpolation string `param:"interpolation" is:"word" default:"random" oneof:"random bilinear bicubic nearest"`

	plan timmPlan
}

func (o TimmAugment) String() string { return text(o) }

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

// A timmPlan is what a string of timm says.
type timmPlan struct {
	policies [][]timmStep // one of which is done; of rand and augmix one, to choose from
	weights  []float64    // of what rand chooses from, without replacement; nil for even chances, with replacement
	layers   int          // of rand: how many are chosen; 0 for a policy

	width, depth int // of augmix, 0 for others
	alpha        float64
	blends       bool

	translate float64 // the share of a side by which the largest level moves the image
	deviation float64 // of magnitudes; infinite for even ones from 0
	bound     float64 // of magnitudes

	maps []Interpolation
	fill Fill
}

// timmLevels is timm's _LEVEL_DENOM.
const timmLevels = 10

// timmLimits bounds the numbers in a string.
const timmLimits = 1e6

// parseTimm reads a string of timm.
func parseTimm(config string) (timmPlan, error) {
	parts := strings.Split(config, "-")
	p := timmPlan{bound: timmLevels, alpha: 1, translate: 0.45}
	var allowed string
	magnitude, probability, increasing, set := float64(timmLevels), 0.5, false, ""
	switch parts[0] {
	case "rand":
		p.layers, allowed = 2, "m n p mstd mmax inc"
	case "augmix":
		p.width, p.depth, p.deviation, allowed = 3, -1, math.Inf(1), "m w d a b mstd"
		magnitude, p.translate = 3, 0.3 // as timm's create_transform has it
	default:
		if p.policies = timmPolicies(parts[0]); p.policies == nil {
			return p, fmt.Errorf("config is %.60q, want rand, augmix, v0, v0r, original, originalr or 3a, and then settings such as -m9", config)
		}
		allowed = "mstd"
	}
	for _, part := range parts[1:] {
		if name, ok := strings.CutPrefix(part, "t"); ok && parts[0] == "rand" {
			set = name
			continue
		}
		at := strings.IndexAny(part, "0123456789")
		if at < 0 {
			continue // as timm does
		}
		key := part[:at]
		value, err := strconv.ParseFloat(part[at:], 64)
		if err != nil || value > timmLimits || !slices.Contains(strings.Fields(allowed), key) {
			return p, fmt.Errorf("config %.60q has the setting %.20q, want %s with a number", config, part, strings.ReplaceAll(allowed, " ", ", "))
		}
		if whole := value == math.Trunc(value); !whole && key != "p" && key != "mstd" && key != "a" {
			return p, fmt.Errorf("config %.60q: %s is %v, want a whole number", config, key, value)
		}
		switch key {
		case "m":
			magnitude = value
		case "n":
			p.layers = int(value)
		case "p":
			probability = value
		case "mstd":
			if p.deviation = value; value > 100 && parts[0] == "rand" {
				p.deviation = math.Inf(1)
			}
		case "mmax":
			p.bound = value
		case "inc":
			increasing = value != 0
		case "w":
			p.width = int(value)
		case "d":
			p.depth = int(value)
		case "a":
			p.alpha = value
		case "b":
			p.blends = value != 0
		}
	}
	return p.complete(config, magnitude, probability, increasing, set)
}

// complete fills in what rand and augmix choose from, and checks the numbers.
func (p timmPlan) complete(config string, magnitude, probability float64, increasing bool, set string) (timmPlan, error) {
	var names []string
	switch {
	case p.width > 0:
		names, probability = timmMixSteps, 1
	case p.policies == nil:
		names, p.weights = timmRandSteps(set, increasing)
	}
	switch {
	case probability > 1:
		return p, fmt.Errorf("config %.60q: p is %v, want 0 to 1", config, probability)
	case p.layers > opsMax:
		return p, fmt.Errorf("config %.60q: n is %d, want up to %d", config, p.layers, opsMax)
	case p.weights != nil && p.layers > len(names):
		return p, fmt.Errorf("config %.60q: n is %d, and there are %d to choose from", config, p.layers, len(names))
	case p.width > mixWidthMax || p.depth > mixDepthMax:
		return p, fmt.Errorf("config %.60q: w and d are %d and %d, want up to %d and %d", config, p.width, p.depth, mixWidthMax, mixDepthMax)
	case !(alphaMin <= p.alpha && p.alpha <= alphaMax):
		return p, fmt.Errorf("config %.60q: a is %v, want %g to %g", config, p.alpha, alphaMin, alphaMax)
	}
	if p.policies == nil {
		steps := make([]timmStep, len(names))
		for i, name := range names {
			steps[i] = timmStep{name, probability, magnitude}
		}
		p.policies = [][]timmStep{steps}
	}
	if p.bound == 0 { // as timm has it, of None
		p.bound = timmLevels
	}
	return p, nil
}

package transform

import (
	"math"
	"strings"

	"github.com/imgfeed/imgfeed/transform/internal/affine"
)

func (p *timmPlan) apply(c *canvas) error {
	if p.width > 0 {
		return p.applyMix(c)
	}
	if p.layers == 0 && len(p.policies) > 1 {
		for _, step := range p.policies[c.draws.below(len(p.policies))] {
			if err := p.do(c, step); err != nil {
				return err
			}
		}
		return nil
	}
	steps := p.policies[0]
	var chosen [opsMax]int
	for i := range p.layers {
		chosen[i] = c.draws.below(len(steps))
	}
	for _, i := range chosen[:p.layers] {
		if err := p.do(c, steps[i]); err != nil {
			return err
		}
	}
	return nil
}

// applyMix is timm's AugMixAugment: a mixture of chains, blended with the image, or the image blended with each chain.
func (p *timmPlan) applyMix(c *canvas) error {
	var weights [mixWidthMax]float32
	var parts [2]float32
	c.draws.dirichlet(p.alpha, weights[:p.width])
	c.draws.dirichlet(p.alpha, parts[:])
	if p.blends {
		blendWeights(weights[:p.width], parts[0])
	}
	m := mixture{weights: weights[:p.width], factor: parts[0], depth: p.depth, blends: p.blends}
	return c.mix(m, func(c *canvas) error { return p.do(c, p.policies[0][c.draws.below(len(p.policies[0]))]) })
}

// blendWeights converts the weights of a sum to those of successive blends, as timm's _calc_blended_weights does. In the sum the image has
// the weight 1 - share. The last chain keeps its weight; the chains before it divide the remainder.
func blendWeights(weights []float32, share float32) {
	remaining := float32(1)
	for i := len(weights) - 1; i >= 0; i-- {
		weight := float32(weights[i] * share)
		if weights[i] = 0; weight > 0 {
			weights[i] = 1
			if weight < remaining {
				weights[i] = weight / remaining
			}
		}
		remaining = float32(remaining * (1 - weights[i]))
	}
}

// do does a step with its probability: AugmentOp.__call__.
func (p *timmPlan) do(c *canvas, step policyStep) error {
	if step.p < 1 && c.draws.unit() >= step.p {
		return nil
	}
	magnitude := step.magnitude
	switch {
	case math.IsInf(p.deviation, 1):
		magnitude = c.draws.uniform(0, magnitude)
	case p.deviation > 0:
		magnitude += float64(p.deviation * c.draws.normal())
	}
	return p.act(c, step.name, min(max(magnitude, 0), p.bound)/timmLevels)
}

// negated changes the sign of a level with probability one half.
func negated(d *RNG, level float64) float64 {
	if d.unit() > 0.5 {
		return -level
	}
	return level
}

// interpolation draws the filter of a step that maps the image.
func (p *timmPlan) interpolation(d *RNG) Interpolation {
	if len(p.maps) == 1 {
		return p.maps[0]
	}
	return p.maps[d.below(len(p.maps))]
}

// act does the operation that timm calls name at a level, a tenth of the magnitude. Enhancements have a factor from 0.1 to 1.9,
// or with Increasing one that moves away from 1 in either direction.
func (p *timmPlan) act(c *canvas, name string, level float64) error {
	if adjust, ok := adjustments[name]; ok {
		return adjust(c)
	}
	base, increasing := strings.CutSuffix(name, "Increasing")
	if enhance, ok := enhancers[base]; ok && increasing {
		return enhance(c, max(0.1, 1+negated(&c.draws, float64(level*0.9))))
	} else if ok {
		return enhance(c, float64(level*1.8)+0.1)
	}
	w, h := c.size()
	switch name {
	case "Rotate":
		degrees := negated(&c.draws, float64(level*30))
		return c.rotate(degrees, p.interpolation(&c.draws), false, nil, p.fill, 0)
	case "ShearX":
		return p.transform(c, 1, negated(&c.draws, float64(level*0.3)))
	case "ShearY":
		return p.transform(c, 3, negated(&c.draws, float64(level*0.3)))
	case "TranslateXRel":
		return p.transform(c, 2, float64(negated(&c.draws, float64(level*p.translate))*float64(w)))
	case "TranslateYRel":
		return p.transform(c, 5, float64(negated(&c.draws, float64(level*p.translate))*float64(h)))
	case "Posterize":
		return c.posterize(min(int(level*4), 8))
	case "PosterizeIncreasing":
		return c.posterize(max(4-int(level*4), 0))
	case "PosterizeOriginal":
		return c.posterize(min(int(level*4)+4, 8))
	case "Solarize":
		return c.solarize(float64(min(256, int(level*256))))
	case "SolarizeIncreasing":
		return c.solarize(float64(256 - min(256, int(level*256))))
	case "SolarizeAdd":
		return c.solarizeAdd(min(128, int(level*110)))
	case "Desaturate":
		return c.saturation(min(1, max(0, 1-min(max(0.5+float64(0.5*level), 0.5), 1))))
	case "GaussianBlur":
		return c.pillowBlur(min(max(0.1+float64(1.9*level), 0.1), 2))
	case "GaussianBlurRand":
		return c.pillowBlur(c.draws.uniform(0.1, 2*min(max(level, 0), 1)))
	}
	panic("transform: timm has no " + name)
}

// transform maps the image by the identity matrix with one entry replaced.
func (p *timmPlan) transform(c *canvas, entry int, value float64) error {
	matrix := affine.Matrix{1, 0, 0, 0, 1, 0}
	matrix[entry] = value
	return c.pillowTransform(matrix, p.interpolation(&c.draws), p.fill)
}

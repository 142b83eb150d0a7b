package transform

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// AutoAugment is torchvision.transforms.AutoAugment(policy, interpolation, fill).
type AutoAugment struct {
	// Policy is "imagenet", "cifar10" or "svhn". In JSON its default is torchvision's, "imagenet".
	Policy string
	// Interpolation is Nearest, Bilinear or Bicubic. In JSON its default is torchvision's, Nearest.
	Interpolation Interpolation
	// Fill is the colour of what shows nothing of the image.
	Fill Fill

	pairs []policyPair
}

// A policyPair is what a policy does one after the other.
type policyPair [2]struct {
	what      augmentation
	p         float64
	magnitude int // place among autoAugmentBins
}

const autoAugmentBins = 10

func (AutoAugment) Name() string { return "AutoAugment" }

func (o AutoAugment) String() string {
	return object(o, "policy", o.Policy, "interpolation", o.Interpolation.String(), "fill", o.Fill)
}

func (o AutoAugment) read(p *parameters) Op {
	o.Policy = p.text("policy", "imagenet")
	o.Interpolation = p.interpolation(Nearest)
	o.Fill = p.fill()
	return o
}

func (o AutoAugment) prepare() (Op, error) {
	if o.pairs = autoAugmentPolicies[o.Policy]; o.pairs == nil {
		return nil, fmt.Errorf("policy is %q, want one of %s", o.Policy, strings.Join(slices.Sorted(maps.Keys(autoAugmentPolicies)), ", "))
	}
	return o, checkMapping(o.Interpolation)
}

func (AutoAugment) random() bool { return true }

func (AutoAugment) outputSize(h, w int) (int, int) { return h, w }

// apply draws a pair, whether each of it is done, and a sign for each.
func (o AutoAugment) apply(c *canvas) error {
	pair := &o.pairs[c.draws.below(len(o.pairs))]
	at := [2]float64{c.draws.unit(), c.draws.unit()}
	positive := [2]bool{c.draws.below(2) == 1, c.draws.below(2) == 1}
	w, h := c.size()
	for i, step := range pair {
		if at[i] >= step.p {
			continue
		}
		magnitude := randSpace.magnitude(step.what, step.magnitude, autoAugmentBins, w, h)
		if step.what.signed() && !positive[i] {
			magnitude = -magnitude
		}
		if err := c.augment(step.what, magnitude, o.Interpolation, o.Fill); err != nil {
			return err
		}
	}
	return nil
}

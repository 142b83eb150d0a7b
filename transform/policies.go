package transform

import (
	"fmt"
	"slices"
)

// torchvision's policies (autoaugment.py): their choice of augmentations and magnitudes, and the augmentations.

// AutoAugment is torchvision.transforms.AutoAugment(policy, interpolation, fill).
type AutoAugment struct {
	// Policy is "imagenet", "cifar10" or "svhn".
	Policy        string        `param:"policy" default:"imagenet" oneof:"cifar10 imagenet svhn"`
	Interpolation Interpolation `param:"interpolation" default:"nearest" is:"map"`
	// Fill is the colour of what shows nothing of the image.
	Fill Fill `param:"fill" is:"map fill" default:"0"`
}

// autoAugmentBins is the number of magnitudes of its steps.
const autoAugmentBins = 10

// apply draws a pair of steps, whether to do each of them, and a sign for each.
func (o AutoAugment) apply(c *canvas) error {
	pairs := autoAugmentPolicies[o.Policy]
	pair := pairs[c.draws.below(len(pairs))]
	at := [2]float64{c.draws.unit(), c.draws.unit()}
	positive := [2]bool{c.draws.below(2) == 1, c.draws.below(2) == 1}
	for i, step := range pair {
		if at[i] >= step.p {
			continue
		}
		magnitude := c.magnitude(&randSpace, step.name, int(step.magnitude), autoAugmentBins)
		if signed(step.name) && !positive[i] {
			magnitude = -magnitude
		}
		if err := c.augment(step.name, magnitude, o.Interpolation, o.Fill); err != nil {
			return err
		}
	}
	return nil
}

// RandAugment is torchvision.transforms.RandAugment(num_ops, magnitude, num_magnitude_bins, interpolation, fill).
type RandAugment struct {
	// NumOps augmentations are done, one after the other.
	NumOps int `param:"num_ops" default:"2" range:"0 32"`
	// Magnitude is the magnitude of all of them, as an index below Bins.
	Magnitude     int           `param:"magnitude" default:"9"`
	Bins          int           `param:"num_magnitude_bins" default:"31" range:"2 1048576"`
	Interpolation Interpolation `param:"interpolation" default:"nearest" is:"map"`
	// Fill is the colour of what shows nothing of the image.
	Fill Fill `param:"fill" is:"map fill" default:"0"`
}

func (o RandAugment) prepare() (Op, error) {
	if o.Magnitude < 0 || o.Magnitude >= o.Bins {
		return nil, fmt.Errorf("magnitude is %d, want 0 to %d: num_magnitude_bins is %d", o.Magnitude, o.Bins-1, o.Bins)
	}
	return o, nil
}

func (o RandAugment) random() bool { return o.NumOps > 0 }

func (o RandAugment) apply(c *canvas) error {
	for range o.NumOps {
		a := randSpace.augmentations[c.draws.below(len(randSpace.augmentations))]
		if err := c.augmentSigned(&randSpace, a, o.Magnitude, o.Bins, o.Interpolation, o.Fill); err != nil {
			return err
		}
	}
	return nil
}

// TrivialAugmentWide is torchvision.transforms.TrivialAugmentWide(num_magnitude_bins, interpolation, fill).
type TrivialAugmentWide struct {
	// Bins is the number of magnitudes.
	Bins          int           `param:"num_magnitude_bins" default:"31" range:"2 1048576"`
	Interpolation Interpolation `param:"interpolation" default:"nearest" is:"map"`
	// Fill is the colour of what shows nothing of the image.
	Fill Fill `param:"fill" is:"map fill" default:"0"`
}

func (o TrivialAugmentWide) apply(c *canvas) error {
	a, k := wideSpace.augmentations[c.draws.below(len(wideSpace.augmentations))], 0
	if leveled(a) {
		k = c.draws.below(o.Bins)
	}
	return c.augmentSigned(&wideSpace, a, k, o.Bins, o.Interpolation, o.Fill)
}

// adjustments and enhancers are augmentations of policies by their names in torchvision and timm: those without a magnitude, and
// those by a factor.
var (
	adjustments = map[string]func(c *canvas) error{
		"AutoContrast": (*canvas).autocontrast, "Equalize": (*canvas).equalize, "Invert": (*canvas).invert,
	}
	enhancers = map[string]func(c *canvas, factor float64) error{
		"Brightness": (*canvas).brightness, "Color": (*canvas).saturation, "Contrast": (*canvas).contrast, "Sharpness": (*canvas).sharpness,
	}
)

// augment is torchvision's _apply_op.
func (c *canvas) augment(a string, magnitude float64, filter Interpolation, fill Fill) error {
	if adjust, ok := adjustments[a]; ok {
		return adjust(c)
	}
	if enhance, ok := enhancers[a]; ok {
		return enhance(c, 1+magnitude)
	}
	switch a {
	case "ShearX":
		return c.affine(affineParams{scale: 1, shear: [2]float64{atanDegrees(magnitude), 0}, center: &[2]float64{}}, filter, fill, 0)
	case "ShearY":
		return c.affine(affineParams{scale: 1, shear: [2]float64{0, atanDegrees(magnitude)}, center: &[2]float64{}}, filter, fill, 0)
	case "TranslateX":
		return c.affine(affineParams{scale: 1, translate: [2]float64{float64(int(magnitude)), 0}}, filter, fill, 0)
	case "TranslateY":
		return c.affine(affineParams{scale: 1, translate: [2]float64{0, float64(int(magnitude))}}, filter, fill, 0)
	case "Rotate":
		return c.rotate(magnitude, filter, false, nil, fill, 0)
	case "Posterize":
		return c.posterize(int(magnitude))
	case "Solarize":
		return c.solarize(magnitude)
	}
	return nil
}

// A space is a policy's choice of augmentations, with the largest magnitude of each: torchvision's _augmentation_space.
type space struct {
	augmentations   []string
	shear           float64
	translate       float64
	share           bool // translate is a fraction of the image's side, not a number of pixels
	rotate          float64
	enhance         float64
	bits, bitsFewer float64 // posterize keeps bits at the smallest magnitude, and bitsFewer less at the largest
}

var (
	geometry     = []string{"ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate"}
	enhancements = []string{"Brightness", "Color", "Contrast", "Sharpness"}
	levels       = []string{"Posterize", "Solarize", "AutoContrast", "Equalize"}

	randSpace = space{
		augmentations: slices.Concat([]string{"Identity"}, geometry, enhancements, levels),
		shear:         0.3, translate: 150. / 331, share: true, rotate: 30, enhance: 0.9, bits: 8, bitsFewer: 4,
	}
	wideSpace = space{
		augmentations: randSpace.augmentations,
		shear:         0.99, translate: 32, rotate: 135, enhance: 0.99, bits: 8, bitsFewer: 6,
	}
	mixSpace = space{
		augmentations: slices.Concat(geometry, levels, enhancements),
		shear:         0.3, translate: 1. / 3, share: true, rotate: 30, enhance: 0.9, bits: 4, bitsFewer: 4,
	}
)

// mixFewer is the number of mixSpace's augmentations without those of AugMix.AllOps, its last four.
const mixFewer = 9

// leveled reports whether an augmentation has magnitudes, and signed whether they may be negative.
func leveled(a string) bool { return a != "Identity" && adjustments[a] == nil }

func signed(a string) bool { return leveled(a) && a != "Posterize" && a != "Solarize" }

// magnitude returns magnitude k of bins, for an image of w × h pixels.
func (s *space) magnitude(a string, k, bins, w, h int) float64 {
	switch a {
	case "ShearX", "ShearY":
		return spaced32(0, s.shear, k, bins)
	case "TranslateX", "TranslateY":
		limit := s.translate
		if side := h; s.share {
			if a == "TranslateX" {
				side = w
			}
			limit *= float64(side)
		}
		return spaced32(0, limit, k, bins)
	case "Rotate":
		return spaced32(0, s.rotate, k, bins)
	case "Brightness", "Color", "Contrast", "Sharpness":
		return spaced32(0, s.enhance, k, bins)
	case "Posterize":
		return s.bits - float64(roundToInt(float64(float32(k)/float32(float64(bins-1)/s.bitsFewer))))
	case "Solarize":
		return spaced32(255, 0, k, bins)
	}
	return 0
}

// magnitude returns magnitude k of bins for the image. transforms.v2, which tensors follow, has thresholds from 1 to 0.
func (c *canvas) magnitude(s *space, a string, k, bins int) float64 {
	if c.tensor && a == "Solarize" {
		return 255 * spaced32(1, 0, k, bins)
	}
	w, h := c.size()
	return s.magnitude(a, k, bins, w, h)
}

// spaced32 is torch.linspace(low, high, bins)[k] in float32: from both ends to the middle. torch uses fused
// multiply-add, which rounds once: linspace(0, 32, 31)[15] is 15.999999, which torchvision truncates to 15.
func spaced32(low, high float64, k, bins int) float64 {
	from, to := float32(low), float32(high)
	step := float64((to - from) / float32(bins-1))
	if k < bins/2 {
		return float64(float32(float64(from) + step*float64(k))) // the product is exact
	}
	return float64(float32(float64(to) - step*float64(bins-k-1)))
}

// augmentSigned augments the image with magnitude k of bins, and draws its sign where it may be negative.
func (c *canvas) augmentSigned(s *space, a string, k, bins int, filter Interpolation, fill Fill) error {
	magnitude := c.magnitude(s, a, k, bins)
	if signed(a) && c.draws.below(2) == 1 {
		magnitude = -magnitude
	}
	return c.augment(a, magnitude, filter, fill)
}

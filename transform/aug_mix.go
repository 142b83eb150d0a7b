package transform

import "fmt"

// AugMix is torchvision.transforms.AugMix(severity, mixture_width, chain_depth, alpha, all_ops, interpolation, fill). torchvision makes
// a tensor of an image of Pillow before it begins; here augmentations have the bits that they have on images, and only the mixing,
// in float32, is that of tensors.
type AugMix struct {
	// Severity is how many of the ten magnitudes are used, 1 to 10. In JSON its default is torchvision's, 3.
	Severity int
	// Width is the number of chains, and Depth that of the augmentations in each, where 0 and less stand for 1 to 3 of them by chance.
	// In JSON the defaults are torchvision's, 3 and -1.
	Width, Depth int
	// Alpha is the parameter of the distributions of weights. In JSON its default is torchvision's, 1.
	Alpha float64
	// AllOps takes brightness, contrast, colour and sharpness in, too. In JSON its default is torchvision's, true.
	AllOps bool
	// Interpolation is Nearest, Bilinear or Bicubic. In JSON its default is torchvision's, Bilinear.
	Interpolation Interpolation
	// Fill is the colour of what shows nothing of the image.
	Fill Fill
}

// mixWidthMax and mixDepthMax bound the chains, and alpha's bounds the weights' distributions.
const (
	mixWidthMax = 32
	mixDepthMax = 32
	alphaMin    = 1e-2
	alphaMax    = 1e6
	mixBins     = 10
)

func (AugMix) Name() string { return "AugMix" }

func (o AugMix) String() string {
	return object(o, "severity", o.Severity, "mixture_width", o.Width, "chain_depth", o.Depth, "alpha", o.Alpha, "all_ops", o.AllOps,
		"interpolation", o.Interpolation.String(), "fill", o.Fill)
}

func (o AugMix) read(p *parameters) Op {
	o.Severity = p.integer("severity", 3)
	o.Width = p.integer("mixture_width", 3)
	o.Depth = p.integer("chain_depth", -1)
	o.Alpha = p.number("alpha", 1)
	o.AllOps = p.boolean("all_ops", true)
	o.Interpolation = p.interpolation(Bilinear)
	o.Fill = p.fill()
	return o
}

func (o AugMix) prepare() (Op, error) {
	switch {
	case o.Severity < 1 || o.Severity > mixBins:
		return nil, fmt.Errorf("severity is %d, must be between 1 and %d", o.Severity, mixBins)
	case o.Width < 1 || o.Width > mixWidthMax:
		return nil, fmt.Errorf("mixture_width is %d, want 1 to %d", o.Width, mixWidthMax)
	case o.Depth > mixDepthMax:
		return nil, fmt.Errorf("chain_depth is %d, want up to %d, or -1 for 1 to 3 by chance", o.Depth, mixDepthMax)
	case !(alphaMin <= o.Alpha && o.Alpha <= alphaMax):
		return nil, fmt.Errorf("alpha is %v, want %g to %g", o.Alpha, alphaMin, alphaMax)
	}
	return o, checkMapping(o.Interpolation)
}

func (AugMix) random() bool { return true }

func (AugMix) outputSize(h, w int) (int, int) { return h, w }

// apply draws how much of the image stays and the chains' weights; then each chain, its depth first.
func (o AugMix) apply(c *canvas) error {
	var parts [2]float32
	var weights [mixWidthMax]float32
	c.draws.dirichlet(o.Alpha, parts[:])
	c.draws.dirichlet(o.Alpha, weights[:o.Width])
	for i := range o.Width {
		weights[i] *= parts[1]
	}
	return c.mix(mixture{share: parts[0], weights: weights[:o.Width], factor: 1}, o.chain)
}

// chain does one chain's augmentations.
func (o AugMix) chain(c *canvas) error {
	depth := o.Depth
	if depth <= 0 {
		depth = 1 + c.draws.below(3)
	}
	augmentations := mixSpace.augmentations
	if !o.AllOps {
		augmentations = augmentations[:mixFewer]
	}
	for range depth {
		a, k := augmentations[c.draws.below(len(augmentations))], 0
		if a.leveled() {
			k = c.draws.below(o.Severity)
		}
		if err := c.drawn(&mixSpace, a, k, mixBins, o.Interpolation, o.Fill); err != nil {
			return err
		}
	}
	return nil
}

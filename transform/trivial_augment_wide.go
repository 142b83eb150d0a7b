package transform

// TrivialAugmentWide is torchvision.transforms.TrivialAugmentWide(num_magnitude_bins, interpolation, fill).
type TrivialAugmentWide struct {
	// Bins is the number of magnitudes. In JSON its default is torchvision's, 31.
	Bins int
	// Interpolation is Nearest, Bilinear or Bicubic. In JSON its default is torchvision's, Nearest.
	Interpolation Interpolation
	// Fill is the colour of what shows nothing of the image.
	Fill Fill
}

func (TrivialAugmentWide) Name() string { return "TrivialAugmentWide" }

func (o TrivialAugmentWide) String() string {
	return object(o, "num_magnitude_bins", o.Bins, "interpolation", o.Interpolation.String(), "fill", o.Fill)
}

func (o TrivialAugmentWide) read(p *parameters) Op {
	o.Bins = p.integer("num_magnitude_bins", 31)
	o.Interpolation = p.interpolation(Nearest)
	o.Fill = p.fill()
	return o
}

func (o TrivialAugmentWide) prepare() (Op, error) {
	if err := checkBins(o.Bins); err != nil {
		return nil, err
	}
	return o, checkMapping(o.Interpolation)
}

func (TrivialAugmentWide) random() bool { return true }

func (TrivialAugmentWide) outputSize(h, w int) (int, int) { return h, w }

func (o TrivialAugmentWide) apply(c *canvas) error {
	a, k := wideSpace.augmentations[c.draws.below(len(wideSpace.augmentations))], 0
	if a.leveled() {
		k = c.draws.below(o.Bins)
	}
	return c.drawn(&wideSpace, a, k, o.Bins, o.Interpolation, o.Fill)
}

package transform

import "fmt"

// RandAugment is torchvision.transforms.RandAugment(num_ops, magnitude, num_magnitude_bins, interpolation, fill).
type RandAugment struct {
	// NumOps augmentations are done, one after the other. In JSON its default is torchvision's, 2.
	NumOps int
	// Magnitude is that of all of them, as a place from 0 among Bins. In JSON the defaults are torchvision's, 9 and 31.
	Magnitude, Bins int
	// Interpolation is Nearest, Bilinear or Bicubic. In JSON its default is torchvision's, Nearest.
	Interpolation Interpolation
	// Fill is the colour of what shows nothing of the image.
	Fill Fill
}

func (RandAugment) Name() string { return "RandAugment" }

func (o RandAugment) String() string {
	return object(o, "num_ops", o.NumOps, "magnitude", o.Magnitude, "num_magnitude_bins", o.Bins,
		"interpolation", o.Interpolation.String(), "fill", o.Fill)
}

func (o RandAugment) read(p *parameters) Op {
	o.NumOps = p.integer("num_ops", 2)
	o.Magnitude = p.integer("magnitude", 9)
	o.Bins = p.integer("num_magnitude_bins", 31)
	o.Interpolation = p.interpolation(Nearest)
	o.Fill = p.fill()
	return o
}

func (o RandAugment) prepare() (Op, error) {
	if o.NumOps < 0 || o.NumOps > opsMax {
		return nil, fmt.Errorf("num_ops is %d, want 0 to %d", o.NumOps, opsMax)
	}
	if err := checkBins(o.Bins); err != nil {
		return nil, err
	}
	if o.Magnitude < 0 || o.Magnitude >= o.Bins {
		return nil, fmt.Errorf("magnitude is %d, want 0 to %d: num_magnitude_bins is %d", o.Magnitude, o.Bins-1, o.Bins)
	}
	return o, checkMapping(o.Interpolation)
}

func checkBins(bins int) error {
	if bins < 2 || bins > binsMax {
		return fmt.Errorf("num_magnitude_bins is %d, want 2 to %d", bins, binsMax)
	}
	return nil
}

func (o RandAugment) random() bool { return o.NumOps > 0 }

func (RandAugment) outputSize(h, w int) (int, int) { return h, w }

func (o RandAugment) apply(c *canvas) error {
	for range o.NumOps {
		a := randSpace.augmentations[c.draws.below(len(randSpace.augmentations))]
		if err := c.drawn(&randSpace, a, o.Magnitude, o.Bins, o.Interpolation, o.Fill); err != nil {
			return err
		}
	}
	return nil
}

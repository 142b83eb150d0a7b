package transform

// RandomAdjustSharpness is torchvision.transforms.RandomAdjustSharpness(sharpness_factor, p).
type RandomAdjustSharpness struct {
	// Factor is sharpness_factor: 0 smooths, 1 changes nothing, 2 sharpens.
	Factor float64
	// P is the probability. In JSON its default is torchvision's, 0.5.
	P float64
}

func (RandomAdjustSharpness) Name() string { return "RandomAdjustSharpness" }

func (o RandomAdjustSharpness) String() string {
	return object(o, "sharpness_factor", o.Factor, "p", o.P)
}

func (o RandomAdjustSharpness) read(p *parameters) Op {
	o.Factor = p.required("sharpness_factor")
	o.P = p.number("p", 0.5)
	return o
}

func (o RandomAdjustSharpness) prepare() (Op, error) {
	if err := checkFactor("sharpness_factor", o.Factor); err != nil {
		return nil, err
	}
	return o, checkProbability("p", o.P)
}

func (RandomAdjustSharpness) random() bool { return true }

func (RandomAdjustSharpness) outputSize(h, w int) (int, int) { return h, w }

func (o RandomAdjustSharpness) apply(c *canvas) error {
	if c.draws.unit() >= o.P {
		return nil
	}
	return c.sharpness(o.Factor)
}

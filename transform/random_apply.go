package transform

// RandomApply is torchvision.transforms.RandomApply(transforms, p): all of them, in order, or none.
type RandomApply struct {
	Transforms []Op
	// P is the probability. In JSON its default is torchvision's, 0.5.
	P float64
}

func (RandomApply) Name() string { return "RandomApply" }

func (o RandomApply) String() string { return object(o, "transforms", opsJSON(o.Transforms), "p", o.P) }

func (o RandomApply) read(p *parameters) Op {
	o.Transforms = p.transforms()
	o.P = p.number("p", 0.5)
	return o
}

func (o RandomApply) prepare() (Op, error) {
	var err error
	if o.Transforms, err = prepareAll(o.Transforms); err != nil {
		return nil, err
	}
	return o, checkProbability("p", o.P)
}

func (RandomApply) random() bool { return true }

func (o RandomApply) outputSize(h, w int) (int, int) {
	doneH, doneW := h, w
	for _, op := range o.Transforms {
		doneH, doneW = op.outputSize(doneH, doneW)
	}
	if doneH != h || doneW != w {
		return 0, 0
	}
	return h, w
}

func (o RandomApply) apply(c *canvas) error {
	if c.draws.unit() >= o.P {
		return nil
	}
	for _, op := range o.Transforms {
		if err := c.do(op); err != nil {
			return err
		}
	}
	return nil
}

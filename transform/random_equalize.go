package transform

// RandomEqualize is torchvision.transforms.RandomEqualize(p).
type RandomEqualize struct {
	// P is the probability. In JSON its default is torchvision's, 0.5.
	P float64
}

func (RandomEqualize) Name() string { return "RandomEqualize" }

func (o RandomEqualize) String() string { return object(o, "p", o.P) }

func (o RandomEqualize) read(p *parameters) Op {
	o.P = p.number("p", 0.5)
	return o
}

func (o RandomEqualize) prepare() (Op, error) { return o, checkProbability("p", o.P) }

func (RandomEqualize) random() bool { return true }

func (RandomEqualize) outputSize(h, w int) (int, int) { return h, w }

func (o RandomEqualize) apply(c *canvas) error {
	if c.draws.unit() >= o.P {
		return nil
	}
	return c.equalize()
}

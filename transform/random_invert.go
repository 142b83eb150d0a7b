package transform

// RandomInvert is torchvision.transforms.RandomInvert(p).
type RandomInvert struct {
	// P is the probability. In JSON its default is torchvision's, 0.5.
	P float64
}

func (RandomInvert) Name() string { return "RandomInvert" }

func (o RandomInvert) String() string { return object(o, "p", o.P) }

func (o RandomInvert) read(p *parameters) Op {
	o.P = p.number("p", 0.5)
	return o
}

func (o RandomInvert) prepare() (Op, error) { return o, checkProbability("p", o.P) }

func (RandomInvert) random() bool { return true }

func (RandomInvert) outputSize(h, w int) (int, int) { return h, w }

func (o RandomInvert) apply(c *canvas) error {
	if c.draws.unit() >= o.P {
		return nil
	}
	return c.invert()
}

package transform

// RandomAutocontrast is torchvision.transforms.RandomAutocontrast(p).
type RandomAutocontrast struct {
	// P is the probability. In JSON its default is torchvision's, 0.5.
	P float64
}

func (RandomAutocontrast) Name() string { return "RandomAutocontrast" }

func (o RandomAutocontrast) String() string { return object(o, "p", o.P) }

func (o RandomAutocontrast) read(p *parameters) Op {
	o.P = p.number("p", 0.5)
	return o
}

func (o RandomAutocontrast) prepare() (Op, error) { return o, checkProbability("p", o.P) }

func (RandomAutocontrast) random() bool { return true }

func (RandomAutocontrast) outputSize(h, w int) (int, int) { return h, w }

func (o RandomAutocontrast) apply(c *canvas) error {
	if c.draws.unit() >= o.P {
		return nil
	}
	return c.autocontrast()
}

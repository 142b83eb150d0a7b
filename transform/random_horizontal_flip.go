package transform

// RandomHorizontalFlip is torchvision.transforms.RandomHorizontalFlip(p).
type RandomHorizontalFlip struct {
	// P is the probability of a flip. In JSON its default is torchvision's, 0.5.
	P float64
}

func (RandomHorizontalFlip) Name() string { return "RandomHorizontalFlip" }

func (o RandomHorizontalFlip) String() string { return object(o, "p", o.P) }

func (o RandomHorizontalFlip) read(p *parameters) Op {
	o.P = p.number("p", 0.5)
	return o
}

func (o RandomHorizontalFlip) prepare() (Op, error) { return o, checkProbability("p", o.P) }

func (RandomHorizontalFlip) random() bool { return true }

func (RandomHorizontalFlip) outputSize(h, w int) (int, int) { return h, w }

func (o RandomHorizontalFlip) apply(c *canvas) error {
	if c.draws.unit() < o.P {
		c.flip()
	}
	return nil
}

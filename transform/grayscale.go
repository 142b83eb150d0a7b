package transform

// Grayscale is torchvision.transforms.Grayscale(num_output_channels=3): three equal channels. The one channel that is torchvision's
// default is refused, as results are RGB.
type Grayscale struct{}

func (Grayscale) Name() string { return "Grayscale" }

func (o Grayscale) String() string { return object(o, "num_output_channels", 3) }

func (o Grayscale) read(p *parameters) Op {
	if n := p.integer("num_output_channels", 1); n != 3 {
		p.fail("num_output_channels is %d, want 3: results are RGB", n)
	}
	return o
}

func (o Grayscale) prepare() (Op, error) { return o, nil }

func (Grayscale) random() bool { return false }

func (Grayscale) outputSize(h, w int) (int, int) { return h, w }

func (o Grayscale) apply(c *canvas) error { return c.grayscale() }

// RandomGrayscale is torchvision.transforms.RandomGrayscale(p).
type RandomGrayscale struct {
	// P is the probability. In JSON its default is torchvision's, 0.1.
	P float64
}

func (RandomGrayscale) Name() string { return "RandomGrayscale" }

func (o RandomGrayscale) String() string { return object(o, "p", o.P) }

func (o RandomGrayscale) read(p *parameters) Op {
	o.P = p.number("p", 0.1)
	return o
}

func (o RandomGrayscale) prepare() (Op, error) { return o, checkProbability("p", o.P) }

func (RandomGrayscale) random() bool { return true }

func (RandomGrayscale) outputSize(h, w int) (int, int) { return h, w }

func (o RandomGrayscale) apply(c *canvas) error {
	if c.draws.unit() >= o.P {
		return nil
	}
	return c.grayscale()
}

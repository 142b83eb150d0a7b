package transform

import "fmt"

// RandomPosterize is torchvision.transforms.RandomPosterize(bits, p).
type RandomPosterize struct {
	// Bits are how many upper bits of each level are kept, 0 to 8. With 0 the image is black; Pillow from release 12 on refuses that.
	Bits int
	// P is the probability. In JSON its default is torchvision's, 0.5.
	P float64
}

func (RandomPosterize) Name() string { return "RandomPosterize" }

func (o RandomPosterize) String() string { return object(o, "bits", o.Bits, "p", o.P) }

func (o RandomPosterize) read(p *parameters) Op {
	if bits := p.required("bits"); 0 <= bits && bits <= 8 && bits == float64(int(bits)) {
		o.Bits = int(bits)
	} else {
		p.fail("bits is %v, want a whole number from 0 to 8", bits)
	}
	o.P = p.number("p", 0.5)
	return o
}

func (o RandomPosterize) prepare() (Op, error) {
	if o.Bits < 0 || o.Bits > 8 {
		return nil, fmt.Errorf("bits is %d, want 0 to 8", o.Bits)
	}
	return o, checkProbability("p", o.P)
}

func (RandomPosterize) random() bool { return true }

func (RandomPosterize) outputSize(h, w int) (int, int) { return h, w }

func (o RandomPosterize) apply(c *canvas) error {
	if c.draws.unit() >= o.P {
		return nil
	}
	return c.posterize(o.Bits)
}

package transform

import "fmt"

// RandomSolarize is torchvision.transforms.RandomSolarize(threshold, p).
type RandomSolarize struct {
	// Threshold is the least level that is inverted.
	Threshold float64
	// P is the probability. In JSON its default is torchvision's, 0.5.
	P float64
}

func (RandomSolarize) Name() string { return "RandomSolarize" }

func (o RandomSolarize) String() string { return object(o, "threshold", o.Threshold, "p", o.P) }

func (o RandomSolarize) read(p *parameters) Op {
	o.Threshold = p.required("threshold")
	o.P = p.number("p", 0.5)
	return o
}

func (o RandomSolarize) prepare() (Op, error) {
	if !(-1e6 <= o.Threshold && o.Threshold <= 1e6) {
		return nil, fmt.Errorf("threshold is %v, want a level such as 128", o.Threshold)
	}
	return o, checkProbability("p", o.P)
}

func (RandomSolarize) random() bool { return true }

func (RandomSolarize) outputSize(h, w int) (int, int) { return h, w }

func (o RandomSolarize) apply(c *canvas) error {
	if c.draws.unit() >= o.P {
		return nil
	}
	return c.solarize(o.Threshold)
}

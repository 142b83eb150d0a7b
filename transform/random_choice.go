package transform

import "fmt"

// RandomChoice is torchvision.transforms.RandomChoice(transforms, p): one of them.
type RandomChoice struct {
	Transforms []Op
	// P are the operations' weights; nil stands for equal ones.
	P []float64
}

func (RandomChoice) Name() string { return "RandomChoice" }

func (o RandomChoice) String() string {
	return object(o, "transforms", opsJSON(o.Transforms), "p", o.P)
}

func (o RandomChoice) read(p *parameters) Op {
	o.Transforms = p.transforms()
	p.decode("p", "a list of numbers", &o.P)
	return o
}

func (o RandomChoice) prepare() (Op, error) {
	var err error
	if o.Transforms, err = prepareAll(o.Transforms); err != nil {
		return nil, err
	}
	if o.P == nil {
		return o, nil
	}
	if len(o.P) != len(o.Transforms) {
		return nil, fmt.Errorf("p has %d weights for %d transforms", len(o.P), len(o.Transforms))
	}
	sum := 0.0
	for _, p := range o.P {
		if !(0 <= p && p <= 1e9) {
			return nil, fmt.Errorf("p is %v, want weights of at least 0", o.P)
		}
		sum += p
	}
	if sum == 0 {
		return nil, fmt.Errorf("p is %v, want one weight above 0 at least", o.P)
	}
	return o, nil
}

func (RandomChoice) random() bool { return true }

func (o RandomChoice) outputSize(h, w int) (int, int) {
	firstH, firstW := o.Transforms[0].outputSize(h, w)
	for _, op := range o.Transforms[1:] {
		if otherH, otherW := op.outputSize(h, w); otherH != firstH || otherW != firstW {
			return 0, 0
		}
	}
	return firstH, firstW
}

func (o RandomChoice) apply(c *canvas) error {
	if o.P == nil {
		return c.do(o.Transforms[c.draws.below(len(o.Transforms))])
	}
	return c.do(o.Transforms[c.draws.weighted(o.P)])
}

package transform

// RandomOrder is torchvision.transforms.RandomOrder(transforms): all of them, in a random order.
type RandomOrder struct{ Transforms []Op }

func (RandomOrder) Name() string { return "RandomOrder" }

func (o RandomOrder) String() string { return object(o, "transforms", opsJSON(o.Transforms)) }

func (o RandomOrder) read(p *parameters) Op {
	o.Transforms = p.transforms()
	return o
}

func (o RandomOrder) prepare() (Op, error) {
	var err error
	o.Transforms, err = prepareAll(o.Transforms)
	return o, err
}

func (RandomOrder) random() bool { return true }

// outputSize knows no size unless none of the operations changes it.
func (o RandomOrder) outputSize(h, w int) (int, int) {
	for _, op := range o.Transforms {
		if otherH, otherW := op.outputSize(h, w); otherH != h || otherW != w {
			return 0, 0
		}
	}
	return h, w
}

func (o RandomOrder) apply(c *canvas) error {
	var places [opsMax]int
	order := places[:len(o.Transforms)]
	for i := range order {
		order[i] = i
	}
	c.draws.shuffle(order)
	for _, i := range order {
		if err := c.do(o.Transforms[i]); err != nil {
			return err
		}
	}
	return nil
}

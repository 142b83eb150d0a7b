package transform

import (
	"fmt"

	"github.com/imgfeed/imgfeed/internal/pointwise"
)

// RandomAdjustSharpness is torchvision.transforms.RandomAdjustSharpness(sharpness_factor, p).
type RandomAdjustSharpness struct {
	// Factor is sharpness_factor: 0 smooths, 1 changes nothing, 2 sharpens.
	Factor float64
	// P is the probability. In JSON its default is torchvision's, 0.5.
	P float64
}

func (RandomAdjustSharpness) Name() string { return "RandomAdjustSharpness" }

func (o RandomAdjustSharpness) String() string {
	return object(o, "sharpness_factor", o.Factor, "p", o.P)
}

func (o RandomAdjustSharpness) read(p *parameters) Op {
	o.Factor = p.required("sharpness_factor")
	o.P = p.number("p", 0.5)
	return o
}

func (o RandomAdjustSharpness) prepare() (Op, error) {
	if err := checkFactor("sharpness_factor", o.Factor); err != nil {
		return nil, err
	}
	return o, checkProbability("p", o.P)
}

func (RandomAdjustSharpness) random() bool { return true }

func (RandomAdjustSharpness) outputSize(h, w int) (int, int) { return h, w }

func (o RandomAdjustSharpness) apply(c *canvas) error {
	if c.draws.unit() >= o.P {
		return nil
	}
	return c.sharpen(o.Factor)
}

// sharpen is torchvision's adjust_sharpness.
func (c *canvas) sharpen(factor float64) error {
	if float32(factor) == 1 {
		return nil
	}
	from, to, err := c.redraw(c.size())
	if err != nil {
		return err
	}
	pointwise.Sharpen(to.Pix, from.Pix, from.Width, from.Height, float32(factor))
	return nil
}

// factorMax bounds the factor of an enhancement. From 255 on every level is 0, 255 or unchanged.
const factorMax = 1e6

func checkFactor(name string, factor float64) error {
	if !(0 <= factor && factor <= factorMax) {
		return fmt.Errorf("%s is %v, want 0 to %g", name, factor, factorMax)
	}
	return nil
}

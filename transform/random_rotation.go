package transform

import "github.com/imgfeed/imgfeed/internal/libm"

// RandomRotation is torchvision.transforms.RandomRotation(degrees, interpolation, expand, center, fill).
type RandomRotation struct {
	// Degrees are the least and the largest angle, counterclockwise.
	Degrees [2]float64
	// Interpolation is Nearest, Bilinear or Bicubic. In JSON its default is torchvision's, Nearest.
	Interpolation Interpolation
	// Expand gives the result the size that the turned image needs.
	Expand bool
	// Center is the point that stays where it is, x and y in pixels; nil for the image's middle.
	Center *[2]float64
	// Fill is the colour of what shows nothing of the image.
	Fill Fill
}

func (RandomRotation) Name() string { return "RandomRotation" }

func (o RandomRotation) String() string {
	return object(o, "degrees", o.Degrees, "interpolation", o.Interpolation.String(), "expand", o.Expand, "center", o.Center, "fill", o.Fill)
}

func (o RandomRotation) read(p *parameters) Op {
	o.Degrees = p.angle("degrees")
	o.Interpolation = p.interpolation(Nearest)
	o.Expand = p.boolean("expand", false)
	o.Center = p.point("center")
	o.Fill = p.fill()
	return o
}

func (o RandomRotation) prepare() (Op, error) {
	if err := checkInterval("degrees", o.Degrees, -libm.DegreesMax, libm.DegreesMax); err != nil {
		return nil, err
	}
	if err := checkPoint("center", o.Center); err != nil {
		return nil, err
	}
	return o, checkMapping(o.Interpolation)
}

func (RandomRotation) random() bool { return true }

func (o RandomRotation) outputSize(h, w int) (int, int) {
	if o.Expand {
		return 0, 0
	}
	return h, w
}

func (o RandomRotation) apply(c *canvas) error {
	return c.rotate(c.draws.uniform(o.Degrees[0], o.Degrees[1]), o.Interpolation, o.Expand, o.Center, o.Fill)
}

package transform

import "github.com/imgfeed/imgfeed/internal/libm"

// RandomAffine is torchvision.transforms.RandomAffine(degrees, translate, scale, shear, interpolation, fill, center).
type RandomAffine struct {
	// Degrees are the least and the largest angle, clockwise.
	Degrees [2]float64
	// Translate are the largest shifts, as shares of width and height; zeros for none.
	Translate [2]float64
	// Scale are the least and the largest scale; zeros for none.
	Scale [2]float64
	// Shear are the least and the largest shear in degrees along x, and then along y; zeros for none.
	Shear [4]float64
	// Interpolation is Nearest, Bilinear or Bicubic. In JSON its default is torchvision's, Nearest.
	Interpolation Interpolation
	// Fill is the colour of what shows nothing of the image.
	Fill Fill
	// Center is the point that everything is about, x and y in pixels; nil for the image's middle.
	Center *[2]float64
}

func (RandomAffine) Name() string { return "RandomAffine" }

func (o RandomAffine) String() string {
	pairs := []any{"degrees", o.Degrees}
	if o.Translate != [2]float64{} {
		pairs = append(pairs, "translate", o.Translate)
	}
	if o.Scale != [2]float64{} {
		pairs = append(pairs, "scale", o.Scale)
	}
	if o.Shear != [4]float64{} {
		pairs = append(pairs, "shear", o.Shear)
	}
	return object(o, append(pairs, "interpolation", o.Interpolation.String(), "fill", o.Fill, "center", o.Center)...)
}

func (o RandomAffine) read(p *parameters) Op {
	o.Degrees = p.angle("degrees")
	o.Translate = p.interval("translate", [2]float64{})
	if o.Scale = p.interval("scale", [2]float64{}); p.has("scale") && o.Scale == [2]float64{} {
		p.fail("scale is [0, 0], want %g to %g", scaleMin, float64(scaleMax))
	}
	if list := p.angles("shear", 4); list != nil {
		copy(o.Shear[:], list)
	}
	o.Interpolation = p.interpolation(Nearest)
	o.Fill = p.fill()
	o.Center = p.point("center")
	return o
}

// scaleMin and scaleMax bound scales: what is smaller or larger shows one colour.
const (
	scaleMin = 1e-6
	scaleMax = 1e6
)

func (o RandomAffine) prepare() (Op, error) {
	if err := checkInterval("degrees", o.Degrees, -libm.DegreesMax, libm.DegreesMax); err != nil {
		return nil, err
	}
	for i := 0; i < 4; i += 2 {
		if err := checkInterval("shear", [2]float64(o.Shear[i:i+2]), -libm.DegreesMax, libm.DegreesMax); err != nil {
			return nil, err
		}
	}
	for _, share := range o.Translate {
		if err := checkProbability("translate", share); err != nil {
			return nil, err
		}
	}
	if o.Scale != [2]float64{} {
		if err := checkInterval("scale", o.Scale, scaleMin, scaleMax); err != nil {
			return nil, err
		}
	}
	if err := checkPoint("center", o.Center); err != nil {
		return nil, err
	}
	return o, checkMapping(o.Interpolation)
}

func (RandomAffine) random() bool { return true }

func (RandomAffine) outputSize(h, w int) (int, int) { return h, w }

func (o RandomAffine) apply(c *canvas) error {
	w, h := c.size()
	angle, translate, scale, shear := o.draw(w, h, &c.draws)
	return c.affine(affineParams{angle, translate, scale, shear, o.Center}, o.Interpolation, o.Fill)
}

// draw draws for an image of w × h pixels: the angle; of what there is, the shift along x and y in whole pixels, the scale,
// and the shear along x and y. A pair of zeros for the shear along y draws none.
func (o RandomAffine) draw(w, h int, d *RNG) (angle float64, translate [2]float64, scale float64, shear [2]float64) {
	angle = d.uniform(o.Degrees[0], o.Degrees[1])
	if o.Translate != [2]float64{} {
		for i, side := range [2]int{w, h} {
			most := float64(o.Translate[i] * float64(side))
			translate[i] = float64(roundToInt(d.uniform(-most, most)))
		}
	}
	scale = 1
	if o.Scale != [2]float64{} {
		scale = d.uniform(o.Scale[0], o.Scale[1])
	}
	if o.Shear != [4]float64{} {
		shear[0] = d.uniform(o.Shear[0], o.Shear[1])
		if o.Shear[2] != 0 || o.Shear[3] != 0 {
			shear[1] = d.uniform(o.Shear[2], o.Shear[3])
		}
	}
	return angle, translate, scale, shear
}

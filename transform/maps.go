package transform

import (
	"math"
	"strconv"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/internal/libm"
	"github.com/imgfeed/imgfeed/transform/internal/affine"
)

// RandomRotation is torchvision.transforms.RandomRotation(degrees, interpolation, expand, center, fill).
type RandomRotation struct {
	// Degrees are the smallest and the largest angle, counterclockwise.
	Degrees       [2]float64    `param:"degrees" is:"angle" range:"-1e6 1e6"`
	Interpolation Interpolation `param:"interpolation" default:"nearest" is:"map"`
	// Expand enlarges the result to hold the whole turned image.
	Expand bool `param:"expand" default:"false"`
	// Center is the point that stays where it is, x and y in pixels; nil for the image's middle.
	Center *[2]float64 `param:"center" default:"null" range:"-1e6 1e6"`
	// Fill is the colour of what shows nothing of the image, and MaskFill the label in masks.
	Fill     Fill `param:"fill" is:"map fill" default:"0"`
	MaskFill int  `param:"mask_fill,omitempty" default:"0" range:"0 255"`
}

func (o RandomRotation) outputSize(h, w int) (int, int) {
	if o.Expand {
		return 0, 0
	}
	return h, w
}

func (o RandomRotation) apply(c *canvas) error {
	return c.rotate(c.draws.uniform(o.Degrees[0], o.Degrees[1]), o.Interpolation, o.Expand, o.Center, o.Fill, o.MaskFill)
}

// RandomAffine is torchvision.transforms.RandomAffine(degrees, translate, scale, shear, interpolation, fill, center).
type RandomAffine struct {
	// Degrees are the smallest and the largest angle, clockwise.
	Degrees [2]float64 `param:"degrees" is:"angle" range:"-1e6 1e6"`
	// Translate are the largest shifts, as fractions of width and height; zeros shift nothing.
	Translate [2]float64 `param:"translate,omitempty" is:"shares" default:"null" range:"0 1"`
	// Scale are the smallest and the largest scale; zeros keep the size.
	Scale [2]float64 `param:"scale,omitempty,nonzero" default:"null" range:"1e-6 1e6"`
	// Shear are the smallest and the largest shear in degrees along x, and then along y; zeros shear nothing.
	Shear         [4]float64    `param:"shear,omitempty" is:"shear" default:"null" range:"-1e6 1e6"`
	Interpolation Interpolation `param:"interpolation" default:"nearest" is:"map"`
	// Fill is the colour of what shows nothing of the image.
	Fill Fill `param:"fill" is:"map fill" default:"0"`
	// Center is the fixed point of rotation, scale and shear, x and y in pixels; nil for the image's middle.
	Center *[2]float64 `param:"center" default:"null" range:"-1e6 1e6"`
	// MaskFill is the label in masks of what shows nothing of the image.
	MaskFill int `param:"mask_fill,omitempty" default:"0" range:"0 255"`
}

// apply draws the angle, then the shift along x and y in whole pixels, the scale, and the shear along x and y: those that have a range.
func (o RandomAffine) apply(c *canvas) error {
	w, h := c.size()
	p := affineParams{angle: c.draws.uniform(o.Degrees[0], o.Degrees[1]), scale: 1, center: o.Center}
	if o.Translate != [2]float64{} {
		for i, side := range [2]int{w, h} {
			limit := float64(o.Translate[i] * float64(side))
			p.translate[i] = float64(roundToInt(c.draws.uniform(-limit, limit)))
		}
	}
	if o.Scale != [2]float64{} {
		p.scale = c.draws.uniform(o.Scale[0], o.Scale[1])
	}
	if o.Shear != [4]float64{} {
		p.shear[0] = c.draws.uniform(o.Shear[0], o.Shear[1])
		if o.Shear[2] != 0 || o.Shear[3] != 0 {
			p.shear[1] = c.draws.uniform(o.Shear[2], o.Shear[3])
		}
	}
	return c.affine(p, o.Interpolation, o.Fill, o.MaskFill)
}

// affineMap replaces the image by one of w × h pixels. The matrix maps its pixels to those of the old image; pixels
// outside that get the colour fill.
func (c *canvas) affineMap(w, h int, matrix affine.Matrix, filter Interpolation, fill Fill) error {
	return c.change(change{work: mapImage, width: w, height: h, params: changeParams{matrix: matrix, filter: filter, fill: fill}})
}

func mapImage(e *Engine, to, from *imagefile.RGB, params *changeParams) {
	if params.tensor {
		t := affine.NewTensor(params.matrix, from.Width, from.Height, params.filter == Bilinear, params.masked)
		e.mapper.MapTensor(to, from, &t, params.fill)
		return
	}
	e.mapper.Map(to, from, params.matrix, params.filter, params.fill)
}

// affineParams are the parameters of torchvision's affine: angles in degrees, clockwise, shifts in pixels, and the
// fixed point, nil for the image's middle.
type affineParams struct {
	angle     float64
	translate [2]float64
	scale     float64
	shear     [2]float64
	center    *[2]float64
}

// affine is torchvision's affine.
func (c *canvas) affine(p affineParams, filter Interpolation, fill Fill, label int) error {
	if c.log != nil {
		c.log.add("affine", "angle", p.angle, "translate", p.translate, "scale", p.scale, "shear", p.shear,
			"interpolation", filter, "fill", c.fillGiven(fill), "center", p.center)
	}
	if c.targets != nil {
		noteBy(c, "mask_fill", "label", label)
		c.targets.affine(p, byte(label))
	}
	w, h := c.size()
	if c.tensor {
		return c.tensorMap(w, h, p.inverseTensor(fromMiddle(p.center, w, h)), filter, fill)
	}
	return c.affineMap(w, h, p.inverse(orMiddle(p.center, w, h)), filter, fill)
}

// pillowTransform is Pillow's Image.transform of the image's own size by a matrix.
func (c *canvas) pillowTransform(matrix affine.Matrix, filter Interpolation, fill Fill) error {
	if c.log != nil {
		c.log.add("pillow_transform", "data", matrix, "resample", filter, "fillcolor", fill)
	}
	w, h := c.size()
	return c.affineMap(w, h, matrix, filter, fill)
}

// atanDegrees returns the arc tangent of x in degrees, |x| ≤ 1, by Newton's method, which every platform rounds alike.
func atanDegrees(x float64) float64 {
	angle := x / (1 + float64(0.28*float64(x*x)))
	for range 6 {
		tan := libm.Tan(angle)
		angle -= (tan - x) / (1 + float64(tan*tan))
	}
	return angle * (180 / math.Pi)
}

// rotate is Pillow's Image.rotate, and so torchvision's rotate: counterclockwise by an angle in degrees, about center
// (nil for the image's middle). With expand the result is as large as the turned image needs.
func (c *canvas) rotate(degrees float64, filter Interpolation, expand bool, center *[2]float64, fill Fill, label int) error {
	if c.log != nil {
		c.log.add("rotate", "angle", degrees, "interpolation", filter, "expand", expand, "center", center, "fill", c.fillGiven(fill))
	}
	if c.targets != nil {
		noteBy(c, "mask_fill", "label", label)
		c.targets.rotate(degrees, center, byte(label))
	}
	w, h := c.size()
	degrees = math.Mod(degrees, 360)
	if degrees < 0 {
		degrees += 360
	}
	if center == nil && degrees == 0 {
		return nil
	}
	// By these angles torchvision transposes a tensor, just as Pillow an image.
	transposes := center == nil && (degrees == 180 || (expand || w == h) && math.Mod(degrees, 90) == 0)
	if c.tensor && !transposes {
		turn := affineParams{angle: -degrees, scale: 1}
		m := turn.inverseTensor(fromMiddle(center, w, h))
		if expand {
			w, h = expandedTensor(w, h, m)
		}
		return c.tensorMap(w, h, m, filter, fill)
	}
	m := rotation(degrees, orMiddle(center, w, h))
	if expand {
		newW, newH := expanded(w, h, m)
		if center == nil && m[0] == 0 { // a quarter turn, which Pillow makes by transposing
			newW, newH = h, w
		}
		m[2], m[5] = mapped(m, -float64(newW-w)/2, -float64(newH-h)/2)
		w, h = newW, newH
	}
	return c.affineMap(w, h, m, filter, fill)
}

// rotation is the matrix of Image.rotate, which rounds sine and cosine to 15 decimals.
func rotation(degrees float64, center [2]float64) affine.Matrix {
	sin, cos := libm.SinCos(-libm.Radians(degrees))
	m := affine.Matrix{decimals15(cos), decimals15(sin), 0, decimals15(-sin), decimals15(cos), 0}
	m[2], m[5] = mapped(m, -center[0], -center[1])
	m[2] += center[0]
	m[5] += center[1]
	return m
}

// decimals15 is Python's round(x, 15), for |x| ≤ 1.
func decimals15(x float64) float64 {
	var text [24]byte
	rounded, _ := strconv.ParseFloat(string(strconv.AppendFloat(text[:0], x, 'f', 15, 64)), 64) // a number's own text
	return rounded
}

// mapped applies a matrix to a point.
func mapped(m affine.Matrix, x, y float64) (float64, float64) {
	return float64(m[0]*x) + float64(m[1]*y) + m[2], float64(m[3]*x) + float64(m[4]*y) + m[5]
}

// expanded returns the size of a result that holds a whole turned w × h image.
func expanded(w, h int, m affine.Matrix) (int, int) {
	width, height := float64(w), float64(h)
	var low, high [2]float64
	for i, corner := range [4][2]float64{{0, 0}, {width, 0}, {width, height}, {0, height}} {
		x, y := mapped(m, corner[0], corner[1])
		if i == 0 {
			low, high = [2]float64{x, y}, [2]float64{x, y}
		}
		low, high = [2]float64{min(low[0], x), min(low[1], y)}, [2]float64{max(high[0], x), max(high[1], y)}
	}
	return int(math.Ceil(high[0]) - math.Floor(low[0])), int(math.Ceil(high[1]) - math.Floor(low[1]))
}

// turn returns rotation and shear, a b / c d, as torchvision's _get_inverse_affine_matrix computes them.
func (p *affineParams) turn() (a, b, c, d float64) {
	rot, shearY := libm.Radians(p.angle), libm.Radians(p.shear[1])
	sinRot, cosRot := libm.SinCos(rot)
	sin, cos := libm.SinCos(rot - shearY)
	_, cosY := libm.SinCos(shearY)
	tanX := libm.Tan(libm.Radians(p.shear[0]))
	return cos / cosY, float64(-cos*tanX)/cosY - sinRot, sin / cosY, float64(-sin*tanX)/cosY + cosRot
}

// forward maps points of the image to those of the result: torchvision's _get_inverse_affine_matrix without inversion.
func (p *affineParams) forward(center [2]float64) affine.Matrix {
	a, b, c, d := p.turn()
	m := affine.Matrix{a * p.scale, b * p.scale, 0, c * p.scale, d * p.scale, 0}
	m[2], m[5] = mapped(m, -center[0], -center[1])
	m[2] += center[0] + p.translate[0]
	m[5] += center[1] + p.translate[1]
	return m
}

// inverse is torchvision's _get_inverse_affine_matrix, with the same arithmetic in the same order.
func (p *affineParams) inverse(center [2]float64) affine.Matrix {
	a, b, c, d := p.turn()
	m := affine.Matrix{d / p.scale, -b / p.scale, 0, -c / p.scale, a / p.scale, 0}
	x, y := -center[0]-p.translate[0], -center[1]-p.translate[1]
	m[2], m[5] = mapped(m, x, y)
	m[2] += center[0]
	m[5] += center[1]
	return m
}

// RandomHorizontalFlip is torchvision.transforms.RandomHorizontalFlip(p).
type RandomHorizontalFlip struct {
	P float64 `param:"p" default:"0.5" range:"0 1"`
}

func (o RandomHorizontalFlip) apply(c *canvas) error { return c.chance(o.P, (*canvas).flip) }

// RandomVerticalFlip is torchvision.transforms.RandomVerticalFlip(p).
type RandomVerticalFlip struct {
	P float64 `param:"p" default:"0.5" range:"0 1"`
}

func (o RandomVerticalFlip) apply(c *canvas) error { return c.chance(o.P, (*canvas).flipVertically) }

// flipVertically mirrors the image top to bottom.
func (c *canvas) flipVertically() error {
	c.note("vflip")
	if c.targets != nil {
		c.targets.flip(true)
	}
	w, h := c.size()
	return c.change(change{work: mirrorRows, width: w, height: h})
}

// mirrorRows writes the rows of from to to in reverse.
func mirrorRows(_ *Engine, to, from *imagefile.RGB, _ *changeParams) {
	line := 3 * from.Width
	for y := range from.Height {
		copy(to.Pix[(from.Height-1-y)*line:][:line], from.Pix[y*line:])
	}
}

package transform

import (
	"math"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/transform/internal/pointwise"
)

// Operations that change colours, pixel by pixel or by the whole image's levels. Factors are at most 10⁶; from 255 on a
// level becomes 0 or 255, or stays unchanged.

// RandomInvert is torchvision.transforms.RandomInvert(p).
type RandomInvert struct {
	P float64 `param:"p" default:"0.5" range:"0 1"`
}

func (o RandomInvert) apply(c *canvas) error { return c.chance(o.P, (*canvas).invert) }

// Grayscale is torchvision.transforms.Grayscale(num_output_channels=3): three equal channels. torchvision's default of
// one channel is refused, as results are RGB.
type Grayscale struct {
	Channels three `param:"num_output_channels" default:"1"`
}

func (Grayscale) random() bool            { return false }
func (o Grayscale) apply(c *canvas) error { return c.grayscale() }

// RandomGrayscale is torchvision.transforms.RandomGrayscale(p).
type RandomGrayscale struct {
	P float64 `param:"p" default:"0.1" range:"0 1"`
}

func (o RandomGrayscale) apply(c *canvas) error { return c.chance(o.P, (*canvas).grayscale) }

// RandomAdjustSharpness is torchvision.transforms.RandomAdjustSharpness(sharpness_factor, p).
type RandomAdjustSharpness struct {
	// Factor is sharpness_factor: 0 smooths, 1 changes nothing, 2 sharpens.
	Factor float64 `param:"sharpness_factor" range:"0 1e6"`
	P      float64 `param:"p" default:"0.5" range:"0 1"`
}

func (o RandomAdjustSharpness) apply(c *canvas) error {
	return c.chance(o.P, func(c *canvas) error { return c.sharpness(o.Factor) })
}

// RandomPosterize is torchvision.transforms.RandomPosterize(bits, p).
type RandomPosterize struct {
	// Bits is the number of upper bits to keep of each level, 0 to 8. With 0 the image is black; Pillow 12 and later refuse that.
	Bits int     `param:"bits" range:"0 8"`
	P    float64 `param:"p" default:"0.5" range:"0 1"`
}

func (o RandomPosterize) apply(c *canvas) error {
	return c.chance(o.P, func(c *canvas) error { return c.posterize(o.Bits) })
}

// RandomSolarize is torchvision.transforms.RandomSolarize(threshold, p).
type RandomSolarize struct {
	// Threshold is the lowest inverted level.
	Threshold float64 `param:"threshold" range:"-1e6 1e6"`
	P         float64 `param:"p" default:"0.5" range:"0 1"`
}

func (o RandomSolarize) apply(c *canvas) error {
	return c.chance(o.P, func(c *canvas) error { return c.solarize(o.Threshold) })
}

// RandomAutocontrast is torchvision.transforms.RandomAutocontrast(p).
type RandomAutocontrast struct {
	P float64 `param:"p" default:"0.5" range:"0 1"`
}

func (o RandomAutocontrast) apply(c *canvas) error { return c.chance(o.P, (*canvas).autocontrast) }

// RandomEqualize is torchvision.transforms.RandomEqualize(p).
type RandomEqualize struct {
	P float64 `param:"p" default:"0.5" range:"0 1"`
}

func (o RandomEqualize) apply(c *canvas) error { return c.chance(o.P, (*canvas).equalize) }

// ColorJitter is torchvision.transforms.ColorJitter(brightness, contrast, saturation, hue): up to four adjustments, in a random order.
type ColorJitter struct {
	// Brightness, Contrast and Saturation are the ranges of their factors, at least 0; Hue is the range of the turn, within
	// −0.5 to 0.5. A nil range leaves its property alone. In JSON each may also be one number x, which stands for 1 − x (but
	// not below 0) to 1 + x, and for −x to x of the hue.
	Brightness *[2]float64 `param:"brightness" is:"factor" default:"0" range:"0 1e6"`
	Contrast   *[2]float64 `param:"contrast" is:"factor" default:"0" range:"0 1e6"`
	Saturation *[2]float64 `param:"saturation" is:"factor" default:"0" range:"0 1e6"`
	Hue        *[2]float64 `param:"hue" is:"factor" default:"0" range:"-0.5 0.5"`
}

func (o ColorJitter) random() bool {
	return o.Brightness != nil || o.Contrast != nil || o.Saturation != nil || o.Hue != nil
}

// apply draws the order of the four, then a factor for each that has a range.
func (o ColorJitter) apply(c *canvas) error {
	order := [4]int{0, 1, 2, 3}
	c.draws.shuffle(order[:])
	ranges := [4]*[2]float64{o.Brightness, o.Contrast, o.Saturation, o.Hue}
	var factors [4]float64
	for i, r := range ranges {
		if r != nil {
			factors[i] = c.draws.uniform(r[0], r[1])
		}
	}
	for _, i := range order {
		if ranges[i] == nil {
			continue
		}
		if err := jitters[i](c, factors[i]); err != nil {
			return err
		}
	}
	return nil
}

// jitters are the adjustments that ColorJitter makes, in the order of its parameters.
var jitters = [4]func(c *canvas, factor float64) error{(*canvas).brightness, (*canvas).contrast, (*canvas).saturation, (*canvas).hue}

// Changes of colours, named as in torchvision.transforms.functional.

// adjust changes the image by an adjustment, which takes an amount or ignores it. It has the bits of images of Pillow and of tensors.
func (c *canvas) adjust(adjustment pointwise.Adjustment, amount float64) error {
	return c.recolour(colour{adjustment: adjustment, amount: amount, tensor: c.tensor})
}

// adjustWhole is adjust for adjustments by the levels of the whole image.
func (c *canvas) adjustWhole(adjustment pointwise.Adjustment) error {
	w, h := c.size()
	params := changeParams{adjustment: adjustment, tensor: c.tensor}
	return c.change(change{work: adjustImage, inPlace: true, width: w, height: h, params: params})
}

func adjustImage(e *Engine, to, from *imagefile.RGB, params *changeParams) {
	params.adjustment(e.adjuster.On(params.tensor), to.Pix, from.Pix, 0)
}

func (c *canvas) invert() error {
	c.note("invert")
	return c.adjust((*pointwise.Adjuster).Invert, 0)
}

func (c *canvas) grayscale() error {
	noteBy(c, "rgb_to_grayscale", "num_output_channels", 3)
	return c.adjust((*pointwise.Adjuster).Gray, 0)
}

func (c *canvas) autocontrast() error {
	c.note("autocontrast")
	return c.adjustWhole((*pointwise.Adjuster).Autocontrast)
}

func (c *canvas) equalize() error {
	c.note("equalize")
	return c.adjustWhole((*pointwise.Adjuster).Equalize)
}

// posterize keeps the upper bits of every byte, 0 to 8. With 0 the image is black, as in Pillow before 12.
func (c *canvas) posterize(bits int) error {
	noteBy(c, "posterize", "bits", bits)
	if bits == 8 {
		return nil
	}
	return c.adjust((*pointwise.Adjuster).Posterize, float64(bits))
}

// solarize inverts bytes of at least threshold.
func (c *canvas) solarize(threshold float64) error {
	noteBy(c, "solarize", "threshold", threshold)
	if c.tensor {
		threshold = float64(float32(threshold))
	}
	return c.adjust((*pointwise.Adjuster).Solarize, math.Ceil(min(max(threshold, 0), 256)))
}

// solarizeAdd is timm's: it adds to bytes below 128.
func (c *canvas) solarizeAdd(add int) error {
	if c.log != nil {
		c.log.add("solarize_add", "add", add, "threshold", 128)
	}
	return c.adjust((*pointwise.Adjuster).SolarizeAdd, float64(min(add, 255)))
}

// enhance blends the image with a degenerate one by an adjustment; factor 1 leaves it unchanged.
func (c *canvas) enhance(name string, factor float64, adjustment pointwise.Adjustment) error {
	if c.noteEnhance(name, factor); c.same(factor) {
		return nil
	}
	return c.adjust(adjustment, factor)
}

func (c *canvas) noteEnhance(name string, factor float64) {
	if c.log != nil {
		c.log.add("adjust_"+name, name+"_factor", factor)
	}
}

// same reports whether a blend by a factor changes nothing. Pillow has the factor in float32, and torch what is left of it to 1.
func (c *canvas) same(factor float64) bool {
	return factor == 1 || !c.tensor && float32(factor) == 1
}

func (c *canvas) brightness(factor float64) error {
	return c.enhance("brightness", factor, (*pointwise.Adjuster).Brightness)
}

func (c *canvas) contrast(factor float64) error {
	if c.noteEnhance("contrast", factor); c.same(factor) {
		return nil
	}
	img, err := c.inMemory()
	if err != nil {
		return err
	}
	level := c.engine.adjuster.On(c.tensor).MeanGray(img.Pix)
	return c.recolour(colour{level: level, amount: factor, tensor: c.tensor})
}

func (c *canvas) saturation(factor float64) error {
	return c.enhance("saturation", factor, (*pointwise.Adjuster).Saturation)
}

// hue turns hues by factor, −0.5 to 0.5, of a whole turn. Pillow's conversion there and back shows even at 0.
func (c *canvas) hue(factor float64) error {
	noteBy(c, "adjust_hue", "hue_factor", factor)
	if !c.tensor {
		factor = float64(int(float64(factor * 255)))
	}
	return c.adjust((*pointwise.Adjuster).Hue, factor)
}

func (c *canvas) sharpness(factor float64) error {
	noteBy(c, "adjust_sharpness", "sharpness_factor", factor)
	if c.same(factor) {
		return nil
	}
	w, h := c.size()
	return c.change(change{work: sharpen, width: w, height: h, params: changeParams{amount: factor, tensor: c.tensor}})
}

func sharpen(e *Engine, to, from *imagefile.RGB, params *changeParams) {
	e.adjuster.On(params.tensor).Sharpness(to.Pix, from.Pix, from.Width, from.Height, params.amount)
}

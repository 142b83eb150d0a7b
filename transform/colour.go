package transform

import (
	"fmt"
	"math"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
)

// What operations do to colours, under the names that torchvision's functional has, on the image that the canvas is.

// adjust has work change the image, by a number if it takes one.
func (c *canvas) adjust(work changeWork, by float32) error {
	w, h := c.size()
	return c.change(change{work: work, inPlace: true, width: w, height: h, with: changeParams{by: by}})
}

func (c *canvas) invert() error {
	if c.log != nil {
		c.log.add("invert")
	}
	return c.adjust(func(e *Engine, to, from *imagefile.RGB, _ *changeParams) { e.adjuster.Invert(to.Pix, from.Pix) }, 0)
}

func (c *canvas) grayscale() error {
	if c.log != nil {
		c.log.add("rgb_to_grayscale", "num_output_channels", 3)
	}
	return c.adjust(func(e *Engine, to, from *imagefile.RGB, _ *changeParams) { e.adjuster.Gray(to.Pix, from.Pix) }, 0)
}

func (c *canvas) autocontrast() error {
	if c.log != nil {
		c.log.add("autocontrast")
	}
	return c.adjust(func(e *Engine, to, from *imagefile.RGB, _ *changeParams) { e.adjuster.Autocontrast(to.Pix, from.Pix) }, 0)
}

func (c *canvas) equalize() error {
	if c.log != nil {
		c.log.add("equalize")
	}
	return c.adjust(func(e *Engine, to, from *imagefile.RGB, _ *changeParams) { e.adjuster.Equalize(to.Pix, from.Pix) }, 0)
}

// posterize keeps bits of every byte, 0 to 8: with 0 the image is black, as Pillow's was before it refused that.
func (c *canvas) posterize(bits int) error {
	if c.log != nil {
		c.log.add("posterize", "bits", bits)
	}
	if bits == 8 {
		return nil
	}
	return c.adjust(func(e *Engine, to, from *imagefile.RGB, with *changeParams) {
		e.adjuster.Posterize(to.Pix, from.Pix, int(with.by))
	}, float32(bits))
}

// solarize inverts bytes that are not below threshold.
func (c *canvas) solarize(threshold float64) error {
	if c.log != nil {
		c.log.add("solarize", "threshold", threshold)
	}
	return c.adjust(func(e *Engine, to, from *imagefile.RGB, with *changeParams) {
		e.adjuster.Solarize(to.Pix, from.Pix, int(with.by))
	}, float32(math.Ceil(min(max(threshold, 0), 256))))
}

// solarizeAdd is timm's: it adds to bytes below 128.
func (c *canvas) solarizeAdd(add int) error {
	if c.log != nil {
		c.log.add("solarize_add", "add", add, "threshold", 128)
	}
	return c.adjust(func(e *Engine, to, from *imagefile.RGB, with *changeParams) {
		e.adjuster.SolarizeAdd(to.Pix, from.Pix, int(with.by), 128)
	}, float32(min(add, 255)))
}

// enhance blends the image with a degenerate one: by 1 it stays as it is.
func (c *canvas) enhance(factor float64, work changeWork) error {
	if float32(factor) == 1 {
		return nil
	}
	return c.adjust(work, float32(factor))
}

func (c *canvas) brightness(factor float64) error {
	if c.log != nil {
		c.log.add("adjust_brightness", "brightness_factor", factor)
	}
	return c.enhance(factor, func(e *Engine, to, from *imagefile.RGB, with *changeParams) {
		e.adjuster.Brightness(to.Pix, from.Pix, with.by)
	})
}

func (c *canvas) contrast(factor float64) error {
	if c.log != nil {
		c.log.add("adjust_contrast", "contrast_factor", factor)
	}
	return c.enhance(factor, func(e *Engine, to, from *imagefile.RGB, with *changeParams) {
		e.adjuster.Contrast(to.Pix, from.Pix, with.by)
	})
}

func (c *canvas) saturation(factor float64) error {
	if c.log != nil {
		c.log.add("adjust_saturation", "saturation_factor", factor)
	}
	return c.enhance(factor, func(e *Engine, to, from *imagefile.RGB, with *changeParams) {
		e.adjuster.Saturation(to.Pix, from.Pix, with.by)
	})
}

// hue turns hues by factor, −0.5 to 0.5, of a whole turn. Pillow's conversion there and back shows even at 0.
func (c *canvas) hue(factor float64) error {
	if c.log != nil {
		c.log.add("adjust_hue", "hue_factor", factor)
	}
	return c.adjust(func(e *Engine, to, from *imagefile.RGB, with *changeParams) {
		e.adjuster.Hue(to.Pix, from.Pix, uint8(int(with.by)))
	}, float32(int(float64(factor*255))))
}

func (c *canvas) sharpness(factor float64) error {
	if c.log != nil {
		c.log.add("adjust_sharpness", "sharpness_factor", factor)
	}
	if float32(factor) == 1 {
		return nil
	}
	w, h := c.size()
	return c.change(change{work: sharpen, width: w, height: h, with: changeParams{by: float32(factor)}})
}

func sharpen(e *Engine, to, from *imagefile.RGB, with *changeParams) {
	e.adjuster.Sharpness(to.Pix, from.Pix, from.Width, from.Height, with.by)
}

// factorMax bounds the factor of an enhancement: from 255 on a level is 0, 255 or unchanged.
const factorMax = 1e6

func checkFactor(name string, factor float64) error {
	if !(0 <= factor && factor <= factorMax) {
		return fmt.Errorf("%s is %v, want 0 to %g", name, factor, factorMax)
	}
	return nil
}

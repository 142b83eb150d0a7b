package transform

import (
	"fmt"
	"math"

	"github.com/imgfeed/imgfeed/internal/pointwise"
)

// What operations do to colours, under the names that torchvision's functional has, on the image that the canvas is.

// adjust has work change the image in memory.
func (c *canvas) adjust(work func(a *pointwise.Adjuster, pix []byte)) error {
	img, err := c.inMemory()
	if err == nil {
		work(c.engine.adjuster, img.Pix)
	}
	return err
}

func (c *canvas) invert() error {
	if c.log != nil {
		c.log.add("invert")
	}
	return c.adjust((*pointwise.Adjuster).Invert)
}

func (c *canvas) grayscale() error {
	if c.log != nil {
		c.log.add("rgb_to_grayscale", "num_output_channels", 3)
	}
	return c.adjust((*pointwise.Adjuster).Gray)
}

func (c *canvas) autocontrast() error {
	if c.log != nil {
		c.log.add("autocontrast")
	}
	return c.adjust((*pointwise.Adjuster).Autocontrast)
}

func (c *canvas) equalize() error {
	if c.log != nil {
		c.log.add("equalize")
	}
	return c.adjust((*pointwise.Adjuster).Equalize)
}

// posterize keeps bits of every byte, 0 to 8: with 0 the image is black, as Pillow's was before it refused that.
func (c *canvas) posterize(bits int) error {
	if c.log != nil {
		c.log.add("posterize", "bits", bits)
	}
	if bits == 8 {
		return nil
	}
	return c.adjust(func(a *pointwise.Adjuster, pix []byte) { a.Posterize(pix, bits) })
}

// solarize inverts bytes that are not below threshold.
func (c *canvas) solarize(threshold float64) error {
	if c.log != nil {
		c.log.add("solarize", "threshold", threshold)
	}
	t := int(math.Ceil(min(max(threshold, 0), 256)))
	return c.adjust(func(a *pointwise.Adjuster, pix []byte) { a.Solarize(pix, t) })
}

// solarizeAdd is timm's: it adds to bytes below 128.
func (c *canvas) solarizeAdd(add int) error {
	if c.log != nil {
		c.log.add("solarize_add", "add", add, "threshold", 128)
	}
	return c.adjust(func(a *pointwise.Adjuster, pix []byte) { a.SolarizeAdd(pix, add, 128) })
}

// enhance blends the image with a degenerate one: by 1 it stays as it is.
func (c *canvas) enhance(factor float64, work func(a *pointwise.Adjuster, pix []byte, factor float32)) error {
	if float32(factor) == 1 {
		return nil
	}
	return c.adjust(func(a *pointwise.Adjuster, pix []byte) { work(a, pix, float32(factor)) })
}

func (c *canvas) brightness(factor float64) error {
	if c.log != nil {
		c.log.add("adjust_brightness", "brightness_factor", factor)
	}
	return c.enhance(factor, (*pointwise.Adjuster).Brightness)
}

func (c *canvas) contrast(factor float64) error {
	if c.log != nil {
		c.log.add("adjust_contrast", "contrast_factor", factor)
	}
	return c.enhance(factor, (*pointwise.Adjuster).Contrast)
}

func (c *canvas) saturation(factor float64) error {
	if c.log != nil {
		c.log.add("adjust_saturation", "saturation_factor", factor)
	}
	return c.enhance(factor, (*pointwise.Adjuster).Saturation)
}

// hue turns hues by factor, −0.5 to 0.5, of a whole turn. Pillow's conversion there and back shows even at 0.
func (c *canvas) hue(factor float64) error {
	if c.log != nil {
		c.log.add("adjust_hue", "hue_factor", factor)
	}
	return c.adjust(func(a *pointwise.Adjuster, pix []byte) { a.Hue(pix, uint8(int(float64(factor*255)))) })
}

func (c *canvas) sharpness(factor float64) error {
	if c.log != nil {
		c.log.add("adjust_sharpness", "sharpness_factor", factor)
	}
	if float32(factor) == 1 {
		return nil
	}
	from, to, err := c.redraw(c.size())
	if err == nil {
		c.engine.adjuster.Sharpness(to.Pix, from.Pix, from.Width, from.Height, float32(factor))
	}
	return err
}

// factorMax bounds the factor of an enhancement: from 255 on a level is 0, 255 or unchanged.
const factorMax = 1e6

func checkFactor(name string, factor float64) error {
	if !(0 <= factor && factor <= factorMax) {
		return fmt.Errorf("%s is %v, want 0 to %g", name, factor, factorMax)
	}
	return nil
}

package transform

import (
	"fmt"
	"image"
)

// RandomCrop is torchvision.transforms.RandomCrop(size, padding, pad_if_needed), with black padding.
type RandomCrop struct {
	// Size is the result's; {n} is a square.
	Size Size
	// Padding is added around the image, in pixels: left, top, right, bottom.
	Padding [4]int
	// PadIfNeeded pads an image that is too small, on both sides by what is missing.
	PadIfNeeded bool
}

func (RandomCrop) Name() string { return "RandomCrop" }

func (o RandomCrop) String() string {
	return object(o, "size", o.Size, "padding", o.Padding, "pad_if_needed", o.PadIfNeeded)
}

func (o RandomCrop) read(p *parameters) Op {
	o.Size = p.size("size")
	o.Padding = p.padding("padding")
	o.PadIfNeeded = p.boolean("pad_if_needed", false)
	if fill := p.integer("fill", 0); fill != 0 {
		p.fail("fill is %d, only 0 (black) is supported", fill)
	}
	if mode := p.text("padding_mode", "constant"); mode != "constant" {
		p.fail("padding_mode is %q, only \"constant\" is supported", mode)
	}
	return o
}

func (o RandomCrop) prepare() (Op, error) {
	for _, n := range o.Padding {
		if n < 0 || n > SizeMax {
			return nil, fmt.Errorf("padding is %d, want 0 to %d", n, SizeMax)
		}
	}
	o.Size = o.Size.square()
	return o, o.Size.check()
}

func (RandomCrop) random() bool { return true }

func (o RandomCrop) outputSize(int, int) (int, int) { return o.Size[0], o.Size[1] }

func (o RandomCrop) apply(c *canvas) error {
	w, h := c.size()
	r, ok := o.box(w, h, &c.draws)
	if !ok {
		return &SizeError{o.Name(), w, h, fmt.Sprintf("the crop is %d×%d; resize first, or set padding or pad_if_needed", o.Size[1], o.Size[0])}
	}
	return c.crop(r)
}

// box pads a w × h image, and places the crop evenly: top, then left, where there is a choice. It reports whether the
// crop fits.
func (o RandomCrop) box(w, h int, d *Draws) (r image.Rectangle, ok bool) {
	cropH, cropW := o.Size[0], o.Size[1]
	left, top := o.Padding[0], o.Padding[1]
	paddedW, paddedH := w+left+o.Padding[2], h+top+o.Padding[3]
	if missing := cropW - paddedW; o.PadIfNeeded && missing > 0 {
		left, paddedW = left+missing, paddedW+2*missing
	}
	if missing := cropH - paddedH; o.PadIfNeeded && missing > 0 {
		top, paddedH = top+missing, paddedH+2*missing
	}
	if paddedW < cropW || paddedH < cropH {
		return image.Rectangle{}, false
	}
	x, y := -left, -top
	if paddedW != cropW || paddedH != cropH {
		y += d.below(paddedH - cropH + 1)
		x += d.below(paddedW - cropW + 1)
	}
	return image.Rect(x, y, x+cropW, y+cropH), true
}

package transform

import "image"

// Pad is torchvision.transforms.Pad(padding, fill, padding_mode).
type Pad struct {
	// Padding is added around the image, in pixels: left, top, right, bottom.
	Padding [4]int
	// Fill is the padding's colour, if Mode is Constant.
	Fill Fill
	// Mode says what the padding shows.
	Mode PaddingMode
}

func (Pad) Name() string { return "Pad" }

func (o Pad) String() string {
	return object(o, "padding", o.Padding, "fill", o.Fill, "padding_mode", o.Mode)
}

func (o Pad) read(p *parameters) Op {
	if !p.has("padding") {
		p.fail("padding is missing, want n, [x, y] or [left, top, right, bottom]")
	}
	o.Padding = p.padding("padding")
	o.Fill = p.fill()
	o.Mode = p.paddingMode()
	return o
}

func (o Pad) prepare() (Op, error) { return o, o.around().check() }

func (o Pad) around() padding { return padding{o.Mode, o.Fill, o.Padding} }

func (Pad) random() bool { return false }

func (o Pad) outputSize(h, w int) (int, int) {
	if h == 0 {
		return 0, 0
	}
	return h + o.Padding[1] + o.Padding[3], w + o.Padding[0] + o.Padding[2]
}

func (o Pad) apply(c *canvas) error {
	w, h := c.size()
	return c.pad(image.Rect(-o.Padding[0], -o.Padding[1], w+o.Padding[2], h+o.Padding[3]), o.around())
}

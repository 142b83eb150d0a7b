package transform

import (
	"fmt"
	"image"
)

// RandomCrop is torchvision.transforms.RandomCrop(size, padding, pad_if_needed, fill, padding_mode).
type RandomCrop struct {
	// Size is the result's; {n} is a square.
	Size Size
	// Padding is added around the image, in pixels: left, top, right, bottom.
	Padding [4]int
	// PadIfNeeded pads an image that is too small, on both sides by what is missing.
	PadIfNeeded bool
	// Fill is the padding's colour, if Mode is Constant.
	Fill Fill
	// Mode says what the padding shows.
	Mode PaddingMode
}

func (RandomCrop) Name() string { return "RandomCrop" }

func (o RandomCrop) String() string {
	pairs := []any{"size", o.Size, "padding", o.Padding, "pad_if_needed", o.PadIfNeeded}
	if o.Fill != (Fill{}) {
		pairs = append(pairs, "fill", o.Fill)
	}
	if o.Mode != Constant {
		pairs = append(pairs, "padding_mode", o.Mode)
	}
	return object(o, pairs...)
}

func (o RandomCrop) read(p *parameters) Op {
	o.Size = p.size("size")
	o.Padding = p.padding("padding")
	o.PadIfNeeded = p.boolean("pad_if_needed", false)
	o.Fill = p.fill()
	o.Mode = p.paddingMode()
	return o
}

func (o RandomCrop) prepare() (Op, error) {
	if err := (padding{o.Mode, o.Fill, o.Padding}).check(); err != nil {
		return nil, err
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
	missingX, missingY := o.missing(w, h)
	return c.pad(r, padding{o.Mode, o.Fill, o.Padding}, padding{pixels: [4]int{missingX, missingY, missingX, missingY}})
}

// missing returns the padding that a padded w × h image gets besides, at the left and the right, and at the top and the bottom.
func (o RandomCrop) missing(w, h int) (x, y int) {
	if !o.PadIfNeeded {
		return 0, 0
	}
	return max(0, o.Size[1]-(w+o.Padding[0]+o.Padding[2])), max(0, o.Size[0]-(h+o.Padding[1]+o.Padding[3]))
}

// box pads a w × h image, and places the crop evenly: top, then left, where there is a choice. It reports whether the
// crop fits.
func (o RandomCrop) box(w, h int, d *RNG) (r image.Rectangle, ok bool) {
	cropH, cropW := o.Size[0], o.Size[1]
	missingX, missingY := o.missing(w, h)
	paddedW, paddedH := w+o.Padding[0]+o.Padding[2]+2*missingX, h+o.Padding[1]+o.Padding[3]+2*missingY
	if paddedW < cropW || paddedH < cropH {
		return image.Rectangle{}, false
	}
	x, y := -o.Padding[0]-missingX, -o.Padding[1]-missingY
	if paddedW != cropW || paddedH != cropH {
		y += d.below(paddedH - cropH + 1)
		x += d.below(paddedW - cropW + 1)
	}
	return image.Rect(x, y, x+cropW, y+cropH), true
}

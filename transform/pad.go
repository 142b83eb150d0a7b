package transform

import (
	"fmt"
	"image"
)

// Pad is torchvision.transforms.Pad(padding, fill, padding_mode).
type Pad struct {
	// Padding is added around the image, in pixels: left, top, right, bottom.
	Padding [4]int `param:"padding"`
	// Fill is the padding's colour, if Mode is Constant.
	Fill Fill `param:"fill" default:"0"`
	// Mode chooses the pixels of the padding.
	Mode PaddingMode `param:"padding_mode" default:"constant"`
	// MaskFill is the padding's label in masks, if Mode is Constant.
	MaskFill int `param:"mask_fill,omitempty" default:"0" range:"0 255"`
}

func (Pad) random() bool { return false }

func (o Pad) outputSize(h, w int) (int, int) {
	if h == 0 {
		return 0, 0
	}
	return h + o.Padding[1] + o.Padding[3], w + o.Padding[0] + o.Padding[2]
}

func (o Pad) apply(c *canvas) error {
	w, h := c.size()
	c.padTargets(padding{o.Mode, o.Fill, o.Padding}, o.MaskFill)
	return c.pad(image.Rect(-o.Padding[0], -o.Padding[1], w+o.Padding[2], h+o.Padding[3]), padding{o.Mode, o.Fill, o.Padding})
}

// A PaddingMode chooses the pixels of padding: torchvision's parameter padding_mode. The zero value is torchvision's default.
type PaddingMode uint8

const (
	Constant  PaddingMode = iota // one colour, the operation's Fill
	Edge                         // the nearest pixel: 0 0 0 1 2 2 2
	Reflect                      // the image mirrored about the middle of its first and last pixels: 2 1 0 1 2 1 0
	Symmetric                    // the image mirrored about their outer edges: 1 0 0 1 2 2 1
)

var paddingModes = []string{Constant: "constant", Edge: "edge", Reflect: "reflect", Symmetric: "symmetric"}

// String returns torchvision's name of the mode.
func (m PaddingMode) String() string {
	if int(m) < len(paddingModes) {
		return paddingModes[m]
	}
	return fmt.Sprintf("transform.PaddingMode(%d)", uint8(m))
}

// source returns which of n pixels is shown at position at, which may lie before or after them.
func (m PaddingMode) source(at, n int) int {
	switch m {
	case Reflect:
		if n == 1 {
			return 0
		}
		if at = modulo(at, 2*n-2); at >= n {
			return 2*n - 2 - at
		}
		return at
	case Symmetric:
		if at = modulo(at, 2*n); at >= n {
			return 2*n - 1 - at
		}
		return at
	}
	return min(max(at, 0), n-1)
}

func modulo(a, n int) int {
	if a %= n; a < 0 {
		return a + n
	}
	return a
}

// A padding is a border of an image: mode, colour, and width in pixels: left, top, right, bottom.
type padding struct {
	mode   PaddingMode
	fill   Fill
	pixels [4]int
}

// padTargets puts a padding around what follows the image.
func (c *canvas) padTargets(b padding, label int) {
	if c.targets == nil || b.pixels == [4]int{} {
		return
	}
	if c.log != nil {
		c.log.add("pad", "padding", b.pixels, "fill", b.fill, "padding_mode", b.mode, "mask_fill", label)
	}
	c.targets.pad(b.pixels, b.mode, byte(label))
}

// pad puts a padding around the image and cuts r out of the result. r counts from the image's own first pixel. Targets stay where they are.
func (c *canvas) pad(r image.Rectangle, b padding) error {
	w, h := c.size()
	if b.mode == Constant || r.In(image.Rect(0, 0, w, h)) {
		return c.cropFilled(r, b.fill)
	}
	if c.log != nil && c.targets == nil {
		c.log.add("pad", "padding", b.pixels, "padding_mode", b.mode)
		c.log.crop(r.Add(image.Pt(b.pixels[0], b.pixels[1])), r.Max.X+b.pixels[0], r.Max.Y+b.pixels[1], Fill{})
	}
	from, to, err := c.redraw(r.Dx(), r.Dy())
	if err != nil {
		return err
	}
	e := c.engine
	e.columns = e.columns[:0]
	for x := r.Min.X; x < r.Max.X; x++ {
		e.columns = append(e.columns, b.mode.source(x, w))
	}
	inside := r.Intersect(image.Rect(0, 0, w, h))
	first, behind := inside.Min.X-r.Min.X, inside.Max.X-r.Min.X // these columns are adjacent in the source
	for y := range to.Height {
		line, shown := from.Pix[3*w*b.mode.source(r.Min.Y+y, h):][:3*w], to.Pix[3*to.Width*y:][:3*to.Width]
		for x, column := range e.columns {
			if x == first {
				copy(shown[3*first:3*behind], line[3*column:])
			}
			if x < first || x >= behind {
				copy(shown[3*x:][:3], line[3*column:])
			}
		}
	}
	return nil
}

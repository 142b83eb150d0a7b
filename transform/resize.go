package transform

import (
	"fmt"

	"github.com/imgfeed/imgfeed/internal/resample"
)

// Resize is torchvision.transforms.Resize(size, interpolation, antialias=True).
type Resize struct {
	// Size is the result's; {n} is the length of its shorter side.
	Size Size
	// Interpolation is the filter, and Resampler says which releases of Pillow it has the bits of.
	Interpolation Interpolation
	Resampler     Resampler
}

func (Resize) Name() string { return "Resize" }

func (o Resize) String() string {
	return object(o, "size", o.Size, "interpolation", o.Interpolation.String(), "resampler", o.Resampler)
}

func (o Resize) read(p *parameters) Op {
	o.Size = p.size("size")
	o.Interpolation, o.Resampler = p.resizing()
	return o
}

func (o Resize) prepare() (Op, error) {
	if err := o.Size.check(); err != nil {
		return nil, err
	}
	return o, checkResizing(o.Interpolation, o.Resampler)
}

func (Resize) random() bool { return false }

func (o Resize) outputSize(h, w int) (int, int) {
	switch {
	case o.Size[1] > 0:
		return o.Size[0], o.Size[1]
	case h == 0:
		return 0, 0
	}
	w, h = resample.ResizeShortSide(w, h, o.Size[0])
	return h, w
}

func (o Resize) apply(c *canvas) error {
	w, h, err := o.Resized(c.size())
	if err != nil {
		return err
	}
	return c.resize(w, h, resizing{o.Interpolation, o.Resampler})
}

// longSideMax bounds the result of a Resize by the shorter side, for images that are extremely long.
const longSideMax = 1 << 20

// Resized returns the size that a w × h image gets, or a [*SizeError].
func (o Resize) Resized(w, h int) (int, int, error) {
	outH, outW := o.outputSize(h, w)
	if outW > longSideMax || outH > longSideMax {
		return 0, 0, &SizeError{o.Name(), w, h, fmt.Sprintf("the result would be %d×%d", outW, outH)}
	}
	return outW, outH, nil
}

// LeadingResize returns the Resize that the transform begins with, if it does: what may have been done in advance to
// images that are stored resized.
func (s *Spec) LeadingResize() (op Resize, ok bool) {
	op, ok = s.ops[0].(Resize)
	return op, ok
}

package transform

import (
	"errors"
	"fmt"

	"github.com/imgfeed/imgfeed/internal/image/resample"
)

// Resize is torchvision.transforms.Resize(size, interpolation, max_size, antialias=True).
type Resize struct {
	// Size is the result's size; {n} is the length of its shorter side.
	Size Size `param:"size,omitempty" is:"sides" default:"null"`
	// MaxSize bounds the longer side, if it is not 0: where Size would exceed it, both sides become shorter. Without a
	// Size the longer side becomes MaxSize.
	MaxSize int `param:"max_size,omitempty" default:"0" range:"0 16384"`
	// Interpolation is the filter, and Resampler says which releases of Pillow it has the bits of.
	Interpolation Interpolation `param:"interpolation" is:"resize filter" default:"bilinear"`
	Resampler     Resampler     `param:"resampler" default:"null"`
	// Plain resizes tensors without antialiasing.
	Plain bool `param:"antialias,omitempty" is:"antialias" default:"true"`
}

func (o Resize) prepare() (Op, error) {
	switch {
	case o.MaxSize == 0 && o.Size == Size{}:
		return nil, errors.New("size is missing, want n or [h, w]")
	case o.MaxSize > 0 && o.Size[1] > 0:
		return nil, errors.New("max_size is for a size of one number, which is that of the shorter side")
	case o.MaxSize > 0 && o.MaxSize <= o.Size[0]:
		return nil, fmt.Errorf("max_size is %d, want more than size, which is %d", o.MaxSize, o.Size[0])
	}
	return o, nil
}

func (Resize) random() bool { return false }

func (o Resize) outputSize(h, w int) (int, int) {
	switch {
	case o.Size[1] > 0:
		return o.Size[0], o.Size[1]
	case h == 0:
		return 0, 0
	}
	short, long := o.Size[0], o.MaxSize
	if short == 0 {
		short = scaled(o.MaxSize, min(w, h), max(w, h))
	} else {
		newW, newH := resample.ResizeShortSide(w, h, short)
		if long = max(newW, newH); o.MaxSize > 0 && long > o.MaxSize {
			short, long = scaled(o.MaxSize, short, long), o.MaxSize
		}
	}
	if w <= h {
		return long, short
	}
	return short, long
}

// scaled is torchvision's int(n * a / b).
func scaled(n, a, b int) int { return int(float64(n*a) / float64(b)) }

func (o Resize) apply(c *canvas) error {
	w, h, err := o.Resized(c.size())
	if err != nil {
		return err
	}
	return c.resize(w, h, resizing{o.Interpolation, o.Resampler, o.Plain})
}

// longSideMax bounds the result of a Resize by the shorter side, for extremely long images.
const longSideMax = 1 << 20

// Resized returns the size that a w × h image gets, or a [*SizeError].
func (o Resize) Resized(w, h int) (int, int, error) {
	outH, outW := o.outputSize(h, w)
	if outW > longSideMax || outH > longSideMax || outW < 1 || outH < 1 {
		return 0, 0, &SizeError{NameOf(o), w, h, fmt.Sprintf("the result would be %d×%d", outW, outH)}
	}
	return outW, outH, nil
}

// LeadingResize returns the Resize that the transform begins with, if it does. Images of a set may already be stored resized that way.
func (s *Spec) LeadingResize() (op Resize, ok bool) {
	op, ok = s.ops[0].(Resize)
	return op, ok
}

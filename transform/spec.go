// Package transform turns a stored image into the output pixels of a training batch. A [Spec] is a list of operations
// with torchvision's names, parameters and results; an [Engine] applies it to one image at a time, decoding no more of
// the image than the result needs, and writes the finished pixels where they belong.
//
// Results are, bit for bit, those of torchvision's transforms on Pillow images (Image.open(f).convert("RGB")): of
// Pillow 13, or of Pillow 9.4 to 12.3, as each resize says ([Op].Resampler). Random parameters come from a generator keyed
// by seed, epoch and sample ([NewDraws]), so they depend neither on the worker nor on the order of arrival; their
// distributions are torchvision's. What was drawn is reported ([Params]) and can be replayed.
package transform

import (
	"fmt"

	"github.com/imgfeed/imgfeed/internal/resample"
)

// A Kind is one of the operations.
type Kind uint8

const (
	// Resize is torchvision.transforms.Resize(size, interpolation): size [h, w], or a number for the shorter side.
	Resize Kind = iota
	// CenterCrop is torchvision.transforms.CenterCrop(size); an image that is smaller gets black borders.
	CenterCrop
	// RandomCrop is torchvision.transforms.RandomCrop(size, padding, pad_if_needed), with black borders.
	RandomCrop
	// RandomResizedCrop is torchvision.transforms.RandomResizedCrop(size, scale, ratio, interpolation).
	RandomResizedCrop
	// RandomHorizontalFlip is torchvision.transforms.RandomHorizontalFlip(p).
	RandomHorizontalFlip
)

var kindNames = [...]string{
	Resize: "Resize", CenterCrop: "CenterCrop", RandomCrop: "RandomCrop", RandomResizedCrop: "RandomResizedCrop",
	RandomHorizontalFlip: "RandomHorizontalFlip",
}

// String returns torchvision's name of the operation.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("transform.Kind(%d)", uint8(k))
}

// An Op is one operation. Fields that its kind does not name are zero.
type Op struct {
	Kind Kind
	// Height and Width are the size. A Width of 0 (Resize only) means that Height is the length of the shorter side.
	Height, Width int
	// Interpolation is the filter of Resize and RandomResizedCrop.
	Interpolation resample.Filter
	// Resampler says which releases of Pillow Resize and RandomResizedCrop have the bits of; the zero value is the newest.
	Resampler resample.Algorithm
	// Padding is RandomCrop's, in pixels: left, top, right, bottom.
	Padding [4]int
	// PadIfNeeded makes RandomCrop pad an image that is too small, on both sides by what is missing.
	PadIfNeeded bool
	// Scale is the range of RandomResizedCrop's area as a part of the image's, Ratio that of width / height.
	Scale, Ratio [2]float64
	// P is the probability of RandomHorizontalFlip.
	P float64

	logRatio [2]float64 // the logarithms of Ratio
}

// SizeMax bounds a side of every size and padding that an operation names.
const SizeMax = 1 << 14

// A SpecError says what is wrong with a transform: which operation (from 0, or -1 for the list as a whole), which
// parameter, and what would be right.
type SpecError struct {
	Op     int
	Name   string // the operation's name, if it has one
	Reason string
}

func (e *SpecError) Error() string {
	if e.Op < 0 {
		return "transform: " + e.Reason
	}
	return fmt.Sprintf("transform: operation %d (%s): %s", e.Op, e.Name, e.Reason)
}

// A Spec is a checked list of operations that gives every image the same size. It is immutable.
type Spec struct {
	ops           []Op
	height, width int
}

// NewSpec checks the operations and returns their Spec, or a [*SpecError].
func NewSpec(ops ...Op) (*Spec, error) {
	if len(ops) == 0 {
		return nil, &SpecError{Op: -1, Reason: "no operations; want a preset (eval, train, train-resize, cifar) or a list"}
	}
	if len(ops) > opsMax {
		return nil, &SpecError{Op: -1, Reason: fmt.Sprintf("%d operations, at most %d are taken", len(ops), opsMax)}
	}
	s := &Spec{ops: append([]Op(nil), ops...)}
	for i := range s.ops {
		op := &s.ops[i]
		if reason := op.check(); reason != "" {
			return nil, &SpecError{Op: i, Name: op.Kind.String(), Reason: reason}
		}
		if op.Kind == RandomResizedCrop {
			op.logRatio = [2]float64{log(op.Ratio[0]), log(op.Ratio[1])}
		}
		s.height, s.width = op.outputSize(s.height, s.width)
		if reason := op.checkFits(s.height, s.width); reason != "" {
			return nil, &SpecError{Op: i, Name: op.Kind.String(), Reason: reason}
		}
	}
	if s.height == 0 {
		return nil, &SpecError{Op: -1, Reason: "the images would differ in size; end with a crop, or give Resize a size [h, w]"}
	}
	return s, nil
}

// opsMax bounds a list: more than a dozen operations is a mistake.
const opsMax = 32

// Ops returns the operations; they must not be changed.
func (s *Spec) Ops() []Op { return s.ops }

// OutputSize returns the height and width in pixels of every result.
func (s *Spec) OutputSize() (height, width int) { return s.height, s.width }

// OutputBytes returns the size of one result: height · width · 3.
func (s *Spec) OutputBytes() int { return s.height * s.width * 3 }

// Random reports whether the result depends on draws.
func (s *Spec) Random() bool {
	for i := range s.ops {
		if k := s.ops[i].Kind; k == RandomCrop || k == RandomResizedCrop || k == RandomHorizontalFlip {
			return true
		}
	}
	return false
}

// check returns what is wrong with the operation's own parameters, or "".
func (o *Op) check() string {
	switch o.Kind {
	case Resize, CenterCrop, RandomCrop, RandomResizedCrop:
		if o.Height < 1 || o.Height > SizeMax || o.Width < 0 || o.Width > SizeMax || o.Width == 0 && o.Kind != Resize {
			return fmt.Sprintf("size is %d×%d, want 1 to %d", o.Height, o.Width, SizeMax)
		}
	}
	switch o.Kind {
	case Resize:
	case CenterCrop:
	case RandomCrop:
		for _, p := range o.Padding {
			if p < 0 || p > SizeMax {
				return fmt.Sprintf("padding is %d, want 0 to %d", p, SizeMax)
			}
		}
	case RandomResizedCrop:
		if !(0 < o.Scale[0] && o.Scale[0] <= o.Scale[1] && o.Scale[1] <= 1e6) {
			return fmt.Sprintf("scale is %v, want 0 < low ≤ high", o.Scale)
		}
		if !(1e-6 <= o.Ratio[0] && o.Ratio[0] <= o.Ratio[1] && o.Ratio[1] <= 1e6) {
			return fmt.Sprintf("ratio is %v, want 0 < low ≤ high", o.Ratio)
		}
	case RandomHorizontalFlip:
		if !(0 <= o.P && o.P <= 1) {
			return fmt.Sprintf("p is %v, want 0 to 1", o.P)
		}
	default:
		return "unknown operation"
	}
	if o.Interpolation > resample.Lanczos {
		return fmt.Sprintf("unknown interpolation %d", o.Interpolation)
	}
	if o.Resampler > resample.Pillow12 {
		return fmt.Sprintf("unknown resampler %d", o.Resampler)
	}
	return ""
}

// outputSize returns the size after the operation of every image, or 0, 0 if images differ; h and w are those before.
func (o *Op) outputSize(h, w int) (int, int) {
	switch {
	case o.Kind == RandomHorizontalFlip:
		return h, w
	case o.Kind == Resize && o.Width == 0 && h > 0:
		w, h = resample.ResizeShortSide(w, h, o.Height)
		return h, w
	case o.Kind == Resize && o.Width == 0:
		return 0, 0
	}
	return o.Height, o.Width
}

// checkFits refuses a size that only the operations together make too large.
func (o *Op) checkFits(h, w int) string {
	if h > SizeMax || w > SizeMax {
		return fmt.Sprintf("the result would be %d×%d, at most %d is taken", h, w, SizeMax)
	}
	return ""
}

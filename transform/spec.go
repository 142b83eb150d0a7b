package transform

import (
	"fmt"
	"slices"
	"strings"
)

// A SpecError says what is wrong with a transform: the view, the operation (from 0), the parameter, and the accepted values.
type SpecError struct{ Reason string }

// Error leaves out the middle of a reason that repeats a value of thousands of bytes.
func (e *SpecError) Error() string {
	const head, tail = 600, 300
	reason := e.Reason
	if len(reason) > head+tail {
		reason = strings.ToValidUTF8(reason[:head]+" … "+reason[len(reason)-tail:], "")
	}
	return "transform: " + reason
}

// specError returns a SpecError, without the prefixes of those in its arguments.
func specError(format string, args ...any) error {
	return &SpecError{strings.ReplaceAll(fmt.Sprintf(format, args...), "transform: ", "")}
}

// opError is the error of operation i of a list.
func opError(i int, name string, err error) error {
	if name != "" {
		name = " (" + name + ")"
	}
	return specError("operation %d%s: %v", i, name, err)
}

// A SizeError says that an operation cannot take an image of this size.
type SizeError struct {
	Op            string
	Width, Height int // size of the operation's input
	Reason        string
}

func (e *SizeError) Error() string {
	return fmt.Sprintf("transform: %s cannot take an image of %d×%d: %s", e.Op, e.Width, e.Height, e.Reason)
}

// A Spec is a checked list of operations that gives every image the same size. It is immutable.
type Spec struct {
	ops           []Op
	height, width int
	part, parts   int // index and number of the views made from one list; 0 and 0 for a list with a single view
}

// opsMax bounds a list: more than a dozen operations is a mistake.
const opsMax = 32

// NewSpec checks the operations and returns their Spec, or a [*SpecError].
func NewSpec(ops ...Op) (*Spec, error) { return newSpec(ops, false) }

// newSpec is NewSpec; several allows an operation with several results.
func newSpec(ops []Op, several bool) (*Spec, error) {
	if len(ops) == 0 {
		return nil, specError("no operations; want a preset (%s) or a list", strings.Join(Presets(), ", "))
	}
	if len(ops) > opsMax {
		return nil, specError("%d operations, want at most %d", len(ops), opsMax)
	}
	s := &Spec{ops: make([]Op, len(ops))}
	for i, op := range ops {
		var err error
		if s.ops[i], err = prepared(op); err == nil && (!several || s.parts > 0) {
			err = severalError(op)
		}
		if err != nil {
			return nil, opError(i, NameOf(op), err)
		}
		if makes, ok := op.(severalOp); ok {
			s.parts = makes.results()
		}
		s.height, s.width = outputSize(s.ops[i], s.height, s.width)
		if s.height > SizeMax || s.width > SizeMax { // several operations together
			return nil, opError(i, NameOf(op), fmt.Errorf("the result would be %d×%d, want at most %d", s.height, s.width, SizeMax))
		}
	}
	if s.height == 0 {
		return nil, specError("the images would differ in size; end with a crop, or give Resize a size [h, w]")
	}
	on := onImages
	if err := visit(s.ops, &on, refuse); err != nil {
		return nil, err
	}
	return s, nil
}

// Ops returns the operations; they must not be changed.
func (s *Spec) Ops() []Op { return s.ops }

// OutputSize returns the height and width in pixels of every result.
func (s *Spec) OutputSize() (height, width int) { return s.height, s.width }

// OutputBytes returns the size of one result: height · width · 3.
func (s *Spec) OutputBytes() int { return s.height * s.width * 3 }

// Random reports whether the result depends on draws.
func (s *Spec) Random() bool { return slices.ContainsFunc(s.ops, draws) }

// String returns the transform as a JSON list with every parameter, which [Parse] reads back to the same Spec. For one
// of several views of a list, such as one with [FiveCrop], it is the whole list, for [ParseViews].
func (s *Spec) String() string { return listString(s.ops) }

package transform

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
)

// Operations that hold other operations and apply them to the same canvas.

// nestingMax bounds the depth of nested operations.
const nestingMax = 8

func readOps(d *parameter, raw json.RawMessage, p *parameters, field reflect.Value) error {
	if !bytes.HasPrefix(raw, []byte("[")) || holdsNull(raw) {
		return fmt.Errorf("%s is %.100s, want a list of operations", d.name, raw)
	}
	if p.nesting >= nestingMax {
		return fmt.Errorf("%s are nested more than %d deep", d.name, nestingMax)
	}
	ops, err := parseNested(raw, parameters{resampler: p.resampler, nesting: p.nesting + 1, tensor: p.tensor})
	if err != nil {
		return fmt.Errorf("%s: %w", d.name, err)
	}
	field.Set(reflect.ValueOf(ops))
	return nil
}

// checkOps makes the operations of a list ready to run.
func checkOps(d *parameter, field reflect.Value) error {
	ops := field.Interface().([]Op)
	if len(ops) > opsMax {
		return fmt.Errorf("%s has %d operations, want up to %d", d.name, len(ops), opsMax)
	}
	ready := make([]Op, len(ops))
	for i, op := range ops {
		var err error
		if ready[i], err = prepared(op); err == nil {
			err = severalError(op)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", d.name, opError(i, NameOf(op), err))
		}
	}
	field.Set(reflect.ValueOf(ready))
	return nil
}

func writeOps(value any) any { return json.RawMessage(listString(value.([]Op))) }

// chance calls do with probability p.
func (c *canvas) chance(p float64, do func(c *canvas) error) error {
	if c.draws.unit() >= p {
		return nil
	}
	return do(c)
}

// do applies an operation that another one holds.
func (c *canvas) do(op Op) error {
	holder := c.op
	c.op = op
	err := op.apply(c)
	c.op = holder
	return err
}

// RandomApply is torchvision.transforms.RandomApply(transforms, p): applies all of them in order, or nothing.
type RandomApply struct {
	Transforms []Op    `param:"transforms"`
	P          float64 `param:"p" default:"0.5" range:"0 1"`
}

func (o RandomApply) outputSize(h, w int) (int, int) {
	doneH, doneW := h, w
	for _, op := range o.Transforms {
		doneH, doneW = outputSize(op, doneH, doneW)
	}
	if doneH != h || doneW != w {
		return 0, 0
	}
	return h, w
}

func (o RandomApply) apply(c *canvas) error {
	return c.chance(o.P, func(c *canvas) error {
		for _, op := range o.Transforms {
			if err := c.do(op); err != nil {
				return err
			}
		}
		return nil
	})
}

// RandomChoice is torchvision.transforms.RandomChoice(transforms, p): one of them.
type RandomChoice struct {
	Transforms []Op `param:"transforms"`
	// P are the operations' weights; nil means equal ones.
	P []float64 `param:"p" default:"null"`
}

func (o RandomChoice) prepare() (Op, error) {
	if len(o.Transforms) == 0 {
		return nil, errors.New("transforms is empty, so none can be chosen; an empty RandomApply does nothing")
	}
	if o.P == nil {
		return o, nil
	}
	if len(o.P) != len(o.Transforms) {
		return nil, fmt.Errorf("p has %d weights for %d transforms", len(o.P), len(o.Transforms))
	}
	sum := 0.0
	for _, p := range o.P {
		if !(0 <= p && p <= 1e9) {
			return nil, fmt.Errorf("p is %v, want weights of at least 0", o.P)
		}
		sum += p
	}
	if sum == 0 {
		return nil, fmt.Errorf("p is %v, want one weight above 0 at least", o.P)
	}
	return o, nil
}

func (o RandomChoice) outputSize(h, w int) (int, int) {
	firstH, firstW := outputSize(o.Transforms[0], h, w)
	for _, op := range o.Transforms[1:] {
		if otherH, otherW := outputSize(op, h, w); otherH != firstH || otherW != firstW {
			return 0, 0
		}
	}
	return firstH, firstW
}

func (o RandomChoice) apply(c *canvas) error {
	if o.P == nil {
		return c.do(o.Transforms[c.draws.below(len(o.Transforms))])
	}
	return c.do(o.Transforms[c.draws.weighted(o.P)])
}

// RandomOrder is torchvision.transforms.RandomOrder(transforms): all of them, in a random order.
type RandomOrder struct {
	Transforms []Op `param:"transforms"`
}

// outputSize knows the size only if no operation changes it.
func (o RandomOrder) outputSize(h, w int) (int, int) {
	for _, op := range o.Transforms {
		if otherH, otherW := outputSize(op, h, w); otherH != h || otherW != w {
			return 0, 0
		}
	}
	return h, w
}

func (o RandomOrder) apply(c *canvas) error {
	var indices [opsMax]int
	order := indices[:len(o.Transforms)]
	for i := range order {
		order[i] = i
	}
	c.draws.shuffle(order)
	for _, i := range order {
		if err := c.do(o.Transforms[i]); err != nil {
			return err
		}
	}
	return nil
}

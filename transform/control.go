package transform

import (
	"encoding/json"
	"fmt"
)

// Operations that hold operations, which they apply to the canvas that they are given.

// nestingMax bounds how deep operations hold others.
const nestingMax = 8

// transforms reads a list of operations.
func (p *parameters) transforms() []Op {
	var text json.RawMessage
	if p.decode("transforms", "a list of operations", &text); text == nil {
		p.fail("transforms is missing")
		return nil
	}
	if !p.isList("transforms") {
		p.fail("transforms is %.100s, want a list of operations", text)
		return nil
	}
	if p.nesting >= nestingMax {
		p.fail("transforms are nested more than %d deep", nestingMax)
		return nil
	}
	ops, err := parseNested(text, p.resampler, p.nesting+1)
	if err != nil {
		p.fail("transforms: %s", reasonOf(err))
	}
	return ops
}

// reasonOf returns what an error of a nested list says, without the package's name.
func reasonOf(err error) string {
	se, ok := err.(*SpecError)
	switch {
	case !ok:
		return err.Error()
	case se.Op < 0:
		return se.Reason
	}
	return fmt.Sprintf("operation %d (%s): %s", se.Op, se.Name, se.Reason)
}

// prepareAll returns the operations of a list ready to run.
func prepareAll(ops []Op) ([]Op, error) {
	if len(ops) == 0 || len(ops) > opsMax {
		return nil, fmt.Errorf("transforms has %d operations, want 1 to %d", len(ops), opsMax)
	}
	prepared := make([]Op, len(ops))
	for i, op := range ops {
		var err error
		if prepared[i], err = op.prepare(); err != nil {
			return nil, fmt.Errorf("transforms: operation %d (%s): %w", i, op.Name(), err)
		}
	}
	return prepared, nil
}

// opsJSON returns operations as a value of object.
func opsJSON(ops []Op) json.RawMessage { return json.RawMessage(listString(ops)) }

// do applies an operation that another one holds.
func (c *canvas) do(op Op) error {
	holder := c.op
	c.op = op
	err := op.apply(c)
	c.op = holder
	return err
}

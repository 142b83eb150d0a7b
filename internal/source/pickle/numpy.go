package pickle

// reduce does what the few known callables would do.
func (m *machine) reduce() error {
	items, err := m.popN(2)
	if err != nil {
		return err
	}
	callable, ok := items[0].(global)
	args, isTuple := items[1].(Tuple)
	if !ok || !isTuple {
		return m.errorf("refused: it wants to call something other than what numpy's arrays are made with")
	}
	switch {
	case callable == globalReconstruct && len(args) == 3 && args[0] == Value(globalNdarray):
		m.push(&Array{})
		return nil
	case callable == globalDtype && len(args) > 0:
		name, ok := args[0].(String)
		if !ok || string(name) != "u1" {
			return m.errorf("an array of the type %.20q, only u1 (uint8) is read", name)
		}
		m.push(dtype{})
		return nil
	case callable == globalEncode && len(args) == 2:
		text, ok := args[0].(String)
		codec, isString := args[1].(String)
		if !ok || !isString || string(codec) != "latin1" {
			return m.errorf("bytes in another encoding than latin1")
		}
		if m.decoded += len(text); m.decoded > len(m.data) {
			return m.errorf("the same bytes made again and again")
		}
		b, ok := latin1(text)
		if !ok {
			return m.errorf("bytes with a code point above 255")
		}
		m.push(b)
		return nil
	}
	return m.errorf("refused: it wants to call something with arguments that numpy's arrays are not made with")
}

// build fills the array below its state. The state of a type is left aside: byte order and alignment mean nothing for single bytes.
func (m *machine) build() error {
	items, err := m.popN(2)
	if err != nil {
		return err
	}
	state, ok := items[1].(Tuple)
	if !ok {
		return m.errorf("a state that is no tuple")
	}
	switch v := items[0].(type) {
	case dtype:
		m.push(v)
		return nil
	case *Array:
		if err := m.fill(v, state); err != nil {
			return err
		}
		m.push(v)
		return nil
	}
	return m.errorf("refused: it wants to set the state of what is no array")
}

// fill gives an array its state: (version, shape, type, Fortran order, bytes).
func (m *machine) fill(a *Array, state Tuple) error {
	if a.Shape != nil {
		return m.errorf("an array that gets its state twice")
	}
	if len(state) != 5 {
		return m.errorf("an array's state of %d parts, 5 are known", len(state))
	}
	shape, isTuple := state[1].(Tuple)
	_, isUint8 := state[2].(dtype)
	data, isString := state[4].(String)
	if !isTuple || len(shape) > dimensionsMax || !isUint8 || !isString {
		return m.errorf("an array's state whose shape, type or bytes are something else")
	}
	if state[3] != Value(false) && state[3] != Value(int64(0)) {
		return m.errorf("an array in Fortran order, only C order is read")
	}
	const sizeMax = 1 << 31
	size := int64(1)
	a.Shape = make([]int, 0, len(shape))
	for _, s := range shape {
		n, ok := s.(int64)
		if !ok || n < 0 || n > sizeMax || size*n > sizeMax {
			return m.errorf("an array of an impossible shape")
		}
		size *= n
		a.Shape = append(a.Shape, int(n))
	}
	if size != int64(len(data)) {
		return m.errorf("an array of the shape %v with %d bytes", a.Shape, len(data))
	}
	a.Data = data
	return nil
}

// Package pickle reads plain data out of Python pickles without executing anything: dictionaries, lists, tuples, strings, whole numbers, and
// arrays of numpy of the type uint8, as far as the batches of cifar-10-python.tar.gz need, and the same dictionaries pickled anew by Python 3.
//
// A pickle is a program for a stack machine (Lib/pickletools.py in Python's source describes each opcode). Two of its opcodes make it dangerous:
// GLOBAL names any object of any module, and REDUCE calls it. Here nothing is looked up and nothing is called. A few names have a fixed meaning,
//
//	numpy.core.multiarray _reconstruct   an empty array, which BUILD fills from (version, shape, dtype, Fortran order, bytes)
//	numpy ndarray                        the argument of the above
//	numpy dtype                          the type of an array's numbers: "u1" only
//	_codecs encode                       how Python 3 writes bytes into protocols before 3: a string of code points up to 255
//
// and any other name is refused, as are all opcodes that the above do not need (instances, persistent ids, extensions, floats …). As an
// example, the data of a batch of one image begin so:
//
//	c numpy.core.multiarray\n_reconstruct\n  c numpy\nndarray\n  K 0  \x85  U 1 b  \x87  R     an empty array:   _reconstruct(ndarray, (0,), "b")
//	( K 1  K 1  M 0x0c00  \x86  c numpy\ndtype\n …  R  \x89  T 3072 …  t  b                        its state:        (1, (1, 3072), dtype("u1"), False, "…")
//
// What is malformed or refused gives a *FormatError. Strings and arrays are parts of the input, not copies, so that memory is bounded by the input
// and by [OpcodesMax].
package pickle

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"unicode/utf8"
)

const (
	// OpcodesMax is how many opcodes a pickle may have. A batch of CIFAR-10 has about 60,000.
	OpcodesMax = 1 << 20
	// protocolMax is the newest protocol that is read, the default of Python 3.8 to 3.13.
	protocolMax = 4
	// nameBytesMax bounds dictionary keys and the names of modules: they are copied, and a memo could name a long one again and again.
	nameBytesMax = 256
	// dimensionsMax is numpy's own.
	dimensionsMax = 64
)

// A Value is one of: nil (None), bool, int64, String, *List, Tuple, *Dict, *Array.
type Value any

// String is a Python 2 str, a bytes, or the UTF-8 of a unicode string: whoever reads it knows which it expects.
type String []byte

// List is a list.
type List struct{ Items []Value }

// Tuple is a tuple.
type Tuple []Value

// Dict is a dictionary whose keys are strings.
type Dict struct{ Items map[string]Value }

// Array is an array of uint8, in C order (the last index moves fastest).
type Array struct {
	Shape []int
	Data  []byte // the product of Shape bytes
}

// FormatError says that a pickle is malformed or holds what is not read.
type FormatError struct {
	Offset int // of the opcode
	Msg    string
}

func (e *FormatError) Error() string { return fmt.Sprintf("pickle: byte %d: %s", e.Offset, e.Msg) }

// Read returns the value that a pickle holds. Values may share parts with each other, and a list may hold itself; walk them with that in mind.
// Bytes behind the pickle's end are an error.
func Read(data []byte) (Value, error) {
	m := &machine{data: data, memo: make(map[uint32]Value)}
	for n := 0; !m.stopped; n++ {
		m.start = m.at
		if n == OpcodesMax {
			return nil, m.errorf("more than %d opcodes", OpcodesMax)
		}
		if err := m.step(); err != nil {
			return nil, err
		}
	}
	if m.at != len(data) {
		m.start = m.at
		return nil, m.errorf("%d bytes behind the end of the pickle", len(data)-m.at)
	}
	return m.pop()
}

// mark is what MARK pushes.
type mark struct{}

// global is a name that has a meaning here.
type global uint8

const (
	globalReconstruct global = iota
	globalNdarray
	globalDtype
	globalEncode
)

var globals = map[[2]string]global{
	{"numpy.core.multiarray", "_reconstruct"}:  globalReconstruct,
	{"numpy._core.multiarray", "_reconstruct"}: globalReconstruct, // numpy 2
	{"numpy", "ndarray"}:                       globalNdarray,
	{"numpy", "dtype"}:                         globalDtype,
	{"_codecs", "encode"}:                      globalEncode,
}

// dtype is the type uint8.
type dtype struct{}

// machine is the state between two opcodes.
type machine struct {
	data    []byte
	at      int // the next byte
	start   int // of the opcode under way
	stack   []Value
	marks   []int // the places of the marks in the stack
	memo    map[uint32]Value
	decoded int // bytes that _codecs.encode has made
	stopped bool
}

func (m *machine) errorf(format string, args ...any) error {
	return &FormatError{Offset: m.start, Msg: fmt.Sprintf(format, args...)}
}

// The opcodes, named as in Lib/pickle.py.
const (
	opMark            = '('
	opStop            = '.'
	opBinInt          = 'J'
	opBinInt1         = 'K'
	opBinInt2         = 'M'
	opNone            = 'N'
	opReduce          = 'R'
	opBinString       = 'T'
	opShortBinString  = 'U'
	opBinUnicode      = 'X'
	opBinBytes        = 'B'
	opShortBinBytes   = 'C'
	opEmptyList       = ']'
	opAppend          = 'a'
	opAppends         = 'e'
	opBuild           = 'b'
	opGlobal          = 'c'
	opEmptyDict       = '}'
	opSetItem         = 's'
	opSetItems        = 'u'
	opEmptyTuple      = ')'
	opTuple           = 't'
	opBinGet          = 'h'
	opLongBinGet      = 'j'
	opBinPut          = 'q'
	opLongBinPut      = 'r'
	opProto           = 0x80
	opTuple1          = 0x85
	opTuple2          = 0x86
	opTuple3          = 0x87
	opNewTrue         = 0x88
	opNewFalse        = 0x89
	opShortBinUnicode = 0x8c
	opBinUnicode8     = 0x8d
	opBinBytes8       = 0x8e
	opStackGlobal     = 0x93
	opMemoize         = 0x94
	opFrame           = 0x95
)

// step executes one opcode.
func (m *machine) step() error {
	op, err := m.number(1)
	if err != nil {
		return err
	}
	switch op {
	case opProto:
		return m.protocol()
	case opFrame: // a hint for reading ahead
		_, err := m.number(8)
		return err
	case opStop:
		m.stopped = true
		return nil
	case opMark:
		m.marks = append(m.marks, len(m.stack))
		m.push(mark{})
		return nil
	case opNone:
		m.push(nil)
		return nil
	case opNewTrue, opNewFalse:
		m.push(op == opNewTrue)
		return nil
	case opBinInt, opBinInt1, opBinInt2:
		return m.integer(byte(op))
	case opBinString, opShortBinString, opBinUnicode, opShortBinUnicode, opBinUnicode8, opBinBytes, opShortBinBytes, opBinBytes8:
		return m.text(byte(op))
	case opBinPut, opLongBinPut, opMemoize, opBinGet, opLongBinGet:
		return m.memory(byte(op))
	case opGlobal, opStackGlobal:
		return m.global(byte(op))
	case opReduce:
		return m.reduce()
	case opBuild:
		return m.build()
	}
	return m.container(byte(op))
}

// number reads an unsigned little-endian number of 1, 2, 4 or 8 bytes.
func (m *machine) number(size int) (uint64, error) {
	var b [8]byte
	p, err := m.take(uint64(size))
	copy(b[:], p)
	return binary.LittleEndian.Uint64(b[:]), err
}

// take returns the next n bytes.
func (m *machine) take(n uint64) ([]byte, error) {
	if n > uint64(len(m.data)-m.at) {
		return nil, m.errorf("cut short: %d bytes are wanted and %d are left", n, len(m.data)-m.at)
	}
	p := m.data[m.at : m.at+int(n) : m.at+int(n)]
	m.at += int(n)
	return p, nil
}

func (m *machine) push(v Value) { m.stack = append(m.stack, v) }

// pop takes the uppermost value off the stack.
func (m *machine) pop() (Value, error) {
	if len(m.stack) == 0 {
		return nil, m.errorf("the stack is empty")
	}
	v := m.stack[len(m.stack)-1]
	if _, ok := v.(mark); ok {
		return nil, m.errorf("a mark where a value is wanted")
	}
	m.stack = m.stack[:len(m.stack)-1]
	return v, nil
}

// popMark takes the values above the uppermost mark, and the mark, off the stack. They are valid until the next push.
func (m *machine) popMark() ([]Value, error) {
	if len(m.marks) == 0 {
		return nil, m.errorf("no mark on the stack")
	}
	at := m.marks[len(m.marks)-1]
	m.marks = m.marks[:len(m.marks)-1]
	items := m.stack[at+1:]
	m.stack = m.stack[:at]
	return items, nil
}

func (m *machine) protocol() error {
	n, err := m.number(1)
	if err != nil {
		return err
	}
	if n > protocolMax {
		return m.errorf("pickle protocol %d, up to %d is read: pickle it again with protocol=%d", n, protocolMax, protocolMax)
	}
	return nil
}

func (m *machine) integer(op byte) error {
	size := map[byte]int{opBinInt: 4, opBinInt1: 1, opBinInt2: 2}[op]
	n, err := m.number(size)
	if err != nil {
		return err
	}
	if op == opBinInt {
		n = uint64(int64(int32(n))) // the only signed one
	}
	m.push(int64(n))
	return nil
}

// text pushes a string of any kind, which its length of 1, 4 or 8 bytes precedes.
func (m *machine) text(op byte) error {
	size := 4
	switch op {
	case opShortBinString, opShortBinUnicode, opShortBinBytes:
		size = 1
	case opBinUnicode8, opBinBytes8:
		size = 8
	}
	n, err := m.number(size)
	if err != nil {
		return err
	}
	if op == opBinString && n > math.MaxInt32 {
		return m.errorf("a string of a negative length")
	}
	p, err := m.take(n)
	if err != nil {
		return err
	}
	m.push(String(p))
	return nil
}

// memory puts the uppermost value into the memo, or pushes one from there.
func (m *machine) memory(op byte) error {
	at := uint64(len(m.memo)) // for MEMOIZE, as Python does it
	var err error
	switch op {
	case opBinPut, opBinGet:
		at, err = m.number(1)
	case opLongBinPut, opLongBinGet:
		at, err = m.number(4)
	}
	if err != nil {
		return err
	}
	if op == opBinGet || op == opLongBinGet {
		v, ok := m.memo[uint32(at)]
		if !ok {
			return m.errorf("nothing was stored at %d of the memo", at)
		}
		m.push(v)
		return nil
	}
	v, err := m.pop()
	if err != nil {
		return err
	}
	m.push(v)
	m.memo[uint32(at)] = v
	return nil
}

// container makes or fills a tuple, list or dictionary.
func (m *machine) container(op byte) error {
	switch op {
	case opEmptyTuple:
		m.push(Tuple{})
		return nil
	case opEmptyList:
		m.push(&List{})
		return nil
	case opEmptyDict:
		m.push(&Dict{Items: make(map[string]Value)})
		return nil
	case opTuple:
		items, err := m.popMark()
		if err != nil {
			return err
		}
		m.push(append(Tuple{}, items...))
		return nil
	case opTuple1, opTuple2, opTuple3:
		items, err := m.popN(int(op-opTuple1) + 1)
		if err != nil {
			return err
		}
		m.push(append(Tuple{}, items...))
		return nil
	case opAppend, opAppends:
		return m.extend(op == opAppends)
	case opSetItem, opSetItems:
		return m.set(op == opSetItems)
	}
	if m.start == 0 {
		return m.errorf("not a pickle that is read: it begins with the byte 0x%02x", op)
	}
	return m.errorf("the opcode 0x%02x is refused: it is none that plain data need", op)
}

// popN takes the n uppermost values off the stack, in the order in which they were pushed. They are valid until the next push.
func (m *machine) popN(n int) ([]Value, error) {
	if len(m.stack) < n || len(m.marks) > 0 && m.marks[len(m.marks)-1] >= len(m.stack)-n {
		return nil, m.errorf("%d values are wanted and the stack has fewer", n)
	}
	items := m.stack[len(m.stack)-n:]
	m.stack = m.stack[:len(m.stack)-n]
	return items, nil
}

// operands returns the values for a list or dictionary: those above the mark, or n without one.
func (m *machine) operands(marked bool, n int) ([]Value, error) {
	if marked {
		return m.popMark()
	}
	return m.popN(n)
}

// extend appends to the list below the operands.
func (m *machine) extend(marked bool) error {
	items, err := m.operands(marked, 1)
	if err != nil {
		return err
	}
	below, err := m.pop()
	if err != nil {
		return err
	}
	list, ok := below.(*List)
	if !ok {
		return m.errorf("appends to what is no list")
	}
	list.Items = append(list.Items, items...)
	m.push(list)
	return nil
}

// set puts pairs into the dictionary below the operands.
func (m *machine) set(marked bool) error {
	items, err := m.operands(marked, 2)
	if err != nil {
		return err
	}
	below, err := m.pop()
	if err != nil {
		return err
	}
	dict, ok := below.(*Dict)
	if !ok || len(items)%2 != 0 {
		return m.errorf("sets items of what is no dictionary, or a key without a value")
	}
	for i := 0; i < len(items); i += 2 {
		key, ok := items[i].(String)
		if !ok || len(key) > nameBytesMax {
			return m.errorf("a dictionary with a key that is no string, or one of more than %d bytes", nameBytesMax)
		}
		dict.Items[string(key)] = items[i+1]
	}
	m.push(dict)
	return nil
}

// global pushes the meaning of a name.
func (m *machine) global(op byte) error {
	var module, name []byte
	if op == opGlobal {
		var ok bool
		if module, ok = m.line(); ok {
			name, ok = m.line()
		}
		if !ok {
			return m.errorf("cut short: a name without an end")
		}
	} else {
		items, err := m.popN(2)
		if err != nil {
			return err
		}
		first, ok1 := items[0].(String)
		second, ok2 := items[1].(String)
		if !ok1 || !ok2 {
			return m.errorf("a module or name that is no string")
		}
		module, name = first, second
	}
	var g global
	ok := false
	if max(len(module), len(name)) <= nameBytesMax {
		g, ok = globals[[2]string{string(module), string(name)}]
	}
	if !ok {
		return m.errorf("refused: it wants to use %.60q of Python's module %.60q, which is not needed for images and labels", name, module)
	}
	m.push(g)
	return nil
}

// line returns the bytes up to the next newline, without it.
func (m *machine) line() ([]byte, bool) {
	line, _, ok := bytes.Cut(m.data[m.at:], []byte("\n"))
	if ok {
		m.at += len(line) + 1
	}
	return line, ok
}

// latin1 returns the bytes that a unicode string stands for, one for each code point.
func latin1(s String) (String, bool) {
	b := make([]byte, 0, utf8.RuneCount(s))
	for len(s) > 0 {
		r, size := utf8.DecodeRune(s)
		if r > math.MaxUint8 {
			return nil, false
		}
		b = append(b, byte(r))
		s = s[size:]
	}
	return b, true
}

// Package pickle reads the pickles of CIFAR without executing anything: dictionaries, lists, tuples, strings, whole numbers and two-dimensional
// arrays of uint8, as Python 2 wrote them for cifar-10-python.tar.gz and cifar-100-python.tar.gz, and as Python 3 writes the same up to protocol 4.
//
// A pickle is a program for a stack machine (Lib/pickletools.py in Python's source describes each opcode). Two of its opcodes make it dangerous:
// GLOBAL names any object of any module, and REDUCE calls it. Here nothing is looked up and nothing is called: a call becomes an [Object], which says
// what would have been called, and any name that arrays do not need is refused, as is every opcode that is not in the list below. An array of one
// image begins so:
//
//	c numpy.core.multiarray\n_reconstruct\n  c numpy\nndarray\n  K 0  \x85  U 1 b  \x87  R     an empty array:   _reconstruct(ndarray, (0,), "b")
//	( K 1  K 1  M 0x0c00  \x86  c numpy\ndtype\n …  R  \x89  T 3072 …  t  b                        its state:        (1, (1, 3072), dtype("u1"), False, "…")
//
// Strings are parts of the input, not copies, so that memory is bounded by the input and by [OpcodesMax].
package pickle

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

const (
	OpcodesMax  = 1 << 20 // that a pickle may have; a batch of CIFAR-10 has about 60,000
	keyBytesMax = 256     // of a dictionary's key, which is copied, and a memo could name a long one again and again
)

// A Value is one of: nil (None), bool, int64, String, *List, Tuple, Dict, Name, *Object.
type Value any

// String is a Python 2 str, a bytes, or the UTF-8 of a unicode string: whoever reads it knows which it expects. The keys of a Dict are strings. A
// Name is a module and what is meant of it.
type (
	String []byte
	List   struct{ Items []Value }
	Tuple  []Value
	Dict   map[string]Value
	Name   string
)

// Object is what a call would have made, and the state that it would have been given.
type Object struct{ Callable, Args, State Value }

// FormatError says that a pickle is malformed or holds what is not read.
type FormatError struct {
	Offset int // of the opcode
	Msg    string
}

func (e *FormatError) Error() string { return fmt.Sprintf("pickle: byte %d: %s", e.Offset, e.Msg) }

type mark struct{}

// names are those that arrays of uint8 need; Python 3 writes bytes into protocols before 3 as text with a code point for each, which it encodes.
var names = []Name{"numpy.core.multiarray _reconstruct", "numpy._core.multiarray _reconstruct", "numpy ndarray", "numpy dtype", nameEncode}

const nameEncode Name = "_codecs encode"

// opcode is what an opcode does with the number of so many bytes that stands after it.
type opcode struct {
	bytes uint64
	do    func(m *machine, n uint64)
}

// opcodes has those that are read, named as in Lib/pickle.py.
var opcodes = [256]opcode{
	0x80: {1, func(m *machine, n uint64) { m.require(n <= 4, "pickle protocol %d, up to 4 is read", n) }}, // PROTO
	0x95: {8, func(*machine, uint64) {}},                                                                  // FRAME, a hint for reading early
	'.':  {0, func(m *machine, _ uint64) { m.stopped = true }},                                            // STOP
	'(':  {0, func(m *machine, _ uint64) { m.push(mark{}) }},                                              // MARK
	'N':  {0, func(m *machine, _ uint64) { m.push(nil) }},                                                 // NONE
	0x88: {0, func(m *machine, _ uint64) { m.push(true) }},                                                // NEWTRUE
	0x89: {0, func(m *machine, _ uint64) { m.push(false) }},                                               // NEWFALSE
	'J':  {4, func(m *machine, n uint64) { m.push(int64(int32(n))) }},                                     // BININT
	'K':  {1, func(m *machine, n uint64) { m.push(int64(n)) }},                                            // BININT1
	'M':  {2, func(m *machine, n uint64) { m.push(int64(n)) }},                                            // BININT2
	'U':  {1, (*machine).string},                                                                          // SHORT_BINSTRING
	'C':  {1, (*machine).string},                                                                          // SHORT_BINBYTES
	0x8c: {1, (*machine).string},                                                                          // SHORT_BINUNICODE
	'T':  {4, (*machine).string},                                                                          // BINSTRING
	'B':  {4, (*machine).string},                                                                          // BINBYTES
	'X':  {4, (*machine).string},                                                                          // BINUNICODE
	']':  {0, func(m *machine, _ uint64) { m.push(new(List)) }},                                           // EMPTY_LIST
	'}':  {0, func(m *machine, _ uint64) { m.push(Dict{}) }},                                              // EMPTY_DICT
	')':  {0, func(m *machine, _ uint64) { m.tuple(nil) }},                                                // EMPTY_TUPLE
	't':  {0, func(m *machine, _ uint64) { m.tuple(m.popMark()) }},                                        // TUPLE
	0x85: {0, func(m *machine, _ uint64) { m.tuple(m.pop(1)) }},                                           // TUPLE1
	0x86: {0, func(m *machine, _ uint64) { m.tuple(m.pop(2)) }},                                           // TUPLE2
	0x87: {0, func(m *machine, _ uint64) { m.tuple(m.pop(3)) }},                                           // TUPLE3
	'a':  {0, func(m *machine, _ uint64) { m.appendTo(m.pop(1)) }},                                        // APPEND
	's':  {0, func(m *machine, _ uint64) { m.set(m.pop(2)) }},                                             // SETITEM
	'e':  {0, func(m *machine, _ uint64) { m.appendTo(m.popMark()) }},                                     // APPENDS
	'u':  {0, func(m *machine, _ uint64) { m.set(m.popMark()) }},                                          // SETITEMS
	'q':  {1, (*machine).put},                                                                             // BINPUT
	'r':  {4, (*machine).put},                                                                             // LONG_BINPUT
	0x94: {0, func(m *machine, _ uint64) { m.put(uint64(len(m.memo))) }},                                  // MEMOIZE
	'h':  {1, (*machine).get},                                                                             // BINGET
	'j':  {4, (*machine).get},                                                                             // LONG_BINGET
	'c':  {0, func(m *machine, _ uint64) { m.name(m.line(), m.line()) }},                                  // GLOBAL
	0x93: {0, func(m *machine, _ uint64) { v := m.pop(2); m.name(text(v[0]), text(v[1])) }},               // STACK_GLOBAL
	'R':  {0, func(m *machine, _ uint64) { v := m.pop(2); m.push(&Object{v[0], v[1], nil}) }},             // REDUCE
	'b':  {0, func(m *machine, _ uint64) { v := m.pop(2); m.build(v[0], v[1]) }},                          // BUILD
}

// machine is the state between two opcodes. After an error, which stays, its methods return zero values.
type machine struct {
	data      []byte
	at, start int // the next byte, and the one of the opcode under way
	stack     []Value
	memo      map[uint64]Value
	stopped   bool
	err       error
}

// Read returns the value that a pickle holds. Values may share parts with each other, and a list may hold itself; walk them with that in mind.
func Read(data []byte) (Value, error) {
	m := &machine{data: data, memo: make(map[uint64]Value)}
	for n := 0; !m.stopped && m.err == nil; n++ {
		m.start = m.at
		m.require(n < OpcodesMax, "more than %d opcodes", OpcodesMax)
		code := m.number(1)
		if op := opcodes[code]; m.require(op.do != nil, "the opcode 0x%02x is refused: it is none that plain data need", code) {
			op.do(m, m.number(op.bytes))
		}
	}
	v := m.pop(1)[0]
	m.require(m.at == len(data), "%d bytes after the end of the pickle", len(data)-m.at)
	return v, m.err
}

// require notes the first thing that is not as it must be.
func (m *machine) require(ok bool, format string, args ...any) bool {
	if !ok && m.err == nil {
		m.err = &FormatError{Offset: m.start, Msg: fmt.Sprintf(format, args...)}
	}
	return m.err == nil
}

// take returns the next n bytes.
func (m *machine) take(n uint64) []byte {
	if left := len(m.data) - m.at; !m.require(n <= uint64(left), "cut short: %d bytes are wanted and %d are left", n, left) {
		return nil
	}
	m.at += int(n)
	return m.data[m.at-int(n) : m.at : m.at]
}

// number reads an unsigned little-endian number of up to 8 bytes.
func (m *machine) number(size uint64) uint64 {
	var b [8]byte
	copy(b[:], m.take(size))
	return binary.LittleEndian.Uint64(b[:])
}

// line returns the bytes up to the next newline, without it.
func (m *machine) line() String {
	n := bytes.IndexByte(m.data[m.at:], '\n')
	if !m.require(n >= 0, "cut short: a name without an end") {
		return nil
	}
	return m.take(uint64(n) + 1)[:n]
}

func (m *machine) push(v Value)     { m.stack = append(m.stack, v) }
func (m *machine) string(n uint64)  { m.push(String(m.take(n))) }
func (m *machine) tuple(of []Value) { m.push(append(Tuple{}, of...)) }

// pop takes the n uppermost values off the stack, in the order in which they were pushed. They are valid until the next push.
func (m *machine) pop(n int) []Value {
	at := max(0, len(m.stack)-n)
	if !m.require(len(m.stack) >= n && !slices.Contains(m.stack[at:], Value(mark{})), "%d values are wanted and the stack has fewer", n) {
		return make([]Value, n)
	}
	values := m.stack[at:]
	m.stack = m.stack[:at]
	return values
}

// popMark takes the values above the uppermost mark, and the mark, off the stack.
func (m *machine) popMark() []Value {
	at := len(m.stack) - 1
	for at >= 0 && m.stack[at] != Value(mark{}) {
		at--
	}
	if !m.require(at >= 0, "no mark on the stack") {
		return nil
	}
	values := m.stack[at+1:]
	m.stack = m.stack[:at]
	return values
}

// appendTo appends values to the list below them.
func (m *machine) appendTo(values []Value) {
	list, ok := m.pop(1)[0].(*List)
	if m.require(ok, "items for what is no list") {
		list.Items = append(list.Items, values...)
	}
	m.push(list)
}

// set sets keys and values of the dictionary below them.
func (m *machine) set(values []Value) {
	dict, ok := m.pop(1)[0].(Dict)
	m.require(ok && len(values)%2 == 0, "keys and values for what is no dictionary, or a key without a value")
	for i := 1; i < len(values) && m.err == nil; i += 2 {
		key, ok := values[i-1].(String)
		if m.require(ok && len(key) <= keyBytesMax, "a dictionary with a key that is no string, or one of more than %d bytes", keyBytesMax) {
			dict[string(key)] = values[i]
		}
	}
	m.push(dict)
}

// put stores the uppermost value in the memo.
func (m *machine) put(at uint64) {
	v := m.pop(1)[0]
	m.push(v)
	m.memo[at] = v
}

// get pushes a value of the memo.
func (m *machine) get(at uint64) {
	v, ok := m.memo[at]
	m.require(ok, "nothing was stored at %d of the memo", at)
	m.push(v)
}

// text is a string, or nil.
func text(v Value) String { s, _ := v.(String); return s }

// name pushes a name that is known.
func (m *machine) name(module, name String) {
	n := Name(fmt.Sprintf("%.60s %.60s", module, name))
	m.require(slices.Contains(names, n), "refused: it wants to use %.60q of Python's module %.60q, which is not needed for images and labels", name, module)
	m.push(n)
}

// build notes an object's state.
func (m *machine) build(object, state Value) {
	o, ok := object.(*Object)
	if m.require(ok, "a state for what is no object") {
		o.State = state
	}
	m.push(object)
}

// Uint8 takes a two-dimensional array of uint8 apart: an object of the state (version, (rows, columns), dtype("u1"), Fortran order, bytes).
func Uint8(v Value) (data []byte, rows, columns int, err error) {
	object, _ := v.(*Object)
	if object == nil {
		return nil, 0, 0, fmt.Errorf("pickle: a %T, not an array", v)
	}
	state, _ := object.State.(Tuple)
	if len(state) != 5 || state[3] != Value(false) && state[3] != Value(int64(0)) {
		return nil, 0, 0, errors.New("pickle: an array in Fortran order, or what is no array")
	}
	var r, c int64
	if shape, _ := state[1].(Tuple); len(shape) == 2 {
		r, _ = shape[0].(int64)
		c, _ = shape[1].(int64)
	}
	data = text(state[4])
	for _, char := range string(firstArg(state[4], nameEncode)) {
		if char > 0xff {
			return nil, 0, 0, errors.New("pickle: an array of bytes with a code point above 255")
		}
		data = append(data, byte(char))
	}
	// The product cannot overflow: a number has 32 bits.
	if string(firstArg(state[2], "numpy dtype")) != "u1" || r <= 0 || c <= 0 || r*c != int64(len(data)) {
		return nil, 0, 0, fmt.Errorf("pickle: an array of %d×%d with %d bytes, not rows and columns of u1 (uint8)", r, c, len(data))
	}
	return data, int(r), int(c), nil
}

// firstArg is the string that a call of that name has first, or nil.
func firstArg(v Value, callable Name) String {
	o, _ := v.(*Object)
	if o == nil || o.Callable != Value(callable) {
		return nil
	}
	args, _ := o.Args.(Tuple)
	if len(args) == 0 {
		return nil
	}
	return text(args[0])
}

// Package matfile reads struct arrays from MATLAB level 5 MAT-files, as far as the meta.mat of the ILSVRC2012 development kit needs:
// character, numeric and cell fields, compressed or not, of either byte order.
//
// The format is that of "MAT-File Format", The MathWorks, chapter "Level 5 MAT-Files". A file is a header of 128 bytes and then data elements,
// each a tag and its bytes, padded to 8:
//
//	+----------+-----------+------------------+        +------------+----------+-----------+
//	| type u32 | bytes u32 | data …    pad to 8|   or   | bytes u16 | type u16 | data ≤ 4  |   (a small element)
//	+----------+-----------+------------------+        +------------+----------+-----------+
//
// An array is an element of type miMATRIX whose data are elements again: flags and class, dimensions, name, then what its class wants. For a struct:
// the length of a field name, the names, and one miMATRIX for each field of each struct, structs outermost. An element of type miCOMPRESSED holds
// one other element as a zlib stream.
//
// What is malformed gives a *FormatError. Arrays of kinds that are not needed (sparse, objects, complex parts) are kept as unread values of kind Other.
package matfile

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf16"
)

// The types of data elements.
const (
	typeInt8       = 1
	typeUint8      = 2
	typeInt16      = 3
	typeUint16     = 4
	typeInt32      = 5
	typeUint32     = 6
	typeSingle     = 7
	typeDouble     = 9
	typeInt64      = 12
	typeUint64     = 13
	typeMatrix     = 14
	typeCompressed = 15
	typeUTF8       = 16
	typeUTF16      = 17
)

// The classes of arrays.
const (
	classStruct = 2
	classChar   = 4
	classDouble = 6
	classUint64 = 15
)

const (
	headerBytes = 128
	// inflatedBytesMax bounds what one compressed element may grow to; the devkit's is about 2 MB.
	inflatedBytesMax = 256 << 20
	// elementsMax bounds how many structs an array may claim.
	elementsMax = 1 << 20
	fieldsMax   = 1 << 12
)

// FormatError says that a MAT-file is malformed, or is of a version that this package does not read.
type FormatError struct {
	Offset int64 // in the file, or in the inflated element when Inflated
	// Inflated says that Offset counts in the inflated bytes of a compressed element.
	Inflated bool
	Msg      string
}

func (e *FormatError) Error() string {
	where := "byte"
	if e.Inflated {
		where = "inflated byte"
	}
	return fmt.Sprintf("matfile: %s %d: %s", where, e.Offset, e.Msg)
}

// Kind says what a Value holds.
type Kind uint8

// Kinds of values.
const (
	Other   Kind = iota // an array of a class that is not read
	Text                // a row of characters
	Numbers             // real numbers, column by column
)

// Value is the content of one field of one struct.
type Value struct {
	Kind    Kind
	Text    string
	Numbers []float64
}

// Struct is a struct array: Fields names the fields in the file's order, Rows[i][f] is field f of the i-th struct.
type Struct struct {
	Name   string
	Fields []string
	Rows   [][]Value
}

// Field returns the place of a field in Fields, or -1.
func (s *Struct) Field(name string) int {
	for i, f := range s.Fields {
		if f == name {
			return i
		}
	}
	return -1
}

// ReadStruct returns the struct array of that name from the content of a level 5 MAT-file.
func ReadStruct(data []byte, name string) (*Struct, error) {
	if len(data) < headerBytes {
		return nil, &FormatError{Offset: 0, Msg: fmt.Sprintf("no header: the file has %d bytes, a level 5 MAT-file at least %d", len(data), headerBytes)}
	}
	var order binary.ByteOrder
	switch string(data[126:128]) {
	case "IM":
		order = binary.LittleEndian
	case "MI":
		order = binary.BigEndian
	default:
		return nil, &FormatError{Offset: 126, Msg: "no endian indicator: not a level 5 MAT-file"}
	}
	if v := order.Uint16(data[124:]); v != 0x0100 {
		return nil, &FormatError{Offset: 124, Msg: fmt.Sprintf("version %#04x, but only level 5 (0x0100) is read; version 7.3 files are HDF5", v)}
	}
	var names []string
	file := &parser{data: data, pos: headerBytes, order: order}
	for file.pos < len(data) {
		start := file.pos
		typ, body, err := file.element()
		if err != nil {
			return nil, err
		}
		p := &parser{data: body, order: order, base: int64(start) + 8}
		if typ == typeCompressed {
			if p, typ, err = inflate(body, order, int64(start)); err != nil {
				return nil, err
			}
		}
		if typ != typeMatrix {
			continue
		}
		a, err := p.array()
		if err != nil {
			return nil, err
		}
		if a.name == name && a.class == classStruct {
			return p.structArray(a)
		}
		names = append(names, a.name)
	}
	return nil, &FormatError{Offset: int64(len(data)), Msg: fmt.Sprintf("no struct array %q; the file has %q", name, names)}
}

// inflate opens a compressed element and returns a parser at the data of the element inside, and that element's type.
func inflate(body []byte, order binary.ByteOrder, offset int64) (*parser, uint32, error) {
	bad := func(err error) (*parser, uint32, error) {
		return nil, 0, &FormatError{Offset: offset, Msg: "compressed element: " + err.Error()}
	}
	zr, err := zlib.NewReader(bytes.NewReader(body))
	if err != nil {
		return bad(err)
	}
	raw, err := io.ReadAll(io.LimitReader(zr, inflatedBytesMax+1))
	if err != nil {
		return bad(err)
	}
	if len(raw) > inflatedBytesMax {
		return bad(fmt.Errorf("more than %d bytes", inflatedBytesMax))
	}
	outer := &parser{data: raw, order: order, inflated: true}
	typ, inner, err := outer.element()
	if err != nil {
		return nil, 0, err
	}
	return &parser{data: inner, order: order, base: 8, inflated: true}, typ, nil
}

// parser walks over the data elements of one buffer.
type parser struct {
	data     []byte
	pos      int
	order    binary.ByteOrder
	base     int64 // where data[0] stands, for errors
	inflated bool
}

func (p *parser) errorf(format string, args ...any) error {
	return &FormatError{Offset: p.base + int64(p.pos), Inflated: p.inflated, Msg: fmt.Sprintf(format, args...)}
}

// element reads one tag and returns its type and data, leaving pos behind its padding.
func (p *parser) element() (typ uint32, body []byte, err error) {
	rest := p.data[p.pos:]
	if len(rest) < 8 {
		return 0, nil, p.errorf("%d bytes left, too few for a data element", len(rest))
	}
	word := p.order.Uint32(rest)
	if small := word >> 16; small != 0 {
		if small > 4 {
			return 0, nil, p.errorf("small data element of %d bytes", small)
		}
		p.pos += 8
		return word & 0xffff, rest[4 : 4+small], nil
	}
	size := uint64(p.order.Uint32(rest[4:]))
	if size > uint64(len(rest)-8) {
		return 0, nil, p.errorf("data element of %d bytes, but %d are left", size, len(rest)-8)
	}
	step := 8 + int(size)
	if word != typeCompressed { // compressed elements are not padded
		step = min((step+7)&^7, len(rest))
	}
	p.pos += step
	return word, rest[8 : 8+size], nil
}

// header is what every array begins with.
type header struct {
	class byte
	count int // the product of the dimensions
	rows  int // the first dimension
	name  string
}

// array reads the flags, dimensions and name of an array.
func (p *parser) array() (header, error) {
	var h header
	typ, flags, err := p.element()
	if err != nil {
		return h, err
	}
	if typ != typeUint32 || len(flags) != 8 {
		return h, p.errorf("array flags of type %d and %d bytes", typ, len(flags))
	}
	h.class = byte(p.order.Uint32(flags))
	typ, dims, err := p.element()
	if err != nil {
		return h, err
	}
	if typ != typeInt32 || len(dims)%4 != 0 || len(dims) < 8 {
		return h, p.errorf("array dimensions of type %d and %d bytes", typ, len(dims))
	}
	h.count, h.rows = 1, int(int32(p.order.Uint32(dims)))
	for ; len(dims) > 0; dims = dims[4:] {
		d := int(int32(p.order.Uint32(dims)))
		if d < 0 || d > math.MaxInt32 || (d > 0 && h.count > math.MaxInt32/d) {
			return h, p.errorf("array dimension %d", d)
		}
		h.count *= d
	}
	_, name, err := p.element()
	if err != nil {
		return h, err
	}
	h.name = string(name)
	return h, nil
}

// structArray reads the rest of a struct array.
func (p *parser) structArray(h header) (*Struct, error) {
	if h.count > elementsMax {
		return nil, p.errorf("struct array of %d elements; at most %d are read", h.count, elementsMax)
	}
	typ, width, err := p.element()
	if err != nil {
		return nil, err
	}
	if typ != typeInt32 || len(width) != 4 {
		return nil, p.errorf("field name length of type %d and %d bytes", typ, len(width))
	}
	step := int(int32(p.order.Uint32(width)))
	_, names, err := p.element()
	if err != nil {
		return nil, err
	}
	if step <= 0 || len(names)%step != 0 || len(names)/step > fieldsMax {
		return nil, p.errorf("field names: %d bytes in steps of %d", len(names), step)
	}
	s := &Struct{Name: h.name}
	for ; len(names) > 0; names = names[step:] {
		name, _, _ := strings.Cut(string(names[:step]), "\x00")
		s.Fields = append(s.Fields, name)
	}
	for range h.count {
		row := make([]Value, len(s.Fields))
		for f := range row {
			if row[f], err = p.value(); err != nil {
				return nil, err
			}
		}
		s.Rows = append(s.Rows, row)
	}
	return s, nil
}

// value reads one field's array.
func (p *parser) value() (Value, error) {
	start := p.pos
	typ, body, err := p.element()
	if err != nil {
		return Value{}, err
	}
	if typ != typeMatrix {
		p.pos = start
		return Value{}, p.errorf("a field of type %d instead of an array", typ)
	}
	if len(body) == 0 { // MATLAB writes an empty array so
		return Value{Kind: Numbers}, nil
	}
	q := &parser{data: body, order: p.order, base: p.base + int64(start) + 8, inflated: p.inflated}
	h, err := q.array()
	if err != nil {
		return Value{}, err
	}
	switch {
	case h.class == classChar && h.rows <= 1:
		if h.count == 0 && q.pos >= len(q.data) {
			return Value{Kind: Text}, nil
		}
		typ, text, err := q.element()
		if err != nil {
			return Value{}, err
		}
		s, err := q.text(typ, text)
		return Value{Kind: Text, Text: s}, err
	case h.class >= classDouble && h.class <= classUint64:
		if h.count == 0 && q.pos >= len(q.data) {
			return Value{Kind: Numbers}, nil
		}
		typ, raw, err := q.element()
		if err != nil {
			return Value{}, err
		}
		v, err := q.numbers(typ, raw)
		if err == nil && len(v) != h.count {
			err = q.errorf("array of %d numbers with data for %d", h.count, len(v))
		}
		return Value{Kind: Numbers, Numbers: v}, err
	}
	return Value{Kind: Other}, nil
}

// text decodes characters; MATLAB stores them as 8- or 16-bit codes, UTF-8 or UTF-16.
func (p *parser) text(typ uint32, raw []byte) (string, error) {
	switch typ {
	case typeUTF8:
		return string(raw), nil
	case typeInt8, typeUint8:
		runes := make([]rune, len(raw))
		for i, b := range raw {
			runes[i] = rune(b)
		}
		return string(runes), nil
	case typeInt16, typeUint16, typeUTF16:
		units := make([]uint16, len(raw)/2)
		for i := range units {
			units[i] = p.order.Uint16(raw[2*i:])
		}
		return string(utf16.Decode(units)), nil
	}
	return "", p.errorf("characters of type %d", typ)
}

// numbers decodes an array's real part; MATLAB stores it in the smallest type that holds every value.
func (p *parser) numbers(typ uint32, raw []byte) ([]float64, error) {
	size := map[uint32]int{typeInt8: 1, typeUint8: 1, typeInt16: 2, typeUint16: 2, typeInt32: 4, typeUint32: 4, typeSingle: 4, typeDouble: 8, typeInt64: 8, typeUint64: 8}[typ]
	if size == 0 || len(raw)%size != 0 {
		return nil, p.errorf("%d bytes of numbers of type %d", len(raw), typ)
	}
	v := make([]float64, len(raw)/size)
	for i := range v {
		b := raw[i*size:]
		switch typ {
		case typeInt8:
			v[i] = float64(int8(b[0]))
		case typeUint8:
			v[i] = float64(b[0])
		case typeInt16:
			v[i] = float64(int16(p.order.Uint16(b)))
		case typeUint16:
			v[i] = float64(p.order.Uint16(b))
		case typeInt32:
			v[i] = float64(int32(p.order.Uint32(b)))
		case typeUint32:
			v[i] = float64(p.order.Uint32(b))
		case typeSingle:
			v[i] = float64(math.Float32frombits(p.order.Uint32(b)))
		case typeDouble:
			v[i] = math.Float64frombits(p.order.Uint64(b))
		case typeInt64:
			v[i] = float64(int64(p.order.Uint64(b)))
		case typeUint64:
			v[i] = float64(p.order.Uint64(b))
		}
	}
	return v, nil
}

package source

import (
	"encoding/binary"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/imgfeed/imgfeed/shard"
)

// npyHeader is the text at the start of a file of numpy (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html):
//
//	"\x93NUMPY" 1 0 | length u16 | {'descr': '<f4', 'fortran_order': False, 'shape': (40,), }
//
// whose length is an u32 from version 2 on.
var npyHeader = regexp.MustCompile(`^\{'descr': '([<|=]?)([a-z])(\d)', 'fortran_order': (True|False), 'shape': \(([\d, ]*)\), *\}\s*$`)

const npyMagic = "\x93NUMPY"

// appendNPY appends the numbers of a file of numpy, whatever its shape, in C's order.
func (f *Field) appendNPY(dst, data []byte) ([]byte, error) {
	header, rest, err := cutNPYHeader(data)
	if err != nil {
		return dst, f.errorf("%v", err)
	}
	m := npyHeader.FindStringSubmatch(header)
	if m == nil {
		return dst, f.errorf("the file of numpy says %.80q: an array of little-endian numbers is wanted", header)
	}
	count, dimensions := 1, 0
	for part := range strings.SplitSeq(m[5], ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		n, err := strconv.Atoi(part)
		if dimensions++; err != nil || n > shard.FieldSizeMax || count*n > shard.FieldSizeMax {
			return dst, f.errorf("the array has the shape (%.40s), more than %d numbers", m[5], shard.FieldSizeMax)
		}
		count *= n
	}
	if m[4] == "True" && dimensions > 1 {
		return dst, f.errorf("the array is in Fortran's order: save numpy.ascontiguousarray of it")
	}
	kind, size := m[2], int(m[3][0]-'0')
	if len(rest) != count*size {
		return dst, f.errorf("the array of %d × %s%d has %d bytes", count, kind, size, len(rest))
	}
	w := f.begin(dst)
	for i := range count {
		if err := w.npy(kind, rest[i*size:][:size]); err != nil {
			return dst, err
		}
	}
	return w.end()
}

func cutNPYHeader(data []byte) (header string, rest []byte, err error) {
	if len(data) < 12 || string(data[:6]) != npyMagic {
		return "", nil, fmt.Errorf("is no file of numpy: it begins with %.8q", data)
	}
	at, length := 10, int(binary.LittleEndian.Uint16(data[8:]))
	if data[6] > 1 {
		at, length = 12, int(binary.LittleEndian.Uint32(data[8:]))
	}
	if length > len(data)-at {
		return "", nil, fmt.Errorf("the file of numpy ends in its header")
	}
	return string(data[at : at+length]), data[at+length:], nil
}

// npy takes an element of an array.
func (w *numbersWriter) npy(kind string, p []byte) error {
	switch kind + strconv.Itoa(len(p)) {
	case "f4":
		return w.float(float64(math.Float32frombits(binary.LittleEndian.Uint32(p))))
	case "f8":
		return w.float(math.Float64frombits(binary.LittleEndian.Uint64(p)))
	case "i8":
		return w.int(int64(binary.LittleEndian.Uint64(p)))
	case "i4":
		return w.int(int64(int32(binary.LittleEndian.Uint32(p))))
	case "i2":
		return w.int(int64(int16(binary.LittleEndian.Uint16(p))))
	case "i1":
		return w.int(int64(int8(p[0])))
	case "u4":
		return w.int(int64(binary.LittleEndian.Uint32(p)))
	case "u2":
		return w.int(int64(binary.LittleEndian.Uint16(p)))
	case "u1", "b1":
		return w.int(int64(p[0]))
	}
	return w.field.errorf("the array is of %s%d: save it as float32 or int64", kind, len(p))
}

package shard

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"unicode/utf8"

	"github.com/imgfeed/imgfeed/internal/image/mask"
)

// A FieldType is the type of a field's values.
type FieldType string

// The types. A field of numbers has one or, with a Size, a vector of so many; values of the other types have any length.
const (
	Int64   FieldType = "int64"
	Float32 FieldType = "float32"
	Bytes   FieldType = "bytes"
	Text    FieldType = "text" // UTF-8
	JSON    FieldType = "json" // one value, as text

	// Targets, which follow the image when a transform moves it. From version3 on.
	Objects FieldType = "objects" // boxes with labels and numbers, see ObjectValue
	Mask    FieldType = "mask"    // a label for each pixel, see internal/image/mask
)

// Limits of fields.
const (
	fieldsMax         = 64      // bounds the fields of a set
	FieldSizeMax      = 1 << 16 // bounds the numbers of a vector
	fieldNameBytesMax = 64      // bounds the name of a field
	// fieldClassesMax bounds the classes of a target, and fieldColumnsMax the numbers of an object.
	fieldClassesMax = 1 << 16
	fieldColumnsMax = 16
)

var fieldName = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

// A Field is a named value that each sample of a set has beside its label.
type Field struct {
	Name string    `json:"name"` // letters, digits, _, - and .
	Type FieldType `json:"type"`
	Size int       `json:"size,omitempty"` // length of a vector of numbers; 0: a single number, or a type without a fixed size
	// BytesMax is the length of the longest value in the set, in bytes, for types without a fixed size. The writer finds it.
	BytesMax int `json:"bytes_max,omitempty"`

	// Classes are the names of a target's labels, by label, and Ids the numbers that the dataset has for them, if they differ.
	Classes []string `json:"classes,omitempty"`
	Ids     []int64  `json:"ids,omitempty"`
	// Columns are the numbers of each object beside box and label, such as area and iscrowd.
	Columns []Column `json:"columns,omitempty"`
}

// A Column is a number that each object has beside its box and label, such as area.
type Column struct {
	Name string    `json:"name"`
	Type FieldType `json:"type"` // Int64 or Float32
}

// Target reports whether the field's values follow the image: objects and masks.
func (f Field) Target() bool { return f.Type == Objects || f.Type == Mask }

// Numeric reports whether the field's values are numbers, one or a vector of them.
func (f Field) Numeric() bool { return f.Type == Int64 || f.Type == Float32 }

// Width returns the bytes that a value of a numeric field takes; 0 for the others.
func (f Field) Width() int {
	switch f.Type {
	case Int64:
		return 8 * max(f.Size, 1)
	case Float32:
		return 4 * max(f.Size, 1)
	}
	return 0
}

// String returns the name and the type: "score float32", "attributes float32[40]".
func (f Field) String() string {
	if f.Size > 0 {
		return fmt.Sprintf("%s %s[%d]", f.Name, f.Type, f.Size)
	}
	return fmt.Sprintf("%s %s", f.Name, f.Type)
}

// Fields are a set's fields; records hold their values in this order.
type Fields []Field

// UnmarshalJSON ends at the first field too many: a list of empty objects would take forty times the memory of its text.
func (f *Fields) UnmarshalJSON(text []byte) error {
	*f = nil
	return decodeList("fields", text, func(one Field) error {
		if *f = append(*f, one); len(*f) > fieldsMax {
			return fmt.Errorf("more than %d fields, the most that a set has", fieldsMax)
		}
		return nil
	})
}

// Index returns the position of the field of that name, or -1.
func (f Fields) Index(name string) int {
	return slices.IndexFunc(f, func(one Field) bool { return one.Name == name })
}

// Has reports whether a field has a type.
func (f Fields) Has(t FieldType) bool {
	return slices.ContainsFunc(f, func(one Field) bool { return one.Type == t })
}

// Equal reports whether both are the same fields, whatever the lengths of their values.
func (f Fields) Equal(o Fields) bool {
	return slices.EqualFunc(f.bounded(0), o.bounded(0), func(a, b Field) bool {
		same := a.Name == b.Name && a.Type == b.Type && a.Size == b.Size
		return same && slices.Equal(a.Classes, b.Classes) && slices.Equal(a.Ids, b.Ids) && slices.Equal(a.Columns, b.Columns)
	})
}

// bounded returns the fields with one BytesMax: 0, or the most that there can be while nothing is known of the values.
func (f Fields) bounded(bytesMax int) Fields {
	u := slices.Clone(f)
	for i := range u {
		u[i].BytesMax = 0
		if !u[i].Numeric() {
			u[i].BytesMax = bytesMax
		}
	}
	return u
}

// Check returns a fault of the fields.
func (f Fields) Check() error {
	if len(f) > fieldsMax {
		return fmt.Errorf("%d fields, and a set has at most %d", len(f), fieldsMax)
	}
	for i, one := range f {
		sized := one.Numeric() && one.BytesMax == 0 && one.Size >= 0 && one.Size <= FieldSizeMax
		unsized := slices.Contains([]FieldType{Bytes, Text, JSON, Objects, Mask}, one.Type) && one.Size == 0 &&
			one.BytesMax >= 0 && one.BytesMax <= RecordBytesMax
		switch {
		case !fieldName.MatchString(one.Name) || len(one.Name) > fieldNameBytesMax:
			return fmt.Errorf("field name %.80q: 1 to %d letters, digits, _, - and . were expected", one.Name, fieldNameBytesMax)
		case f.Index(one.Name) != i:
			return fmt.Errorf("field %q twice", one.Name)
		case !sized && !unsized:
			return fmt.Errorf("field %q cannot have the type %.40q, %d numbers and %d bytes", one.Name, one.Type, one.Size, one.BytesMax)
		}
		if err := one.checkTarget(); err != nil {
			return fmt.Errorf("field %q %w", one.Name, err)
		}
	}
	return nil
}

// checkTarget returns a fault of what only targets have.
func (f Field) checkTarget() error {
	switch {
	case !f.Target() && (f.Classes != nil || f.Ids != nil || f.Columns != nil):
		return fmt.Errorf("of type %s cannot have classes, ids or columns", f.Type)
	case len(f.Classes) > fieldClassesMax || f.Ids != nil && len(f.Ids) != len(f.Classes):
		return fmt.Errorf("has %d classes and %d ids", len(f.Classes), len(f.Ids))
	case len(f.Columns) > fieldColumnsMax || f.Type == Mask && f.Columns != nil:
		return fmt.Errorf("of type %s cannot have %d columns", f.Type, len(f.Columns))
	}
	for i, c := range f.Columns {
		if c.Type != Int64 && c.Type != Float32 || !fieldName.MatchString(c.Name) || len(c.Name) > fieldNameBytesMax {
			return fmt.Errorf("cannot have the column %.80q of type %.40q", c.Name, c.Type)
		}
		if slices.ContainsFunc(f.Columns[:i], func(o Column) bool { return o.Name == c.Name }) || c.Name == "boxes" || c.Name == "labels" {
			return fmt.Errorf("has the column %q twice", c.Name)
		}
	}
	return nil
}

// Split appends the value of each field in a record's field bytes to into: all bytes of numbers, little-endian, and the bytes of other
// values without their length. The error says what contradicts the schema. Split reads only the given bytes, each length once.
func (f Fields) Split(values []byte, into [][]byte) ([][]byte, error) {
	rest := values
	for i := range f {
		n := f[i].Width()
		if n == 0 {
			if len(rest) < 4 {
				return into, fmt.Errorf("field %q begins %d bytes before the end of the values", f[i].Name, len(rest))
			}
			length := binary.LittleEndian.Uint32(rest)
			if int64(length) > int64(f[i].BytesMax) {
				return into, fmt.Errorf("field %q has %d bytes, and at most %d are expected", f[i].Name, length, f[i].BytesMax)
			}
			n, rest = int(length), rest[4:]
		}
		if n > len(rest) {
			return into, fmt.Errorf("field %q has %d bytes, and the values end after %d of them", f[i].Name, n, len(rest))
		}
		into, rest = append(into, rest[:n:n]), rest[n:]
	}
	if len(rest) > 0 {
		return into, fmt.Errorf("%d bytes after the values of %d fields", len(rest), len(f))
	}
	return into, nil
}

// checkValues splits a record's field bytes as Split does, and refuses values that are not of their type.
func (f Fields) checkValues(values []byte) (split [][]byte, err error) {
	if split, err = f.Split(values, nil); err != nil {
		return nil, err
	}
	for i, v := range split {
		switch {
		case f[i].Type == Text && !utf8.Valid(v):
			return nil, fmt.Errorf("field %q: %.40q is not UTF-8", f[i].Name, v)
		case f[i].Type == JSON && !json.Valid(v):
			return nil, fmt.Errorf("field %q: %.40q is not JSON", f[i].Name, v)
		case f[i].Target():
			if err := f[i].checkTargetValue(v); err != nil {
				return nil, fmt.Errorf("field %q: %w", f[i].Name, err)
			}
		}
	}
	return split, nil
}

// version returns the oldest version that can hold the fields.
func (f Fields) version() Version {
	switch {
	case len(f) == 0:
		return version1
	case slices.ContainsFunc(f, Field.Target):
		return version3
	}
	return version2
}

func (f Fields) checkVersion(v Version) error {
	if v < f.version() {
		return fmt.Errorf("%d fields (%s), which format version %d does not have", len(f), f[len(f)-1], v)
	}
	return f.Check()
}

// AppendInts appends the value of a field of type int64 to a record's field bytes.
func AppendInts(values []byte, numbers ...int64) []byte {
	for _, n := range numbers {
		values = binary.LittleEndian.AppendUint64(values, uint64(n))
	}
	return values
}

// AppendFloats appends the value of a field of type float32.
func AppendFloats(values []byte, numbers ...float32) []byte {
	for _, n := range numbers {
		values = binary.LittleEndian.AppendUint32(values, math.Float32bits(n))
	}
	return values
}

// AppendBytes appends the value of a field of type bytes, text or json.
func AppendBytes(values, value []byte) []byte {
	values = binary.LittleEndian.AppendUint32(values, uint32(len(value)))
	return append(values, value...)
}

// JSON writes a value, as [Fields.Split] gives it, as JSON: numbers that JSON lacks as text, bytes in base64, invalid JSON as null.
func (f Field) JSON(value []byte) []byte {
	var shown any
	switch {
	case f.Type == JSON:
		if !json.Valid(value) {
			return []byte("null")
		}
		return compactJSON(value)
	case f.Type == Text:
		shown = string(value)
	case f.Type == Bytes:
		shown = value
	case f.Target():
		shown = f.targetJSON(value)
	default:
		numbers := f.numbers(value)
		if shown = numbers; f.Size == 0 && len(numbers) == 1 {
			shown = numbers[0]
		}
	}
	text, _ := encodeJSON(shown, "") // Numbers, text and bytes always encode.
	return bytes.TrimSuffix(text, []byte("\n"))
}

// numbers returns those of a numeric field's value, as JSON has them.
func (f Field) numbers(value []byte) []any {
	var numbers []any
	for ; f.Type == Int64 && len(value) > 0; value = value[8:] {
		numbers = append(numbers, int64(binary.LittleEndian.Uint64(value)))
	}
	for ; len(value) > 0; value = value[4:] {
		x := math.Float32frombits(binary.LittleEndian.Uint32(value))
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
			numbers = append(numbers, fmt.Sprint(x))
		} else {
			numbers = append(numbers, x)
		}
	}
	return numbers
}

// ObjectValue is the value of a field of type [Objects]: for each of a sample's objects a box, a label and the numbers of the field's
// Columns. Stored, it is
//
//	u32        n, the number of objects
//	n × 4 f32  boxes: x1, y1, x2, y2, edges in pixels of the stored image; 0 is the left or upper edge of the first pixel
//	n × i64    labels: indices into the field's Classes
//	n × i64 or n × f32 for each column, in their order
//
// all little-endian. Boxes are kept as the dataset has them: they may lie outside the image, be empty or turned over.
type ObjectValue struct {
	Boxes   []float32
	Labels  []int64
	Columns [][]byte // each column's numbers, as they are stored
}

// ObjectsMax bounds the objects of a sample.
const ObjectsMax = 1 << 20

// rowBytes returns the bytes that one object takes.
func (f Field) rowBytes() int {
	n := 4*4 + 8
	for _, c := range f.Columns {
		n += c.Width()
	}
	return n
}

// Width returns the bytes of a number of the column.
func (c Column) Width() int {
	if c.Type == Float32 {
		return 4
	}
	return 8
}

// ReadObjects reads a value into o, and reuses its memory; Columns are parts of the value. An empty value has no objects.
func (f Field) ReadObjects(value []byte, o *ObjectValue) error {
	o.Boxes, o.Labels, o.Columns = o.Boxes[:0], o.Labels[:0], o.Columns[:0]
	n := 0
	if len(value) > 0 {
		if len(value) < 4 {
			return fmt.Errorf("objects of %d bytes, and their number alone takes 4", len(value))
		}
		count := binary.LittleEndian.Uint32(value)
		value = value[4:]
		if count > ObjectsMax || len(value) != int(count)*f.rowBytes() {
			return fmt.Errorf("%d bytes for %d objects of %d bytes, at most %d objects", len(value), count, f.rowBytes(), ObjectsMax)
		}
		n = int(count)
	}
	for i := range 4 * n {
		o.Boxes = append(o.Boxes, math.Float32frombits(binary.LittleEndian.Uint32(value[4*i:])))
	}
	value = value[16*n:]
	for i := range n {
		label := int64(binary.LittleEndian.Uint64(value[8*i:]))
		if label < 0 || len(f.Classes) > 0 && label >= int64(len(f.Classes)) {
			return fmt.Errorf("object %d has label %d, and there are %d classes", i, label, len(f.Classes))
		}
		o.Labels = append(o.Labels, label)
	}
	value = value[8*n:]
	for _, c := range f.Columns {
		o.Columns = append(o.Columns, value[:n*c.Width():n*c.Width()])
		value = value[n*c.Width():]
	}
	return nil
}

// Append appends the value to a record's field bytes, without its length.
func (o *ObjectValue) Append(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(o.Labels)))
	dst = AppendFloats(dst, o.Boxes...)
	dst = AppendInts(dst, o.Labels...)
	for _, column := range o.Columns {
		dst = append(dst, column...)
	}
	return dst
}

// checkTargetValue returns a fault of the value of a target.
func (f Field) checkTargetValue(value []byte) error {
	if f.Type == Mask {
		_, _, err := mask.Size(value)
		return err
	}
	return f.ReadObjects(value, new(ObjectValue))
}

// targetJSON returns what JSON shows of a target: objects with their columns, or the size of a mask.
func (f Field) targetJSON(value []byte) any {
	if f.Type == Mask {
		w, h, err := mask.Size(value)
		if err != nil {
			return nil
		}
		return map[string]int{"height": h, "width": w}
	}
	var o ObjectValue
	if f.ReadObjects(value, &o) != nil {
		return nil
	}
	boxes := make([][]any, 0, len(o.Labels))
	numbers := Field{Type: Float32}.numbers(AppendFloats(nil, o.Boxes...))
	for i := range o.Labels {
		boxes = append(boxes, numbers[4*i:4*i+4])
	}
	shown := map[string]any{"boxes": boxes, "labels": append([]int64{}, o.Labels...)} // not nil, which JSON would write as null
	for i, c := range f.Columns {
		shown[c.Name] = append([]any{}, Field{Type: c.Type}.numbers(o.Columns[i])...)
	}
	return shown
}

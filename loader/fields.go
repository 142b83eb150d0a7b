package loader

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/imgfeed/imgfeed/shard"
)

// Fields says which fields of a set a stream delivers. For each field, a slot holds the values of its samples one after the other,
// [Fields.Stride] bytes each. Numbers are stored as they are, little-endian; a value of another type is its length, u32, and its bytes.
type Fields struct {
	schema  shard.Fields
	wanted  []int // indices in the schema; below 0 in sizeFields, from its end
	strides []int

	objects, mask int // indices in wanted of the fields that follow the image, or -1
	boxes         BoxForm
}

// sizeFields are fields of every set: the stored image's pixels. One of the set's own hides the one of its name.
var sizeFields = shard.Fields{{Name: "height", Type: shard.Int64}, {Name: "width", Type: shard.Int64}}

// field returns the field of an index of wanted.
func (f *Fields) field(index int) *shard.Field {
	if index < 0 {
		return &sizeFields[len(sizeFields)+index]
	}
	return &f.schema[index]
}

// A FieldError says why the requested fields cannot be delivered.
type FieldError struct{ Msg string }

func (e *FieldError) Error() string { return "loader: " + e.Msg }

func unknownField(name string, here shard.Fields) *FieldError {
	if len(here) == 0 {
		return &FieldError{fmt.Sprintf("no field %q: the set has no fields (imgshard build --field makes them)", name)}
	}
	var names []string
	for _, f := range here {
		names = append(names, f.String())
	}
	return &FieldError{fmt.Sprintf("no field %q here; there are %s", name, strings.Join(names, ", "))}
}

// NewFields chooses fields of a set's schema by name, in this order. It returns a [*FieldError] for an unknown name or a repeated one.
func NewFields(schema shard.Fields, names []string) (*Fields, error) {
	f := &Fields{schema: schema, objects: -1, mask: -1}
	for _, name := range names {
		i := schema.Index(name)
		if size := sizeFields.Index(name); i < 0 && size >= 0 {
			i = size - len(sizeFields)
		} else if i < 0 {
			return nil, unknownField(name, schema)
		}
		if slices.Contains(f.wanted, i) {
			return nil, &FieldError{fmt.Sprintf("field %q is asked for twice", name)}
		}
		stride := f.field(i).Width()
		if stride == 0 {
			stride = (4 + schema[i].BytesMax + 3) &^ 3 // so that the next length is aligned
		}
		f.wanted, f.strides = append(f.wanted, i), append(f.strides, stride)
	}
	return f, nil
}

// Len returns the number of fields.
func (f *Fields) Len() int {
	if f == nil {
		return 0
	}
	return len(f.wanted)
}

// Field returns the k-th field.
func (f *Fields) Field(k int) shard.Field { return *f.field(f.wanted[k]) }

// Stride returns the bytes that a slot has for a sample's value of the k-th field.
func (f *Fields) Stride(k int) int { return f.strides[k] }

// values returns the values of a record.
func (f *Fields) values(record *shard.Record) ([][]byte, error) {
	if f.Len() == 0 {
		return nil, nil
	}
	all, err := f.schema.Split(record.Fields, nil)
	if err != nil {
		return nil, err
	}
	var values [][]byte
	for _, i := range f.wanted {
		if i < 0 {
			values = append(values, sizeValue(record, i, make([]byte, 8)))
			continue
		}
		values = append(values, all[i])
	}
	return values, nil
}

// sizeValue writes the value of one of sizeFields.
func sizeValue(record *shard.Record, index int, dst []byte) []byte {
	pixels := [...]int32{record.Height, record.Width}[len(sizeFields)+index]
	binary.LittleEndian.PutUint64(dst, uint64(pixels))
	return dst
}

// put writes the values of a record, all those of the schema, to a slot. Targets are not among them.
func (f *Fields) put(s *Slot, position int, record *shard.Record, values [][]byte) {
	for k, i := range f.wanted {
		if k == f.objects || k == f.mask {
			continue
		}
		dst := s.Fields[k][position*f.strides[k]:][:f.strides[k]]
		if i < 0 {
			sizeValue(record, i, dst)
			continue
		}
		if !f.schema[i].Numeric() {
			binary.LittleEndian.PutUint32(dst, uint32(len(values[i])))
			dst = dst[4:]
		}
		copy(dst, values[i])
	}
}

// blank writes the values of a sample that cannot be read: NaN, 0, nothing of the types without a fixed size, and masks to be ignored.
func (f *Fields) blank(s *Slot, position int) {
	for k, i := range f.wanted {
		dst := s.Fields[k][position*f.strides[k]:][:f.strides[k]]
		clear(dst)
		for at := 0; k == f.mask && at < len(dst); at++ {
			dst[at] = maskIgnored
		}
		if f.field(i).Type == shard.Float32 {
			for at := 0; at < len(dst); at += 4 {
				binary.LittleEndian.PutUint32(dst[at:], math.Float32bits(float32(math.NaN())))
			}
		}
	}
}

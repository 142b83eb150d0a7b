package loader

import (
	"encoding/binary"
	"fmt"
	"image"
	"math"
	"slices"
	"strings"

	"github.com/imgfeed/imgfeed/internal/image/mask"
	"github.com/imgfeed/imgfeed/internal/image/thumbnail"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/transform"
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

// A BoxForm says how the boxes of a stream are delivered.
type BoxForm struct {
	Format   transform.BoxFormat
	Fraction bool // their numbers are shares of the result's width and height, not pixels
}

// ParseBoxForm reads a format, xyxy, xywh or cxcywh, and a unit, pixels (or "") or fraction. It returns nil without a format.
func ParseBoxForm(format, unit string) (*BoxForm, error) {
	f, known := transform.ParseBoxFormat(format)
	switch {
	case format == "" && unit == "":
		return nil, nil
	case !known:
		return nil, &FieldError{fmt.Sprintf("boxes is %q, want one of xyxy, xywh, cxcywh", format)}
	case unit != "" && unit != "pixels" && unit != "fraction":
		return nil, &FieldError{fmt.Sprintf("boxes_unit is %q, want one of pixels, fraction", unit)}
	}
	return &BoxForm{f, unit == "fraction"}, nil
}

// maskIgnored is the label of a mask's pixels for a sample that could not be read: the ignore_index of most programs that segment.
const maskIgnored = 255

// Follow makes the chosen objects and masks follow the images of a transform. boxes is needed if there are objects. It returns a
// [*FieldError] or a [*transform.SpecError] if that is impossible.
func (f *Fields) Follow(views transform.Views, boxes *BoxForm) error {
	f.objects, f.mask = -1, -1
	for k, i := range f.wanted {
		one := &f.objects
		switch f.field(i).Type {
		case shard.Mask:
			one = &f.mask
			f.strides[k] = views[0].OutputBytes() / 3
		case shard.Objects:
		default:
			continue
		}
		if *one >= 0 {
			return &FieldError{fmt.Sprintf("fields %q and %q: at most one of the type %s can follow the image", f.Field(*one).Name,
				f.Field(k).Name, f.Field(k).Type)}
		}
		*one = k
	}
	if f.objects >= 0 && boxes == nil {
		return &FieldError{fmt.Sprintf("field %q holds boxes, which follow the image: ask for their format (boxes=\"xyxy\", "+
			"\"xywh\" or \"cxcywh\")", f.Field(f.objects).Name)}
	}
	if f.objects < 0 && boxes != nil {
		return &FieldError{"boxes are asked for, and the set has none: it needs a field of type objects (imgshard inspect lists " +
			"the fields)"}
	}
	if boxes != nil {
		f.boxes = *boxes
	}
	return views.CheckTargets(f.objects >= 0, f.mask >= 0)
}

// HasTargets reports whether targets are delivered.
func (f *Fields) HasTargets() bool { return f.Len() > 0 && (f.objects >= 0 || f.mask >= 0) }

// A targetMaker moves a sample's targets, for a sampler.
type targetMaker struct {
	transform.Targets
	objects, moved shard.ObjectValue
	masks          mask.Decoder
}

// read reads the targets of a record into what the engine moves.
func (m *targetMaker) read(f *Fields, s *Slot, position int, record *shard.Record, values [][]byte) (err error) {
	m.Format, m.Fraction = f.boxes.Format, f.boxes.Fraction
	m.Boxes, m.Mask = m.Boxes[:0], nil
	if f.objects >= 0 {
		i := f.wanted[f.objects]
		if err = f.schema[i].ReadObjects(values[i], &m.objects); err != nil {
			return fmt.Errorf("field %q: %w", f.schema[i].Name, err)
		}
		m.Boxes = append(m.Boxes, m.objects.Boxes...)
	}
	if f.mask >= 0 {
		i, stride := f.wanted[f.mask], f.strides[f.mask]
		if m.Mask, err = m.masks.Decode(values[i], int(record.Width), int(record.Height)); err != nil {
			return fmt.Errorf("field %q: %w", f.schema[i].Name, err)
		}
		m.MaskTo = s.Fields[f.mask][position*stride:][:stride]
	}
	return nil
}

// before returns the targets of a stored image of this size.
func (m *targetMaker) before(size image.Point) *thumbnail.Overlay {
	return &thumbnail.Overlay{Width: size.X, Height: size.Y, Boxes: m.objects.Boxes, Labels: m.objects.Labels, Mask: m.Mask}
}

// after returns the targets that the engine has moved into a result of width × height pixels.
func (m *targetMaker) after(width, height int) *thumbnail.Overlay {
	o := &thumbnail.Overlay{Width: width, Height: height, Boxes: m.Boxes, Mask: m.MaskTo}
	for _, row := range m.Kept {
		o.Labels = append(o.Labels, m.objects.Labels[row])
	}
	return o
}

// put writes the moved objects to a slot. The engine has written the mask.
func (m *targetMaker) put(f *Fields, s *Slot, position int) {
	if f.objects < 0 {
		return
	}
	field, stride := f.schema[f.wanted[f.objects]], f.strides[f.objects]
	o := &m.moved
	o.Boxes, o.Labels = m.Boxes, o.Labels[:0]
	for len(o.Columns) < len(field.Columns) {
		o.Columns = append(o.Columns, nil)
	}
	for _, row := range m.Kept {
		o.Labels = append(o.Labels, m.objects.Labels[row])
	}
	for c := range field.Columns {
		width := field.Columns[c].Width()
		o.Columns[c] = o.Columns[c][:0]
		for _, row := range m.Kept {
			o.Columns[c] = append(o.Columns[c], m.objects.Columns[c][int(row)*width:][:width]...)
		}
	}
	dst := s.Fields[f.objects][position*stride:][:stride]
	binary.LittleEndian.PutUint32(dst, uint32(len(o.Append(dst[4:4]))))
}

// Values returns the values of a record's fields as they are stored, but masks after their width and height as the labels themselves:
// not every client can read Zstandard.
func Values(fields shard.Fields, record *shard.Record) ([]byte, error) {
	split, err := fields.Split(record.Fields, nil)
	if err != nil {
		return nil, err
	}
	var made []byte
	var masks mask.Decoder
	for i, value := range split {
		switch {
		case fields[i].Numeric():
			made = append(made, value...)
			continue
		case fields[i].Type == shard.Mask:
			labels, err := masks.Decode(value, int(record.Width), int(record.Height))
			if err != nil {
				return nil, fmt.Errorf("field %q: %w", fields[i].Name, err)
			}
			value = append(value[:8:8], labels...)
		}
		made = shard.AppendBytes(made, value)
	}
	return made, nil
}

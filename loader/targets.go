package loader

import (
	"encoding/binary"
	"fmt"
	"image"

	"github.com/imgfeed/imgfeed/internal/image/mask"
	"github.com/imgfeed/imgfeed/internal/image/thumbnail"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/transform"
)

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

package shard

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/imgfeed/imgfeed/internal/image/mask"
)

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

// ReadObjects reads a value into o, whose memory it reuses. Columns are parts of the value. An empty value has no objects: that of a sample
// that could not be read.
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

package loader

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/shard"
)

// someFields are a vector, a text and a number; record is what a sample has of them.
func someFields() (schema shard.Fields, record []byte) {
	schema = shard.Fields{{Name: "attributes", Type: shard.Float32, Size: 40}, {Name: "caption", Type: shard.Text, BytesMax: 21}, {Name: "age", Type: shard.Int64}}
	record = shard.AppendFloats(nil, make([]float32, 40)...)
	return schema, shard.AppendInts(shard.AppendBytes(record, []byte("a caption")), -3)
}

// fieldSlot has room for n samples' values.
func fieldSlot(f *Fields, n int) *Slot {
	s := &Slot{}
	for k := range f.Len() {
		s.Fields = append(s.Fields, make([]byte, n*f.Stride(k)))
	}
	return s
}

func TestFieldsArePut(t *testing.T) {
	schema, record := someFields()
	f, err := NewFields(schema, []string{"age", "caption"})
	testenv.Require(t, err == nil && f.Len() == 2 && f.Stride(0) == 8 && f.Stride(1) == 28 && f.Field(1).Name == "caption",
		"%+v, %v", f, err)
	s := fieldSlot(f, 3)
	values := testenv.Must(schema.Split(record, nil))(t)
	f.put(s, 1, &shard.Record{Fields: record}, values)
	age, caption := s.Fields[0][8:16], s.Fields[1][28:56]
	testenv.Equal(t, int64(binary.LittleEndian.Uint64(age)), -3, "the age")
	testenv.Check(t, binary.LittleEndian.Uint32(caption) == 9 && strings.HasPrefix(string(caption[4:]), "a caption"), "%q", caption)
	_, err = f.values(&shard.Record{Fields: record[:100]})
	testenv.Check(t, err != nil, "half a record is taken")
	floats := testenv.Must(NewFields(schema, []string{"attributes"}))(t)
	s = fieldSlot(floats, 1)
	floats.blank(s, 0)
	x := math.Float32frombits(binary.LittleEndian.Uint32(s.Fields[0][156:]))
	testenv.Check(t, x != x, "a blank sample's last number is %v", x)
	for _, names := range [][]string{{"colour"}, {"age", "age"}} {
		_, err := NewFields(schema, names)
		testenv.Check(t, err != nil, "%v are chosen", names)
	}
}

// BenchmarkFieldsPut writes a vector of 40 numbers, a text and a number.
func BenchmarkFieldsPut(b *testing.B) {
	schema, record := someFields()
	f, err := NewFields(schema, []string{"attributes", "caption", "age"})
	testenv.OK(b, err)
	s, values := fieldSlot(f, 256), make([][]byte, 0, 3)
	b.ReportAllocs()
	for i := range b.N {
		if values, err = schema.Split(record, values[:0]); err != nil {
			b.Fatal(err)
		}
		f.put(s, i%256, &shard.Record{Fields: record}, values)
	}
}

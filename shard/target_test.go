package shard

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/image/mask"
	"github.com/imgfeed/imgfeed/internal/testenv"
)

// targetFields has both types of targets.
var targetFields = Fields{
	{Name: "image_id", Type: Int64},
	{Name: "objects", Type: Objects, Classes: []string{"cat", "dog"}, Ids: []int64{1, 90}, Columns: []Column{{"iscrowd", Int64}, {"area", Float32}}},
	{Name: "mask", Type: Mask, Classes: []string{"background", "pet"}},
}

// targetValues makes values of targetFields: n objects, and a mask of w × h pixels.
func targetValues(n, w, h int) []byte {
	o := ObjectValue{Columns: make([][]byte, 2)}
	for i := range n {
		at := float32(i)
		o.Boxes = append(o.Boxes, at, at+0.5, at+1, at+2)
		o.Labels = append(o.Labels, int64(i%2))
		o.Columns[0] = AppendInts(o.Columns[0], int64(i%2))
		o.Columns[1] = AppendFloats(o.Columns[1], at*1.5)
	}
	labels := make([]byte, w*h)
	for i := range labels {
		labels[i] = byte(i / 3 % 2)
	}
	values := AppendBytes(AppendInts(nil, int64(n)), o.Append(nil))
	return AppendBytes(values, mask.Append(nil, w, h, labels))
}

func TestTargetsRoundTrip(t *testing.T) {
	samples, options := makeSamples(5), testOptions(2)
	options.Fields = targetFields
	for i := range samples {
		samples[i].Fields = targetValues(i, 4, 3)
	}
	s := openSet(t, writeSet(t, samples, options))
	m := s.Manifest()
	if m.Version != version3 || !m.Fields.Equal(targetFields) || !slices.Equal(m.Fields[1].Ids, []int64{1, 90}) {
		t.Errorf("version %d, fields %+v", m.Version, m.Fields)
	}
	var o ObjectValue
	var buf []byte
	for i := range samples {
		var err error
		if buf, err = compareSample(s, i, &samples[i], buf); err != nil {
			t.Error(err)
		}
		values := testenv.Must(m.Fields.Split(samples[i].Fields, nil))(t)
		if err := m.Fields[1].ReadObjects(values[1], &o); err != nil || len(o.Labels) != i || len(o.Boxes) != 4*i {
			t.Fatalf("sample %d: %+v, %v", i, o, err)
		}
		if i == 4 && (o.Labels[3] != 1 || o.Boxes[15] != 5 || math.Float32frombits(binary.LittleEndian.Uint32(o.Columns[1][12:])) != 4.5) {
			t.Errorf("%+v", o)
		}
		if got := o.Append(nil); string(got) != string(values[1]) {
			t.Errorf("sample %d is written differently: % x, % x", i, got, values[1])
		}
	}
	values, _ := m.Fields.Split(targetValues(1, 2, 1), nil)
	if got := string(m.Fields[1].JSON(values[1])); got != `{"area":[0],"boxes":[[0,0.5,1,2]],"iscrowd":[0],"labels":[0]}` {
		t.Error(got)
	}
	if got := string(m.Fields[2].JSON(values[2])); got != `{"height":1,"width":2}` {
		t.Error(got)
	}
}

func TestWriterRefusesDamagedTargets(t *testing.T) {
	good := targetValues(2, 4, 3)
	damaged := func(change func(v []byte)) []byte {
		v := slices.Clone(good)
		change(v)
		return v
	}
	for name, values := range map[string][]byte{
		"another number of objects": damaged(func(v []byte) { v[12] = 1 }),
		"a label that no class has": damaged(func(v []byte) { v[12+4+32] = 2 }),
		"a negative label":          damaged(func(v []byte) { v[12+4+32+7] = 0x80 }),
		"a mask without pixels":     damaged(func(v []byte) { clear(v[8+4+4+2*36+4:][:4]) }),
	} {
		options := testOptions(1)
		options.Fields = targetFields
		w := testenv.Must(NewSetWriter(filepath.Join(t.TempDir(), "x"), options))(t)
		sample := makeSamples(1)[0]
		sample.Fields = values
		if err := w.Append(sample); err == nil || !strings.Contains(err.Error(), "field") {
			t.Errorf("%s: %v", name, err)
		}
		w.Abort()
	}
}

// targetSet writes samples with objects and masks as a set of one shard, and returns its folder.
func targetSet(t testing.TB) string {
	samples, options := makeSamples(4), testOptions(1)
	options.Fields = targetFields
	for i := range samples {
		samples[i].Fields = targetValues(i, 4, 3)
	}
	return writeSet(t, samples, options)
}

// FuzzTargets reads any bytes as the fields of a sample, with the memory that another sample's were read into. Nothing of those shows.
func FuzzTargets(f *testing.F) {
	for n := range 3 {
		f.Add(targetValues(n, 4, 3))
	}
	f.Add(AppendBytes(AppendBytes(AppendInts(nil, 1), nil), nil)) // neither objects nor a mask
	fields := targetFields.bounded(RecordBytesMax)
	other, err := fields.Split(targetValues(7, 4, 3), nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, values []byte) {
		split, err := fields.Split(values, nil)
		if err != nil {
			return
		}
		var used, fresh ObjectValue
		var usedMask, freshMask mask.Decoder
		_, maskErr := usedMask.Decode(other[2], 4, 3)
		testenv.OK(t, errors.Join(fields[1].ReadObjects(other[1], &used), maskErr))
		usedErr, freshErr := fields[1].ReadObjects(split[1], &used), fields[1].ReadObjects(split[1], &fresh)
		if (usedErr == nil) != (freshErr == nil) || freshErr == nil && !bytes.Equal(used.Append(nil), fresh.Append(nil)) {
			t.Errorf("objects %v (%v), and in new memory %v (%v)", used, usedErr, fresh, freshErr)
		}
		labels, usedErr := usedMask.Decode(split[2], 4, 3)
		want, err := freshMask.Decode(split[2], 4, 3)
		if (usedErr == nil) != (err == nil) || !bytes.Equal(labels, want) {
			t.Errorf("labels %v (%v), and in new memory %v (%v)", labels, usedErr, want, err)
		}
		if _, err := fields.checkValues(values); err == nil && freshErr != nil {
			t.Errorf("a writer takes objects that no reader does: %v", freshErr)
		}
		for i := range fields {
			if text := fields[i].JSON(split[i]); !json.Valid(text) {
				t.Errorf("%s is not JSON", text)
			}
		}
	})
}

// FuzzObjects reads any bytes as objects. Objects are written as they were read.
func FuzzObjects(f *testing.F) {
	for n := range 3 {
		values, _ := targetFields.bounded(RecordBytesMax).Split(targetValues(n, 2, 2), nil)
		f.Add(values[1])
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		var o ObjectValue
		if targetFields[1].ReadObjects(value, &o) == nil && len(value) > 0 && string(o.Append(nil)) != string(value) {
			t.Errorf("% x", value)
		}
	})
}

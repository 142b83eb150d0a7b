package shard

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/crc32c"
	"github.com/imgfeed/imgfeed/internal/image/mask"
	"github.com/imgfeed/imgfeed/internal/testenv"
)

// testFields has a field of each type.
var testFields = Fields{
	{Name: "score", Type: Float32}, {Name: "caption", Type: Text}, {Name: "ids", Type: Int64, Size: 3}, {Name: "meta.v1", Type: JSON},
	{Name: "mask", Type: Bytes}, {Name: "attributes", Type: Float32, Size: 5}, {Name: "age", Type: Int64},
}

// withFields gives each sample values of testFields, and returns the longest of each, in bytes.
func withFields(samples []Sample) (longest [7]int) {
	rng := rand.New(rand.NewPCG(5, 6))
	for i := range samples {
		caption, mask := []byte(strings.Repeat("ü", rng.IntN(9))), randomBytes(rng, rng.IntN(20))
		meta := fmt.Appendf(nil, `{"i":%d}`, i)
		v := AppendFloats(nil, float32(i))
		v = AppendInts(AppendBytes(v, caption), 1, -2, int64(i))
		v = AppendBytes(AppendBytes(v, meta), mask)
		samples[i].Fields = AppendInts(AppendFloats(v, 1, 0, 1, 0, float32(i)/2), rng.Int64())
		longest[1], longest[3], longest[4] = max(longest[1], len(caption)), max(longest[3], len(meta)), max(longest[4], len(mask))
	}
	return longest
}

func TestFieldsRoundTrip(t *testing.T) {
	for _, partitions := range []int{1, 3} {
		samples, options := makeSamples(17), testOptions(partitions)
		longest := withFields(samples)
		options.Fields = testFields
		dir := writeSet(t, samples, options)
		s := openSet(t, dir)
		m := s.Manifest()
		testenv.Check(t, m.Version == version2 && m.Fields.Equal(testFields), "version %d, fields %v", m.Version, m.Fields)
		for i, f := range m.Fields {
			testenv.Equal(t, f.BytesMax, longest[i], "%v: bytes of the longest value", f)
		}
		testenv.OK(t, s.Map())
		sameSamples(t, s, samples)
		for i := range samples {
			view, err := s.View(i)
			testenv.Check(t, err == nil && bytes.Equal(view.Fields, samples[i].Fields) && bytes.Equal(view.Aux, samples[i].Aux),
				"view of sample %d: %+v, %v", i, view, err)
			values, err := m.Fields.Split(view.Fields, nil)
			if err != nil || len(values) != 7 || string(values[3]) != fmt.Sprintf(`{"i":%d}`, i) || int64(binary.LittleEndian.Uint64(values[2][16:])) != int64(i) {
				t.Errorf("values of sample %d: %q, %v", i, values, err)
			}
		}
		verified(t, dir, len(samples))
	}
}

func TestSplitRefusesWhatContradictsTheSchema(t *testing.T) {
	samples := makeSamples(1)
	withFields(samples)
	good := samples[0].Fields
	bounded := testFields.bounded(RecordBytesMax)
	for n := range good {
		testenv.Fails(bounded.Split(good[:n], nil))(t, nil, "%d of %d bytes are taken", n, len(good))
	}
	testenv.Fails(bounded.Split(append(bytes.Clone(good), 0), nil))(t, "1 bytes after")
	long := bytes.Clone(good)
	binary.LittleEndian.PutUint32(long[4:], 1<<32-1)
	testenv.Fails(bounded.Split(long, nil))(t, `"caption" has 4294967295 bytes`)
	bounded[1].BytesMax = 3
	binary.LittleEndian.PutUint32(long[4:], 4)
	testenv.Fails(bounded.Split(long, nil))(t, "at most 3 are expected")
	if n := testing.AllocsPerRun(100, func() {
		var room [7][]byte
		_, err := testFields.Split(nil, room[:0])
		testenv.Check(t, err != nil, "nothing is taken")
	}); n > 4 { // those of the error
		t.Errorf("%v allocations", n)
	}
}

func TestImpossibleFields(t *testing.T) {
	many := make(Fields, fieldsMax+1)
	for i := range many {
		many[i] = Field{Name: fmt.Sprint("f", i), Type: Int64}
	}
	for name, fields := range map[string]Fields{
		"no name":           {{Type: Int64}},
		"a name with a tab": {{Name: "a\tb", Type: Int64}},
		"a long name":       {{Name: strings.Repeat("n", fieldNameBytesMax+1), Type: Int64}},
		"twice":             {{Name: "a", Type: Int64}, {Name: "a", Type: Text}},
		"no type":           {{Name: "a"}},
		"an unknown type":   {{Name: "a", Type: "float64"}},
		"a vector of texts": {{Name: "a", Type: Text, Size: 3}},
		"a negative vector": {{Name: "a", Type: Float32, Size: -1}},
		"a long vector":     {{Name: "a", Type: Float32, Size: FieldSizeMax + 1}},
		"a negative length": {{Name: "a", Type: Bytes, BytesMax: -1}},
		"a great length":    {{Name: "a", Type: Bytes, BytesMax: RecordBytesMax + 1}},
		"a measured number": {{Name: "a", Type: Int64, BytesMax: 8}},
		"too many":          many,
		"ids of nothing":    {{Name: "a", Type: Objects, Ids: []int64{1}}},
		"classes of text":   {{Name: "a", Type: Text, Classes: []string{"cat"}}},
		"a mask of columns": {{Name: "a", Type: Mask, Columns: []Column{{Name: "area", Type: Float32}}}},
		"a column of text":  {{Name: "a", Type: Objects, Columns: []Column{{Name: "area", Type: Text}}}},
		"a column twice":    {{Name: "a", Type: Objects, Columns: []Column{{Name: "area", Type: Int64}, {Name: "area", Type: Int64}}}},
		"a column of boxes": {{Name: "a", Type: Objects, Columns: []Column{{Name: "boxes", Type: Int64}}}},
	} {
		options := testOptions(1)
		options.Fields = fields
		testenv.Fails(NewSetWriter(filepath.Join(t.TempDir(), "x"), options))(t, nil, "%s: a set is begun", name)
		m := Manifest{Format: manifestFormat, Version: version3, Fingerprint: strings.Repeat("0", 64), Encoding: Encoding{Name: "jpeg"}, Partitions: 1, Fields: fields}
		testenv.Fails(decodeManifest("manifest.json", testenv.Must(m.encode())(t)))(t, isCorrupt, "%s", name)
	}
}

// TestHostileFields opens a manifest with a great number of fields: the list ends where no writer goes on.
func TestHostileFields(t *testing.T) {
	text := []byte(`[` + strings.TrimSuffix(strings.Repeat(`{},`, 1<<20), ",") + `]`)
	var fields Fields
	err := fields.UnmarshalJSON(text)
	testenv.Check(t, err != nil && len(fields) <= fieldsMax+1, "%d fields, %v", len(fields), err)
	for _, text := range []string{`{}`, `7`, `"x"`, `[7]`, `[{"name":[]}]`} {
		testenv.Check(t, fields.UnmarshalJSON([]byte(text)) != nil, "%s is taken", text)
	}
}

func TestAppendRefusesWrongValues(t *testing.T) {
	options := testOptions(1)
	options.Fields = Fields{{Name: "caption", Type: Text}, {Name: "meta", Type: JSON}}
	w := testenv.Must(NewSetWriter(filepath.Join(t.TempDir(), "x"), options))(t)
	defer w.Abort()
	s := makeSamples(1)[0]
	for want, values := range map[string][]byte{
		"is not UTF-8":                  AppendBytes(AppendBytes(nil, []byte("\xff")), []byte("1")),
		"is not JSON":                   AppendBytes(AppendBytes(nil, []byte("a")), []byte("{")),
		"begins 0 bytes before the end": AppendBytes(nil, []byte("a")),
		"bytes after the values":        append(AppendBytes(AppendBytes(nil, nil), []byte("1")), 0),
	} {
		s.Fields = values
		err := w.Append(s)
		testenv.Says(t, s.Key, err, want)
		testenv.Says(t, s.Key, err, s.Key)
	}
	s.Fields = AppendBytes(AppendBytes(nil, []byte("ok")), []byte("[]"))
	testenv.OK(t, w.Append(s)) // the set is as it was
}

// TestForgedFields verifies records whose fields are none, though every checksum is right.
func TestForgedFields(t *testing.T) {
	samples, options := makeSamples(3), testOptions(1)
	options.Fields = Fields{{Name: "caption", Type: Text}}
	for i := range samples {
		samples[i].Fields = AppendBytes(nil, []byte("caption"))
	}
	dir := writeSet(t, samples, options)
	path := filepath.Join(dir, "rank-0000/00000.imgshard")
	p := testenv.Must(os.ReadFile(path))(t)
	f := parseFooter(p[len(p)-footerSize:])
	at := f.EntriesOffset + entrySize
	e := parseEntry(p[at:])
	record := p[e.Offset : e.Offset+e.length()]
	record[len(record)-11] = 8 // of 7 bytes
	e.Checksum = crc32c.Checksum(record)
	testenv.Must(binary.Encode(p[at:], binary.LittleEndian, &e))(t)
	resign(p, &f)
	testenv.OK(t, os.WriteFile(path, p, 0o666))
	m := testenv.Must(ReadManifest(dir))(t)
	m.Shards[0].Footer = fmt.Sprintf("%08x", f.CRC)
	writeManifest(t, dir, m)
	problems := 0
	_, err := Verify(context.Background(), dir, VerifyOptions{Problem: func(err error) {
		problems++
		testenv.As[*CorruptError](t, err, `record 1 (sample 1)`, `field "caption"`)
	}})
	testenv.Check(t, err == nil && problems == 1, "%d problems, %v", problems, err)
}

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

// targetSamples makes samples with objects and masks.
func targetSamples(n, partitions int) ([]Sample, SetOptions) {
	samples, options := makeSamples(n), testOptions(partitions)
	options.Fields = targetFields
	for i := range samples {
		samples[i].Fields = targetValues(i, 4, 3)
	}
	return samples, options
}

func TestTargetsRoundTrip(t *testing.T) {
	samples, options := targetSamples(5, 2)
	s := openSet(t, writeSet(t, samples, options))
	m := s.Manifest()
	testenv.Check(t, m.Version == version3 && m.Fields.Equal(targetFields) && slices.Equal(m.Fields[1].Ids, []int64{1, 90}),
		"version %d, fields %+v", m.Version, m.Fields)
	var o ObjectValue
	sameSamples(t, s, samples)
	for i := range samples {
		values := testenv.Must(m.Fields.Split(samples[i].Fields, nil))(t)
		err := m.Fields[1].ReadObjects(values[1], &o)
		testenv.Require(t, err == nil && len(o.Labels) == i && len(o.Boxes) == 4*i, "sample %d: %+v, %v", i, o, err)
		if i == 4 && (o.Labels[3] != 1 || o.Boxes[15] != 5 || math.Float32frombits(binary.LittleEndian.Uint32(o.Columns[1][12:])) != 4.5) {
			t.Errorf("%+v", o)
		}
		testenv.Same(t, o.Append(nil), values[1], "sample %d as it is written again", i)
	}
	values, _ := m.Fields.Split(targetValues(1, 2, 1), nil)
	testenv.Equal(t, string(m.Fields[1].JSON(values[1])), `{"area":[0],"boxes":[[0,0.5,1,2]],"iscrowd":[0],"labels":[0]}`, "objects")
	testenv.Equal(t, string(m.Fields[2].JSON(values[2])), `{"height":1,"width":2}`, "mask")
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
		testenv.Says(t, name, w.Append(sample), "field")
		w.Abort()
	}
}

// targetSet writes samples with objects and masks as a set of one shard, and returns its folder.
func targetSet(t testing.TB) string {
	samples, options := targetSamples(4, 1)
	return writeSet(t, samples, options)
}

// FuzzTargets reads any bytes as the fields of a sample, with the memory that another sample's were read into. Nothing of those shows.
func FuzzTargets(f *testing.F) {
	for n := range 3 {
		f.Add(targetValues(n, 4, 3))
	}
	f.Add(AppendBytes(AppendBytes(AppendInts(nil, 1), nil), nil)) // neither objects nor a mask
	fields := targetFields.bounded(RecordBytesMax)
	other := testenv.Must(fields.Split(targetValues(7, 4, 3), nil))(f)
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
		testenv.Check(t, (usedErr == nil) == (freshErr == nil) && (freshErr != nil || bytes.Equal(used.Append(nil), fresh.Append(nil))),
			"objects %v (%v), and in new memory %v (%v)", used, usedErr, fresh, freshErr)
		labels, usedErr := usedMask.Decode(split[2], 4, 3)
		want, err := freshMask.Decode(split[2], 4, 3)
		testenv.Check(t, (usedErr == nil) == (err == nil) && bytes.Equal(labels, want),
			"labels %v (%v), and in new memory %v (%v)", labels, usedErr, want, err)
		_, err = fields.checkValues(values)
		testenv.Check(t, err != nil || freshErr == nil, "a writer takes objects that no reader does: %v", freshErr)
		for i := range fields {
			text := fields[i].JSON(split[i])
			testenv.Check(t, json.Valid(text), "%s is not JSON", text)
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
		testenv.Check(t, targetFields[1].ReadObjects(value, &o) != nil || len(value) == 0 || string(o.Append(nil)) == string(value), "% x", value)
	})
}

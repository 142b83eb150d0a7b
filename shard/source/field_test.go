package source

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/sourcetest"
	"github.com/imgfeed/imgfeed/shard/source/transport"
)

// asked are the fields of flags.
func asked(t testing.TB, flags ...string) (fields []dataset.Field) {
	t.Helper()
	for _, text := range flags {
		fields = append(fields, testenv.Must(dataset.ParseField(text))(t))
	}
	return fields
}

// fieldsOf walks over a split and returns the values of each key's fields as JSON has them, numbers as float64.
func fieldsOf(s *dataset.Split) (map[string]map[string]any, error) {
	got := make(map[string]map[string]any)
	schema := s.Fields()
	for i := range schema {
		if !schema[i].Numeric() {
			schema[i].BytesMax = shard.RecordBytesMax
		}
	}
	encoded := make(map[string][]byte)
	err := s.Walk(context.Background(), func(it transport.Item) error {
		if it.Reason == "" {
			encoded[it.Key] = bytes.Clone(it.Fields)
		}
		return nil
	})
	for key, values := range encoded {
		if err == nil && !s.Streamed() {
			values, err = s.AppendFields(nil, key, nil)
		}
		if err != nil {
			break
		}
		split, splitErr := schema.Split(values, nil)
		if splitErr != nil {
			return nil, splitErr
		}
		got[key] = make(map[string]any)
		for i, v := range split {
			got[key][schema[i].Name] = shownValue(schema[i], v)
		}
	}
	return got, err
}

func shownValue(f shard.Field, v []byte) any {
	var numbers []any
	switch f.Type {
	case shard.JSON:
		var value any
		json.Unmarshal(v, &value)
		return value
	case shard.Int64:
		for ; len(v) > 0; v = v[8:] {
			numbers = append(numbers, float64(int64(binary.LittleEndian.Uint64(v))))
		}
	case shard.Float32:
		for ; len(v) > 0; v = v[4:] {
			numbers = append(numbers, float64(math.Float32frombits(binary.LittleEndian.Uint32(v))))
		}
	default:
		return string(v)
	}
	if f.Size == 0 {
		return numbers[0]
	}
	return numbers
}

// fieldsRefused checks that reading fields of a source fails with an error that has each of some texts.
func fieldsRefused(t *testing.T, path string, opts dataset.Options, texts ...string) {
	t.Helper()
	splits, err := Open(path, opts)
	if err == nil {
		_, err = fieldsOf(splits[0])
	}
	for _, text := range texts {
		testenv.Says(t, opts.Fields, err, text)
	}
}

// picked are the values of some fields, as fieldsOf gives them: multi-hot and truth as numbers.
func picked(row map[string]any, names ...string) map[string]any {
	out := make(map[string]any)
	for _, name := range names {
		switch v := row[name].(type) {
		case bool:
			out[name] = 0.0
			if v {
				out[name] = 1.0
			}
		default:
			out[name] = v
		}
		if name == "tags" {
			hot := make([]any, 20)
			for i := range hot {
				hot[i] = 0.0
			}
			for _, one := range row[name].([]any) {
				hot[int(one.(float64))] = 1.0
			}
			out[name] = hot
		}
	}
	return out
}

// TestFieldsOfPython compares the fields of parquet files and lists with what Python wrote.
func TestFieldsOfPython(t *testing.T) {
	dir := t.TempDir()
	var said map[string]map[string]any // the values that Python wrote, by row
	fromPython(t, "pyarrow", "fields.py", &said, dir)
	for name, tc := range map[string]struct {
		fields []string
		names  []string
	}{
		"one.parquet":    {[]string{"score=score", "double=double", "age=age", "small=small", "ok=ok", "caption=caption", "mask=mask"}, []string{"score", "double", "age", "small", "ok", "caption", "mask"}},
		"pages.parquet":  {[]string{"tags=tags:multihot[20]", "box=box:float32[4]", "caption=caption:text", "emb=emb:float32[3]", "words=words:json"}, []string{"tags", "box", "caption", "emb", "words"}},
		"second.parquet": {[]string{"words=words:json", "box=box:json", "age=age:float32", "tags=tags:multihot[20]", "ok=ok:float32"}, []string{"words", "box", "age", "tags", "ok"}},
		"list.csv":       {[]string{"score=score:float32", "caption=caption", "tags=5:multihot[20]", "age=age:int64"}, []string{"score", "caption", "tags", "age"}},
		"list.jsonl":     {[]string{"score=json.score:float32", "caption=caption:text", "tags=tags:multihot[20]", "meta=meta", "box=box:float32[4]"}, []string{"score", "caption", "tags", "meta", "box"}},
	} {
		got := testenv.Must(fieldsOf(open(t, filepath.Join(dir, name), dataset.Options{Fields: asked(t, tc.fields...)})))(t)
		want := 6
		if path.Ext(name) == ".parquet" {
			want = len(said)
		}
		testenv.Equal(t, len(got), want, "%s: number of samples", name)
		for key, values := range got {
			row := strings.TrimSuffix(path.Base(key), ".jpg")
			testenv.DeepEqual(t, values, picked(said[fmt.Sprintf("%05s", row)], tc.names...), "%s: %s", name, key)
		}
	}
	for flag, want := range map[string]string{
		"x=tags":              "to say the type of the field, add --field x=tags:TYPE",
		"x=meta":              "no single column \"meta\": name one (meta.author, meta.stars.list.element)",
		"x=color":             "no single column \"color\"",
		"x=score:int64":       `entry "row 1": field "x": 0.25 is not a whole number`,
		"x=caption:int64":     "has no numbers",
		"x=box:float32[3]":    "has 4 numbers, and float32[3] is wanted",
		"x=tags:multihot[19]": "the position 19 is not from 0 to 18",
		"x=words:text":        "has lists, and text is wanted",
		"x=caption:json":      "is not JSON",
	} {
		fieldsRefused(t, filepath.Join(dir, "one.parquet"), dataset.Options{Fields: asked(t, flag)}, want, `one.parquet`, `field "x"`)
	}
}

// fieldTar is a tar of two samples of WebDataset with values in JSON, text and a mask.
func fieldTar(t testing.TB, meta string) string {
	data := webDatasetTar(t, "a.json", `{"label": 1, "score": 0.5, "tags": [0, 2], "deep": {"er": "x"}}`, "a.jpg", jpegStart, "a.txt", "one\n", "a.mask.png", "PNG",
		"b.mask.png", "", "b.jpg", jpegStart, "b.json", meta, "b.txt", "two")
	return sourcetest.Write(t, filepath.Join(t.TempDir(), "x-train-0.tar"), data)
}

func TestFieldsOfWebDataset(t *testing.T) {
	file := fieldTar(t, `{"label": 0, "score": -2, "tags": [], "deep": {"er": "y"}}`)
	s := open(t, file, dataset.Options{Label: "json.label", Fields: asked(t, "score=json.score:float32", "tags=json.tags:multihot[3]", "caption=txt", "mask=mask.png:bytes", "er=json.deep.er:text")})
	want := map[string]map[string]any{
		"a": {"score": 0.5, "tags": []any{1.0, 0.0, 1.0}, "caption": "one", "mask": "PNG", "er": "x"},
		"b": {"score": -2.0, "tags": []any{0.0, 0.0, 0.0}, "caption": "two", "mask": "", "er": "y"},
	}
	testenv.DeepEqual(t, testenv.Must(fieldsOf(s))(t), want, "fields")
	testenv.Equal(t, mustItems(t, s)["a"].label, 1, "label")
}

func TestFieldsThatAreNotThere(t *testing.T) {
	for _, tc := range []struct{ meta, flag, want string }{
		{`{"label": 0}`, "x=json.score:float32", "no key score"},
		{`{"label": 0, "score": null}`, "x=json.score:float32", `"null" is not a number, and float32 is wanted`},
		{`{"label": 0, "score": "5"}`, "x=json.score:float32", `is not a number, and float32 is wanted`},
		{`{"label": 0, "score": 1}`, "x=json.score:int64", "0.5 is not a whole number"},
		{`{"label": 0, "score": 1}`, "x=json.score:text", "is 0.5, and text is wanted"},
		{`{"label": 0, "tags": 7}`, "x=json.tags:multihot[9]", "is 7, and multihot[9] is wanted"},
		{`{"label": 0, "tags": ["1,2"]}`, "x=json.tags:int64[2]", `"\"1" is not a number`},
		{`{"label": 0, "tags": [9]}`, "x=json.tags:multihot[9]", "the position 9 is not from 0 to 8"},
		{`{"label": 0, "score": 1e300}`, "x=json.score:float32", "too large for float32"},
		{`{"label": 0, "score": 16777217}`, "x=json.score:float32", "is not exact in float32"},
		{`{"label": 0}`, "x=vec:float32", "no .vec beside the image"},
		{`{"label": 0}`, "x=txt:int64", `"one" is not a number`},
		{`{"label": 0}`, "x=mask.png", "add --field x=mask.png:TYPE"}, // the type is wanted
	} {
		fieldsRefused(t, fieldTar(t, tc.meta), dataset.Options{Label: "json.label", Fields: asked(t, tc.flag)}, tc.want, `field "x"`)
	}
	for _, name := range []string{"x-train-0.tar", "cifar"} {
		file := sourcetest.Write(t, filepath.Join(t.TempDir(), name), sourcetest.TarOfTree(t, tree(), "train/", 1))
		testenv.Fails(Open(file, dataset.Options{Fields: asked(t, "x=txt")}))(t, "which has no fields")
	}
}

func TestFieldsOfLists(t *testing.T) {
	for _, tc := range []struct{ file, text, flag, want string }{
		{"x.csv", "path,label\na.jpg,1\n", "x=color", `no column "color" among the 2 (path, label)`},
		{"x.csv", "path,label,x\na.jpg,1,7\n", "x=4", `no column "4"`},
		{"x.csv", "path,label,age\na.jpg,1,3\nsub/b.jpg,1,\n", "x=age:int64", `line 3: field "x": has no value`},
		{"x.csv", "path,label,age\na.jpg,1,old\n", "x=age:int64", `line 2: field "x": "old" is not a number`},
		{"x.jsonl", `{"path": "a.jpg", "label": 1}`, "x=age", `line 1: field "x": the JSON has no key age`},
		{"x.csv", "path,label,age\na.jpg,1,3 4\n", "x=age:int64", `"3 4" is not a number`}, // two for one
	} {
		fieldsRefused(t, listOf(t, tc.file, tc.text), dataset.Options{Fields: asked(t, tc.flag)}, tc.want, tc.file)
	}
	// A column that is a field is not taken for the labels.
	s := open(t, listOf(t, "x.csv", "path,age,label\na.jpg,30,1\nc.jpg,40,0\n"), dataset.Options{Fields: asked(t, "age=age:int64", "ages=age:int64[1]")})
	testenv.DeepEqual(t, testenv.Must(fieldsOf(s))(t)["c.jpg"], map[string]any{"age": 40.0, "ages": []any{40.0}}, "fields")
	labelled(t, s, "a.jpg=1 c.jpg=0", "0 1")
}

func TestParseField(t *testing.T) {
	for text, want := range map[string]dataset.Field{
		"score=json.score:float32":   {Field: shard.Field{Name: "score", Type: shard.Float32}, Source: "json.score"},
		"a=a:int64[3]":               {Field: shard.Field{Name: "a", Type: shard.Int64, Size: 3}, Source: "a"},
		"tags=x:y:multihot[1000]":    {Field: shard.Field{Name: "tags", Type: shard.Float32, Size: 1000}, Source: "x:y", Multihot: true},
		"caption=txt":                {Field: shard.Field{Name: "caption"}, Source: "txt"},
		"m=mask.png:bytes":           {Field: shard.Field{Name: "m", Type: shard.Bytes}, Source: "mask.png"},
		"my_field-1.x=a column:json": {Field: shard.Field{Name: "my_field-1.x", Type: shard.JSON}, Source: "a column"},
	} {
		testenv.DeepEqual(t, testenv.Must(dataset.ParseField(text))(t), want, "%s", text)
	}
	for _, text := range []string{"", "a", "a=", "=b", "a=b:", "a=b:float64", "a=b:float32[", "a=b:float32[]", "a=b:float32[0]", "a=b:float32[-1]", "a=b:float32[65537]",
		"a=b:multihot", "a=b:text[3]", "a=:text", "a b=c", "ä=c", "a=b:int64]", strings.Repeat("a", 65) + "=b"} {
		f, err := dataset.ParseField(text)
		testenv.Check(t, err != nil, "%q is taken: %+v", text, f)
	}
}

// TestFieldsOfTarWithHostileMembers reads members that are no files.
func TestFieldsOfTarWithHostileMembers(t *testing.T) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range []tar.Header{{Name: "a.jpg", Size: 4}, {Name: "a.cls", Size: 1}, {Name: "a.json", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}} {
		h.Mode = 0o644
		testenv.OK(t, w.WriteHeader(&h))
		w.Write([]byte("0000")[:h.Size])
	}
	w.Close()
	file := sourcetest.Write(t, filepath.Join(t.TempDir(), "x.tar"), b.Bytes())
	testenv.Fails(fieldsOf(open(t, file, dataset.Options{Fields: asked(t, "x=json")})))(t, "regular files")
}

package source

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os/exec"
	"path"
	"path/filepath"
	"reflect"
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
		f := testenv.Must(dataset.ParseField(text))(t)
		fields = append(fields, f)
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

// written are the values that Python wrote, by row.
func written(t *testing.T, dir string) map[string]map[string]any {
	t.Helper()
	python := testenv.PythonWith(t, "pyarrow")
	out := testenv.Must(exec.Command(python, "testdata/fields.py", dir).Output())(t)
	var said map[string]map[string]any
	testenv.OK(t, json.Unmarshal(out, &said))
	return said
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
	said := written(t, dir)
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
		s := open(t, filepath.Join(dir, name), dataset.Options{Fields: asked(t, tc.fields...)})
		got, err := fieldsOf(s)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if want := 6; len(got) != want && path.Ext(name) != ".parquet" || path.Ext(name) == ".parquet" && len(got) != len(said) {
			t.Errorf("%s: %d samples", name, len(got))
		}
		for key, values := range got {
			row := strings.TrimSuffix(path.Base(key), ".jpg")
			if want := picked(said[fmt.Sprintf("%05s", row)], tc.names...); !reflect.DeepEqual(values, want) {
				t.Errorf("%s: %s: %v, want %v", name, key, values, want)
			}
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
		splits, err := Open(filepath.Join(dir, "one.parquet"), dataset.Options{Fields: asked(t, flag)})
		if err == nil {
			_, err = fieldsOf(splits[0])
		}
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `one.parquet`) || !strings.Contains(err.Error(), `field "x"`) {
			t.Errorf("%s: %v, want %q", flag, err, want)
		}
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
	got, err := fieldsOf(s)
	want := map[string]map[string]any{
		"a": {"score": 0.5, "tags": []any{1.0, 0.0, 1.0}, "caption": "one", "mask": "PNG", "er": "x"},
		"b": {"score": -2.0, "tags": []any{0.0, 0.0, 0.0}, "caption": "two", "mask": "", "er": "y"},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	if label := mustItems(t, s)["a"].label; label != 1 {
		t.Errorf("label %d", label)
	}
}

func TestFieldsThatAreNotThere(t *testing.T) {
	for name, tc := range map[string]struct{ meta, flag, want string }{
		"no key":             {`{"label": 0}`, "x=json.score:float32", "no key score"},
		"null":               {`{"label": 0, "score": null}`, "x=json.score:float32", `"null" is not a number, and float32 is wanted`},
		"a text":             {`{"label": 0, "score": "5"}`, "x=json.score:float32", `is not a number, and float32 is wanted`},
		"a fraction":         {`{"label": 0, "score": 1}`, "x=json.score:int64", "0.5 is not a whole number"},
		"a number":           {`{"label": 0, "score": 1}`, "x=json.score:text", "is 0.5, and text is wanted"},
		"no list":            {`{"label": 0, "tags": 7}`, "x=json.tags:multihot[9]", "is 7, and multihot[9] is wanted"},
		"a list of texts":    {`{"label": 0, "tags": ["1,2"]}`, "x=json.tags:int64[2]", `"\"1" is not a number`},
		"too far":            {`{"label": 0, "tags": [9]}`, "x=json.tags:multihot[9]", "the position 9 is not from 0 to 8"},
		"too large":          {`{"label": 0, "score": 1e300}`, "x=json.score:float32", "too large for float32"},
		"no exact float":     {`{"label": 0, "score": 16777217}`, "x=json.score:float32", "is not exact in float32"},
		"no such member":     {`{"label": 0}`, "x=vec:float32", "no .vec beside the image"},
		"text, no number":    {`{"label": 0}`, "x=txt:int64", `"one" is not a number`},
		"the type is wanted": {`{"label": 0}`, "x=mask.png", "add --field x=mask.png:TYPE"},
	} {
		file := fieldTar(t, tc.meta)
		splits, err := Open(file, dataset.Options{Label: "json.label", Fields: asked(t, tc.flag)})
		if err == nil {
			_, err = fieldsOf(splits[0])
		}
		if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), `field "x"`) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
	for name, flag := range map[string]string{"x-train-0.tar": "x=txt", "cifar": "x=txt"} {
		dir := t.TempDir()
		file := sourcetest.Write(t, filepath.Join(dir, name), sourcetest.TarOfTree(t, tree(), "train/", 1))
		if _, err := Open(file, dataset.Options{Fields: asked(t, flag)}); err == nil || !strings.Contains(err.Error(), "which has no fields") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFieldsOfLists(t *testing.T) {
	for name, tc := range map[string]struct{ file, text, flag, want string }{
		"no such column": {"x.csv", "path,label\na.jpg,1\n", "x=color", `no column "color" among the 2 (path, label)`},
		"by number":      {"x.csv", "path,label,x\na.jpg,1,7\n", "x=4", `no column "4"`},
		"no value":       {"x.csv", "path,label,age\na.jpg,1,3\nsub/b.jpg,1,\n", "x=age:int64", `line 3: field "x": has no value`},
		"no number":      {"x.csv", "path,label,age\na.jpg,1,old\n", "x=age:int64", `line 2: field "x": "old" is not a number`},
		"no key":         {"x.jsonl", `{"path": "a.jpg", "label": 1}`, "x=age", `line 1: field "x": the JSON has no key age`},
		"two for one":    {"x.csv", "path,label,age\na.jpg,1,3 4\n", "x=age:int64", `"3 4" is not a number`},
	} {
		splits, err := Open(listOf(t, tc.file, tc.text), dataset.Options{Fields: asked(t, tc.flag)})
		if err == nil {
			_, err = fieldsOf(splits[0])
		}
		if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), tc.file) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
	// A column that is a field is not taken for the labels.
	s := open(t, listOf(t, "x.csv", "path,age,label\na.jpg,30,1\nc.jpg,40,0\n"), dataset.Options{Fields: asked(t, "age=age:int64", "ages=age:int64[1]")})
	got, err := fieldsOf(s)
	if want := map[string]any{"age": 40.0, "ages": []any{40.0}}; err != nil || !reflect.DeepEqual(got["c.jpg"], want) {
		t.Errorf("%v, %v", got, err)
	}
	if label := mustItems(t, s)["a.jpg"].label; label != 1 {
		t.Errorf("label %d", label)
	}
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
		if got, err := dataset.ParseField(text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "a", "a=", "=b", "a=b:", "a=b:float64", "a=b:float32[", "a=b:float32[]", "a=b:float32[0]", "a=b:float32[-1]", "a=b:float32[65537]",
		"a=b:multihot", "a=b:text[3]", "a=:text", "a b=c", "ä=c", "a=b:int64]", strings.Repeat("a", 65) + "=b"} {
		if f, err := dataset.ParseField(text); err == nil {
			t.Errorf("%q is taken: %+v", text, f)
		}
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

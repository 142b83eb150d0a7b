package source

import (
	"bytes"
	"context"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/sourcetest"
	"github.com/imgfeed/imgfeed/shard/source/transport"
)

// Objects in parquet files have two layouts, and one result.
func TestParquetObjects(t *testing.T) {
	python := testenv.PythonWith(t, "pyarrow")
	dir := t.TempDir()
	photo := sourcetest.Write(t, filepath.Join(dir, "a.jpg"), jpegOf(t, 60, 40))
	if out, err := exec.Command(python, "testdata/objects.py", dir, photo).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	names := sourcetest.Write(t, filepath.Join(dir, "names.txt"), []byte("cat\ndog\n"))
	const key = "train-00000-of-00001/0000"
	want := map[string]string{
		key + "0-a.jpg": `objects {"area":[150,20],"boxes":[[1.5,2,11.5,22],[0,0,5,5]],"iscrowd":[0,0],"labels":[1,0]} | image_id 7`,
		key + "1":       `objects {"area":[],"boxes":[],"iscrowd":[],"labels":[]} | image_id 3`,
	}
	for name, o := range map[string]dataset.Options{"lists": {}, "structs": {}, "named": {Classes: names}} {
		got, splits, err := targetsOf(t, filepath.Join(dir, name), o)
		if err != nil {
			t.Fatal(name, err)
		}
		same(t, got["train"], want)
		if f := splits[0].Fields()[0]; !slices.Equal(f.Classes, []string{"cat", "dog"}) {
			t.Errorf("%s: %v", name, f)
		}
		if label := mustItems(t, open(t, filepath.Join(dir, name), o))[key+"1"].label; label != -1 {
			t.Error(label)
		}
	}
	o := dataset.Options{Targets: dataset.TargetOptions{BoxFormat: "xyxy", DropEmpty: true}}
	got, _, err := targetsOf(t, filepath.Join(dir, "lists"), o)
	if err != nil || len(got["train"]) != 1 || !strings.Contains(got["train"][key+"0-a.jpg"], `"boxes":[[1.5,2,10,20]`) {
		t.Error(got, err)
	}
	refused(t, filepath.Join(dir, "named"), dataset.Options{}, "--classes FILE")
	if got, _, err := targetsOf(t, filepath.Join(dir, "lists"), dataset.Options{NoLabels: true}); err != nil || got["train"][key+"1"] != "" {
		t.Error(got, err)
	}
}

// Hugging Face's imagefolder has objects in the lines of metadata.jsonl.
func TestListObjects(t *testing.T) {
	photo := jpegOf(t, 60, 40)
	tree := func(lines string) string {
		return lay(t, map[string][]byte{"a.jpg": photo, "b.jpg": photo, "metadata.jsonl": []byte(lines)})
	}
	for _, lines := range []string{
		`{"file_name": "a.jpg", "objects": {"bbox": [[1, 2, 3, 4], [5, 6, 7, 8.5]], "categories": ["dog", "cat"], "area": [12, 9], "id": [1, 2]}}
		{"file_name": "b.jpg", "objects": {"bbox": [], "categories": []}}`,
		`{"file_name": "b.jpg", "objects": []}
		{"file_name": "a.jpg", "objects": [{"bbox": [1, 2, 3, 4], "category": "dog", "area": 12}, {"bbox": [5, 6, 7, 8.5], "category": "cat", "area": 9}]}`,
	} {
		got, splits, err := targetsOf(t, tree(lines), dataset.Options{})
		if err != nil {
			t.Fatal(err)
		}
		same(t, got["train"], map[string]string{
			"a.jpg": `objects {"area":[12,9],"boxes":[[1,2,4,6],[5,6,12,14.5]],"iscrowd":[0,0],"labels":[1,0]}`,
			"b.jpg": `objects {"area":[],"boxes":[],"iscrowd":[],"labels":[]}`,
		})
		if classes := splits[0].Fields()[0].Classes; !slices.Equal(classes, []string{"cat", "dog"}) {
			t.Error(classes)
		}
	}
	for bad, want := range map[string]string{
		`{"bbox": [[1, 2, 3]], "category": [0]}`:       "line 1: a box of 3 numbers",
		`{"bbox": [[1, 2, 3, 4]], "category": []}`:     "4 numbers of boxes for 0 categories",
		`{"bbox": [[1, 2, 3, 4]], "category": [-1]}`:   "the category -1",
		`{"bbox": [[1, 2, 3, 4]], "category": [1.5]}`:  "the category 1.5",
		`{"bbox": [[1, 2, 3, 1e99]], "category": [0]}`: "object 0 has the box",
		`{"bbox": [["1", 2, 3, 4]], "category": [0]}`:  "line 1: bbox",
		`3`: "objects are 3",
		`{"bbox": [[1,2,3,4]], "category": [0], "area": []}`:     "",
		`{"bbox": [[1,2,3,4]], "category": [0], "area": [1, 2]}`: "2 areas",
	} {
		path := tree(`{"file_name": "a.jpg", "objects": ` + bad + `}`)
		if want != "" {
			refused(t, path, dataset.Options{}, want)
		} else if _, _, err := targetsOf(t, path, dataset.Options{}); err != nil {
			t.Error(err)
		}
	}
}

// WebDataset's samples have masks beside images, or boxes in JSON, with class labels or without.
func TestWebDatasetTargets(t *testing.T) {
	small, photo := jpegOf(t, 3, 2), jpegOf(t, 60, 40)
	boxes := []byte(`{"objects": [{"bbox": [1, 2, 3, 4], "category": 1}], "caption": "x"}`)
	tar := func(files ...sourcetest.File) string {
		return sourcetest.Write(t, filepath.Join(t.TempDir(), "train-000000.tar"), sourcetest.Tar(t, files...))
	}
	file := func(name string, data []byte) sourcetest.File { return sourcetest.File{Name: name, Data: data} }
	masks := tar(file("a.jpg", small), file("a.mask.png", maskOf(t, 3, 2)), file("b.jpg", small), file("b.mask.png", maskOf(t, 2, 2)), file("c.jpg", small))
	labelled := tar(file("a.cls", []byte("1")), file("a.jpg", small), file("a.seg.png", maskOf(t, 3, 2)))
	json := tar(file("a.jpg", photo), file("a.json", boxes), file("b.jpg", photo), file("b.json", []byte(`{"bbox": [], "category": []}`)))
	for _, c := range []struct {
		path string
		o    dataset.Options
		want map[string]string
	}{
		{masks, dataset.Options{}, map[string]string{"a": "mask [0 1 2 3 4 5]", "b": "the mask has 2×2 pixels, and the image 3×2", "c": "there is no mask for it"}},
		{filepath.Dir(masks), dataset.Options{}, map[string]string{"a": "mask [0 1 2 3 4 5]", "b": "the mask has 2×2 pixels, and the image 3×2", "c": "there is no mask for it"}},
		{labelled, dataset.Options{}, map[string]string{"a": "mask [0 1 2 3 4 5]"}},
		{json, dataset.Options{Targets: dataset.TargetOptions{Take: dataset.TakeObjects}}, map[string]string{
			"a": `objects {"area":[12],"boxes":[[1,2,4,6]],"iscrowd":[0],"labels":[1]}`, "b": `objects {"area":[],"boxes":[],"iscrowd":[],"labels":[]}`}},
		{json, dataset.Options{Targets: dataset.TargetOptions{Take: dataset.TakeObjects, DropEmpty: true}}, map[string]string{
			"a": `objects {"area":[12],"boxes":[[1,2,4,6]],"iscrowd":[0],"labels":[1]}`}},
	} {
		got, _, err := targetsOf(t, c.path, c.o)
		if err != nil {
			t.Fatal(c.path, err)
		}
		same(t, got["train"], c.want)
	}
	if label := mustItems(t, open(t, labelled, dataset.Options{}))["a"].label; label != 1 {
		t.Error(label)
	}
}

type goObject struct {
	Box      []float32 `parquet:"bbox"`
	Category int64     `parquet:"category"`
	Area     float64   `parquet:"area"`
}

// goObjects is a row of parquet with a list of objects.
type goObjects struct {
	Image   goImage    `parquet:"image"`
	Objects []goObject `parquet:"objects"`
	ID      int64      `parquet:"image_id"`
}

// FuzzStreamedTargets changes files whose samples bring their targets along: parquet, and tars with boxes in JSON and with masks. Each
// sample has values of the fields, or reading ends in an error.
func FuzzStreamedTargets(f *testing.F) {
	photo := jpegOf(f, 3, 2)
	rows := parquetSort(f, func(i int) (r goObjects) {
		r.Image.Bytes, r.ID = photo, int64(i)
		r.Objects = make([]goObject, i)
		for k := range r.Objects {
			r.Objects[k].Box, r.Objects[k].Category = []float32{float32(i), 0, 1, 2}, int64(k)
		}
		return r
	})
	file := func(name string, data []byte) sourcetest.File { return sourcetest.File{Name: name, Data: data} }
	tars := sourcetest.Tar(f, file("a.jpg", photo), file("a.json", []byte(`{"objects": [{"bbox": [1, 2, 3, 4], "category": 1}]}`)),
		file("a.mask.png", maskOf(f, 3, 2)), file("b.jpg", photo), file("b.mask.png", maskOf(f, 3, 2)), file("b.json", []byte(`{"bbox": [], "category": []}`)))
	bases, names := [][]byte{rows, tars}, []string{"x.parquet", "x.tar"}
	takes := []string{"", dataset.TakeBoth}
	for i, base := range bases {
		for at := 0; at < len(base); at += len(base)/40 + 1 {
			f.Add(uint8(i), uint32(at), []byte{0xff, 0x01}, uint32(at/2), []byte("0"))
		}
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, kind uint8, at uint32, change []byte, at2 uint32, change2 []byte) {
		k := int(kind) % len(bases)
		data := bytes.Clone(bases[k])
		copy(data[int(at)%len(data):], change)
		copy(data[int(at2)%len(data):], change2)
		path := sourcetest.Write(t, filepath.Join(dir, names[k]), data)
		splits, err := Open(path, dataset.Options{Targets: dataset.TargetOptions{Take: takes[k]}})
		if err == nil {
			fields := splits[0].Fields()
			err = splits[0].Walk(context.Background(), func(it transport.Item) error {
				if it.Reason == "" && imageSize(it.Data) {
					fieldsAsJSON(t, fields, it.Fields)
				}
				return nil
			})
		}
		if err != nil && !strings.Contains(err.Error(), path) {
			t.Errorf("an error without the file's name: %v", err)
		}
	})
}

// imageSize says that a file's header tells a size; the packer refuses any other.
func imageSize(file io.Reader) bool {
	data, err := io.ReadAll(file)
	_, _, unread := imagefile.Size(data)
	return err == nil && unread == nil
}

// TestStreamedTargets reads what FuzzStreamedTargets changes.
func TestStreamedTargets(t *testing.T) {
	photo := jpegOf(t, 3, 2)
	rows := parquetSort(t, func(i int) (r goObjects) {
		r.Image.Bytes, r.ID = photo, int64(i)
		if i == 1 {
			r.Objects = []goObject{{[]float32{1, 0, 1, 2}, 0, 2}}
		}
		return r
	})
	path := sourcetest.Write(t, filepath.Join(t.TempDir(), "x.parquet"), rows)
	got, _, err := targetsOf(t, path, dataset.Options{})
	want := map[string]string{
		"x/00000": `objects {"area":[],"boxes":[],"iscrowd":[],"labels":[]} | image_id 0`,
		"x/00001": `objects {"area":[2],"boxes":[[1,0,2,2]],"iscrowd":[0],"labels":[0]} | image_id 1`,
	}
	for key, value := range want {
		if got["train"][key] != value {
			t.Errorf("%s is %s, want %s: %v", key, got["train"][key], value, err)
		}
	}
}

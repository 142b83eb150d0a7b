package source

import (
	"bytes"
	"context"
	"io"
	"path/filepath"
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
	dir := t.TempDir()
	photo := sourcetest.Write(t, filepath.Join(dir, "a.jpg"), jpegOf(t, 60, 40))
	fromPython(t, "pyarrow", "objects.py", nil, dir, photo)
	names := sourcetest.Write(t, filepath.Join(dir, "names.txt"), []byte("cat\ndog\n"))
	const key = "train-00000-of-00001/0000"
	want := map[string]string{
		key + "0-a.jpg": `objects {"area":[150,20],"boxes":[[1.5,2,11.5,22],[0,0,5,5]],"iscrowd":[0,0],"labels":[1,0]} | image_id 7`,
		key + "1":       `objects {"area":[],"boxes":[],"iscrowd":[],"labels":[]} | image_id 3`,
	}
	for name, o := range map[string]dataset.Options{"lists": {}, "structs": {}, "named": {Classes: names}} {
		got, splits := mustTargets(t, 1, filepath.Join(dir, name), o)
		same(t, name, got["train"], want)
		namesObjects(t, splits[0], "cat dog")
		testenv.Equal(t, mustItems(t, open(t, filepath.Join(dir, name), o))[key+"1"].label, -1, "%s: label", name)
	}
	got, _ := mustTargets(t, 1, filepath.Join(dir, "lists"), dataset.Options{Targets: dataset.TargetOptions{BoxFormat: "xyxy", DropEmpty: true}})
	testenv.Equal(t, len(got["train"]), 1, "images without the empty ones")
	testenv.Contains(t, got["train"][key+"0-a.jpg"], `"boxes":[[1.5,2,10,20]`)
	refused(t, filepath.Join(dir, "named"), dataset.Options{}, "--classes FILE")
	got, _ = mustTargets(t, 1, filepath.Join(dir, "lists"), dataset.Options{NoLabels: true})
	testenv.Equal(t, got["train"][key+"1"], "", "without labels")
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
		got, splits := mustTargets(t, 1, tree(lines), dataset.Options{})
		same(t, lines, got["train"], map[string]string{
			"a.jpg": `objects {"area":[12,9],"boxes":[[1,2,4,6],[5,6,12,14.5]],"iscrowd":[0,0],"labels":[1,0]}`,
			"b.jpg": `objects {"area":[],"boxes":[],"iscrowd":[],"labels":[]}`,
		})
		namesObjects(t, splits[0], "cat dog")
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
		_, _, err := targetsOf(t, tree(`{"file_name": "a.jpg", "objects": `+bad+`}`), dataset.Options{})
		testenv.Says(t, bad, err, want)
	}
}

// WebDataset's samples have masks beside images, or boxes in JSON, with class labels or without.
func TestWebDatasetTargets(t *testing.T) {
	small, photo := jpegOf(t, 3, 2), jpegOf(t, 60, 40)
	tar := func(members ...string) string {
		return sourcetest.Write(t, filepath.Join(t.TempDir(), "train-000000.tar"), webDatasetTar(t, members...))
	}
	image, large, mask := string(small), string(photo), string(maskOf(t, 3, 2))
	masks := tar("a.jpg", image, "a.mask.png", mask, "b.jpg", image, "b.mask.png", string(maskOf(t, 2, 2)), "c.jpg", image)
	labelled := tar("a.cls", "1", "a.jpg", image, "a.seg.png", mask)
	json := tar("a.jpg", large, "a.json", `{"objects": [{"bbox": [1, 2, 3, 4], "category": 1}], "caption": "x"}`, "b.jpg", large, "b.json", `{"bbox": [], "category": []}`)
	masked := map[string]string{"a": "mask [0 1 2 3 4 5]", "b": "the mask has 2×2 pixels, and the image 3×2", "c": "there is no mask for it"}
	for _, c := range []struct {
		path string
		o    dataset.TargetOptions
		want map[string]string
	}{
		{masks, dataset.TargetOptions{}, masked},
		{filepath.Dir(masks), dataset.TargetOptions{}, masked},
		{labelled, dataset.TargetOptions{}, map[string]string{"a": "mask [0 1 2 3 4 5]"}},
		{json, dataset.TargetOptions{Take: dataset.TakeObjects}, map[string]string{
			"a": `objects {"area":[12],"boxes":[[1,2,4,6]],"iscrowd":[0],"labels":[1]}`, "b": `objects {"area":[],"boxes":[],"iscrowd":[],"labels":[]}`}},
		{json, dataset.TargetOptions{Take: dataset.TakeObjects, DropEmpty: true}, map[string]string{
			"a": `objects {"area":[12],"boxes":[[1,2,4,6]],"iscrowd":[0],"labels":[1]}`}},
	} {
		got, _ := mustTargets(t, 1, c.path, dataset.Options{Targets: c.o})
		same(t, c.path, got["train"], c.want)
	}
	testenv.Equal(t, mustItems(t, open(t, labelled, dataset.Options{}))["a"].label, 1, "label")
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
	got, _ := mustTargets(t, 1, sourcetest.Write(t, filepath.Join(t.TempDir(), "x.parquet"), rows), dataset.Options{})
	testenv.Equal(t, got["train"]["x/00000"], `objects {"area":[],"boxes":[],"iscrowd":[],"labels":[]} | image_id 0`, "no objects")
	testenv.Equal(t, got["train"]["x/00001"], `objects {"area":[2],"boxes":[[1,0,2,2]],"iscrowd":[0],"labels":[0]} | image_id 1`, "one object")
}

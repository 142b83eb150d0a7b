package source

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/internal/image/mask"
	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/sourcetest"
	"github.com/imgfeed/imgfeed/shard/source/transport"
)

// jpegOf is a grey JPEG of a size.
func jpegOf(t testing.TB, w, h int) []byte {
	t.Helper()
	var b bytes.Buffer
	testenv.OK(t, jpeg.Encode(&b, image.NewGray(image.Rect(0, 0, w, h)), nil))
	return b.Bytes()
}

// maskOf is a PNG with a palette, whose pixels have the labels 0, 1, …, or these.
func maskOf(t testing.TB, w, h int, labels ...byte) []byte {
	t.Helper()
	m := image.NewPaletted(image.Rect(0, 0, w, h), make(color.Palette, 256))
	for i := range m.Palette {
		m.Palette[i] = color.RGBA{byte(7 * i), byte(11 * i), byte(i), 255}
	}
	for i := range m.Pix {
		if m.Pix[i] = byte(i); len(labels) > 0 {
			m.Pix[i] = labels[i%len(labels)]
		}
	}
	return encodePNG(t, m)
}

func encodePNG(t testing.TB, m image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	testenv.OK(t, png.Encode(&b, m))
	return b.Bytes()
}

// lay writes files below a new folder.
func lay(t testing.TB, files map[string][]byte) string {
	t.Helper()
	return sourcetest.WriteTree(t, filepath.Join(t.TempDir(), "data"), files)
}

// targetsOf opens a source, and returns each split's fields of each sample as JSON, by split and key; those that are left out have the
// reason instead.
func targetsOf(t testing.TB, path string, opts dataset.Options) (map[string]map[string]string, []*dataset.Split, error) {
	t.Helper()
	splits, err := Open(path, opts)
	if err != nil {
		return nil, nil, err
	}
	got := make(map[string]map[string]string)
	for _, s := range splits {
		of := make(map[string]string)
		got[s.Name] = of
		streamed := make(map[string][]byte)
		err := s.Walk(context.Background(), func(it transport.Item) error {
			of[it.Key], streamed[it.Key] = it.Reason, bytes.Clone(it.Fields)
			return nil
		})
		if err != nil {
			return nil, nil, err
		}
		for key, reason := range of {
			if reason != "" {
				continue
			}
			values := streamed[key]
			if !s.Streamed() {
				data, err := s.Read(key, nil)
				if err != nil {
					return nil, nil, err
				}
				if values, err = s.AppendFields(nil, key, data); err != nil {
					var reject *transport.RejectError
					if !errors.As(err, &reject) && !errors.Is(err, dataset.ErrDropped) {
						return nil, nil, err
					}
					of[key] = err.Error()
					continue
				}
			}
			of[key] = fieldsAsJSON(t, s.Fields(), values)
		}
	}
	return got, splits, nil
}

// mustTargets is [targetsOf] for a source of n splits that can be read.
func mustTargets(t testing.TB, n int, path string, opts dataset.Options) (map[string]map[string]string, []*dataset.Split) {
	t.Helper()
	got, splits, err := targetsOf(t, path, opts)
	testenv.Require(t, err == nil && len(splits) == n, "%s, %+v: %d splits, want %d: %v, %v", path, opts, len(splits), n, got, err)
	return got, splits
}

// namesObjects checks the classes of a split's boxes.
func namesObjects(t testing.TB, s *dataset.Split, classes string) {
	t.Helper()
	testenv.Equal(t, strings.Join(s.Fields()[0].Classes, " "), classes, "%s: classes of boxes", s.Path)
}

// fieldsAsJSON shows the values of fields; a mask by its labels.
func fieldsAsJSON(t testing.TB, fields shard.Fields, values []byte) string {
	t.Helper()
	for i := range fields {
		if !fields[i].Numeric() {
			fields[i].BytesMax = shard.RecordBytesMax
		}
	}
	split := testenv.Must(fields.Split(values, nil))(t)
	var shown []string
	for i, v := range split {
		text := string(fields[i].JSON(v))
		if fields[i].Type == shard.Mask {
			text = labelsOf(t, v)
		}
		shown = append(shown, fields[i].Name+" "+text)
	}
	return strings.Join(shown, " | ")
}

// refused opens a source and wants an error with a text.
func refused(t *testing.T, path string, opts dataset.Options, want string) {
	t.Helper()
	got, _, err := targetsOf(t, path, opts)
	testenv.Check(t, err != nil && strings.Contains(err.Error(), want), "%v, %v; want an error with %q", got, err, want)
}

// same compares the targets of a split's samples.
func same(t *testing.T, of string, got, want map[string]string) {
	t.Helper()
	for key, w := range want {
		testenv.Equal(t, got[key], w, "%s: %s", of, key)
	}
	testenv.Equal(t, len(got), len(want), "%s: %v: number of samples", of, got)
}

const cocoCategories = `"categories": [{"id": 90, "name": "toothbrush"}, {"id": 1, "name": "person"}]`

// cocoFile is COCO's JSON of images a.jpg (60 × 40, id 7) and b.jpg (id 3) with these annotations.
func cocoFile(annotations string) []byte {
	return []byte(`{"info": {"year": 2017}, "annotations": [` + annotations + `], "images": [{"id": 7, "file_name": "a.jpg", "width": 60,
		"height": 40}, {"id": 3, "file_name": "b.jpg", "width": 60, "height": 40}], ` + cocoCategories + `}`)
}

const cocoBoxes = `{"id": 1, "image_id": 7, "category_id": 90, "bbox": [1.5, 2, 10, 20], "area": 150, "iscrowd": 0},
	{"id": 2, "image_id": 7, "category_id": 1, "bbox": [50, 0, 20, 10], "area": 99.5, "iscrowd": 1, "segmentation": {"counts": [1]}}`

func TestCOCO(t *testing.T) {
	photo := jpegOf(t, 60, 40)
	root := lay(t, map[string][]byte{
		"annotations/instances_train2017.json": cocoFile(cocoBoxes), "annotations/captions_train2017.json": cocoFile(""),
		"annotations/instances_val2017.json": cocoFile(""),
		"train2017/a.jpg":                    photo, "train2017/b.jpg": photo, "train2017/other.jpg": photo, "val2017/a.jpg": photo, "val2017/b.jpg": photo,
	})
	got, splits := mustTargets(t, 2, root, dataset.Options{})
	same(t, "train", got["train"], map[string]string{
		"a.jpg": `objects {"area":[150,99.5],"boxes":[[1.5,2,11.5,22],[50,0,70,10]],"iscrowd":[0,1],"labels":[1,0]} | image_id 7`,
		"b.jpg": `objects {"area":[],"boxes":[],"iscrowd":[],"labels":[]} | image_id 3`,
	})
	testenv.Contains(t, string(testenv.Must(json.Marshal(splits[0].Fields()[0]))(t)), `"classes":["person","toothbrush"],"ids":[1,90]`)
	testenv.Contains(t, notes(splits[0]), "1 box reaches out of its image")
	testenv.Equal(t, splits[0].Output, root+"-train-shards", "output")
	testenv.Equal(t, splits[1].Name, "val", "the second split")
	clipped := dataset.TargetOptions{ClipBoxes: true, DropCrowd: true, DropEmpty: true}
	got, _ = mustTargets(t, 1, root, dataset.Options{Split: "train", Targets: clipped})
	same(t, "clipped", got["train"], map[string]string{
		"a.jpg": `objects {"area":[150],"boxes":[[1.5,2,11.5,22]],"iscrowd":[0],"labels":[1]} | image_id 7`, "b.jpg": dataset.ErrDropped.Error(),
	})
	got, _ = mustTargets(t, 2, root, dataset.Options{NoLabels: true})
	testenv.Equal(t, got["train"]["a.jpg"], "", "without labels")
	got, _ = mustTargets(t, 1, filepath.Join(root, "annotations/instances_val2017.json"), dataset.Options{})
	testenv.Equal(t, len(got["val"]), 2, "images of val alone")
}

// Exports of other programs keep the same JSON elsewhere.
func TestCOCOLayouts(t *testing.T) {
	photo, said := jpegOf(t, 60, 40), cocoFile(cocoBoxes)
	for name, files := range map[string][]string{
		"Roboflow":     {"train/_annotations.coco.json", "train/a.jpg", "train/b.jpg", "valid/_annotations.coco.json", "valid/a.jpg", "valid/b.jpg"},
		"CVAT":         {"annotations/instances_default.json", "images/a.jpg", "images/b.jpg"},
		"Label Studio": {"result.json", "images/a.jpg", "images/b.jpg"},
		"one folder":   {"annotations.json", "a.jpg", "b.jpg"},
		"COCO with images/": {"annotations/instances_val2017.json", "images/val2017/a.jpg", "images/val2017/b.jpg",
			"annotations/instances_train2017.json", "images/train2017/a.jpg", "images/train2017/b.jpg"},
		"plain names": {"annotations/train.json", "annotations/val.json", "train/a.jpg", "train/b.jpg", "val/a.jpg", "val/b.jpg"},
	} {
		tree := make(map[string][]byte)
		for _, file := range files {
			if tree[file] = photo; strings.HasSuffix(file, ".json") {
				tree[file] = said
			}
		}
		want := 1
		if strings.Contains(strings.Join(files, " "), "val") {
			want = 2
		}
		got, _ := mustTargets(t, want, lay(t, tree), dataset.Options{})
		testenv.Equal(t, len(got["train"]), 2, "%s: images of train", name)
	}
}

func TestCOCORefuses(t *testing.T) {
	photo := jpegOf(t, 60, 40)
	one := func(said string, images ...string) string {
		files := map[string][]byte{"annotations/instances_train2017.json": []byte(said)}
		for _, name := range images {
			files["train2017/"+name] = photo
		}
		return lay(t, files)
	}
	good := string(cocoFile(cocoBoxes))
	refused(t, one(good, "a.jpg"), dataset.Options{}, "names 2 images, of which 1 is not in")
	refused(t, one(good), dataset.Options{}, "names the image a.jpg, which is not in")
	for _, c := range []struct{ old, new, want string }{
		{`"category_id": 90`, `"category_id": 4`, "has the category 4"},
		{`"id": 3`, `"id": 7`, "its id occurs twice"},
		{`"b.jpg"`, `"a.jpg"`, "are both called"},
		{`"b.jpg"`, `"../b.jpg"`, "cannot be used"},
		{`[1.5, 2, 10, 20]`, `[1.5, 2, 10]`, "a bbox of 3 numbers"},
		{`[1.5, 2, 10, 20]`, `[1.5, 2, 1e300, 20]`, "which is too large"},
		{`"id": 90`, `"id": 1`, "the category id 1 twice"},
		{good[len(good)-30:], "", "cannot be read as COCO's JSON"},
	} {
		refused(t, one(strings.Replace(good, c.old, c.new, 1), "a.jpg", "b.jpg"), dataset.Options{}, c.want)
	}
	for text, want := range map[string]string{ // 0 may be the id of another image or category
		`"image_id": 7, "category_id": 90`: "annotation 1 has no image_id or no category_id",
		`"category_id": 90, "bbox": [1.5`:  "annotation 1 has no image_id or no category_id",
		`"id": 7, "file_name"`:             `the image "a.jpg" has no id`,
		`"id": 90, "name"`:                 `the category "toothbrush" has no id`,
	} {
		_, rest, _ := strings.Cut(text, ", ")
		refused(t, one(strings.Replace(good, text, rest, 1), "a.jpg", "b.jpg"), dataset.Options{}, want)
	}
	refused(t, one(strings.Replace(good, `"image_id": 7`, `"image_id": null`, 1), "a.jpg", "b.jpg"), dataset.Options{}, "an id is null")
	refused(t, one(strings.Replace(good, `"image_id": 7`, `"image_id": "7"`, 1), "a.jpg", "b.jpg"), dataset.Options{}, `an id is "7"`)
	refused(t, one(good, "a.jpg", "b.jpg"), dataset.Options{Targets: dataset.TargetOptions{ReduceZero: true}}, "--reduce-zero is for datasets with masks")
	got, _ := mustTargets(t, 1, one(strings.ReplaceAll(good, `"width": 60`, `"width": 61`), "a.jpg", "b.jpg"), dataset.Options{})
	testenv.Contains(t, got["train"]["a.jpg"], "the image has 60×40 pixels, and its annotation says 61×40")
}

// COCO's JSON as pandas writes it, with fractions for whole numbers, and without what can be computed.
func TestCOCOOfPandas(t *testing.T) {
	photo := jpegOf(t, 60, 40)
	said := strings.NewReplacer(`"image_id": 7`, `"image_id": 7.0`, `"id": 7`, `"id": 7.0`, `"id": 90`, `"id": 90.0`, `"area": 150, `, "",
		`"iscrowd": 1`, `"iscrowd": 1.0`).Replace(string(cocoFile(cocoBoxes)))
	got, _, err := targetsOf(t, lay(t, map[string][]byte{"_annotations.coco.json": []byte("\ufeff" + said), "a.jpg": photo, "b.jpg": photo}), dataset.Options{})
	testenv.OK(t, err)
	same(t, "samples", got["train"], map[string]string{
		"a.jpg": `objects {"area":[200,99.5],"boxes":[[1.5,2,11.5,22],[50,0,70,10]],"iscrowd":[0,1],"labels":[1,0]} | image_id 7`,
		"b.jpg": `objects {"area":[],"boxes":[],"iscrowd":[],"labels":[]} | image_id 3`,
	})
}

// turnedJPEG is a JPEG with an EXIF orientation.
func turnedJPEG(t testing.TB, w, h int, orientation byte) []byte {
	exif := append([]byte("\xff\xe1\x00\x22Exif\x00\x00II*\x00\x08\x00\x00\x00\x01\x00\x12\x01\x03\x00\x01\x00\x00\x00"), orientation, 0, 0, 0, 0, 0, 0, 0)
	data := jpegOf(t, w, h)
	return append(append([]byte("\xff\xd8"), exif...), data[2:]...)
}

// Boxes that were drawn on the image as viewers turn it are refused, and other orientations counted.
func TestCOCOOrientation(t *testing.T) {
	root := lay(t, map[string][]byte{"_annotations.coco.json": cocoFile(cocoBoxes), "a.jpg": turnedJPEG(t, 40, 60, 6), "b.jpg": turnedJPEG(t, 60, 40, 3)})
	got, splits := mustTargets(t, 1, root, dataset.Options{})
	testenv.Contains(t, got["train"]["a.jpg"], "as its EXIF orientation 6 turns it")
	testenv.Contains(t, got["train"]["b.jpg"], `objects {"area"`)
	testenv.Contains(t, notes(splits[0]), "2 images have an EXIF orientation")
}

func FuzzCOCO(f *testing.F) {
	f.Add(cocoFile(cocoBoxes))
	photo := jpegOf(f, 60, 40)
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, said []byte) {
		path := filepath.Join(dir, "x.json")
		for name, data := range map[string][]byte{"x.json": said, "a.jpg": photo, "b.jpg": photo} {
			testenv.OK(t, os.WriteFile(filepath.Join(dir, name), data, 0o666))
		}
		splits, err := Open(path, dataset.Options{})
		if err != nil || len(splits) != 1 {
			return
		}
		s := splits[0]
		fields := s.Fields()
		for _, key := range []string{"a.jpg", "b.jpg"} {
			if values, err := s.AppendFields(nil, key, photo); err == nil {
				fieldsAsJSON(t, fields, values)
			}
		}
	})
}

// labelsOf lists the labels of a stored mask.
func labelsOf(t testing.TB, value []byte) string {
	t.Helper()
	w, h := testenv.Must2(mask.Size(value))(t)
	return fmt.Sprint(testenv.Must(new(mask.Decoder).Decode(value, w, h))(t))
}

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
	o := dataset.Options{Targets: dataset.TargetOptions{BoxFormat: "xyxy", DropEmpty: true}}
	got, _ := mustTargets(t, 1, filepath.Join(dir, "lists"), o)
	testenv.Equal(t, len(got["train"]), 1, "images without the empty ones")
	testenv.Contains(t, got["train"][key+"0-a.jpg"], `"boxes":[[1.5,2,10,20]`)
	refused(t, filepath.Join(dir, "named"), dataset.Options{}, "--classes FILE")
	refused(t, filepath.Join(dir, "mixed"), dataset.Options{}, "5 numbers of boxes for 2 categories")
	got, _ = mustTargets(t, 1, filepath.Join(dir, "partly"), dataset.Options{})
	same(t, "partly", got["train"], map[string]string{
		key + "0-a.jpg": `objects {"area":[12,20],"boxes":[[1,2,4,6],[0,0,5,5]],"iscrowd":[0,0],"labels":[1,0]}`})
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
	got, _, err := targetsOf(t, tree(`{"file_name": "a.jpg", "objects": [{"bbox": [1, 2, 3, 4], "category": 1, "iscrowd": true}, `+
		`{"bbox": [5, 6, 7, 8], "category": 0, "area": 9}]}`+"\n"+
		`{"file_name": "b.jpg", "objects": {"bbox": [[1, 2, 3, 4], [5, 6, 7, 8]], "category": [1, 0], "iscrowd": [false, true]}}`), dataset.Options{})
	testenv.OK(t, err)
	same(t, "partly", got["train"], map[string]string{
		"a.jpg": `objects {"area":[12,9],"boxes":[[1,2,4,6],[5,6,12,14]],"iscrowd":[1,0],"labels":[1,0]}`,
		"b.jpg": `objects {"area":[12,56],"boxes":[[1,2,4,6],[5,6,12,14]],"iscrowd":[0,1],"labels":[1,0]}`,
	})
	for bad, want := range map[string]string{
		`[{"bbox": [1, 2, 3, 4]}, {"category": 1}]`:                       "line 1: a box of 0 numbers",
		`[{"bbox": [1, 2, 3, 4]}, {"bbox": [1, 2, 3, 4], "category": 1}]`: "an object has no category",
		`{"bbox": [[1, 2, 3, 4], [1, 2, 3, 4]], "category": ["dog", 0]}`:  "the category 0 is a number, and others are names",
		`{"bbox": [1, 2, 3, 4], "category": [0]}`:                         "a list of boxes of 4 numbers is expected",
		`{"bbox": [[1, 2, 3, 4]], "category": [0], "iscrowd": [2]}`:       "a list of 0 and 1 is expected",
		`{"bbox": [[1, 2, 3]], "category": [0]}`:                          "line 1: a box of 3 numbers",
		`{"bbox": [[1, 2, 3, 4]], "category": []}`:                        "4 numbers of boxes for 0 categories",
		`{"bbox": [[1, 2, 3, 4]], "category": [-1]}`:                      "the category -1",
		`{"bbox": [[1, 2, 3, 4]], "category": [1.5]}`:                     "the category 1.5",
		`{"bbox": [[1, 2, 3, 1e99]], "category": [0]}`:                    "object 0 has the box",
		`{"bbox": [["1", 2, 3, 4]], "category": [0]}`:                     "line 1: bbox",
		`3`: "objects are 3",
		`{"bbox": [[1,2,3,4]], "category": [0], "area": []}`:     "",
		`{"bbox": [[1,2,3,4]], "category": [0], "area": [1, 2]}`: "2 areas",
	} {
		_, _, err = targetsOf(t, tree(`{"file_name": "a.jpg", "objects": `+bad+`}`), dataset.Options{})
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
	json := tar("a.jpg", large, "a.json", `{"objects": [{"bbox": [1, 2, 3, 4], "category": 1}], "caption": "x"}`,
		"b.jpg", large, "b.json", `{"bbox": [], "category": []}`)
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
	plain := open(t, masks, dataset.Options{NoLabels: true})
	testenv.Equal(t, len(mustItems(t, plain)), 3, "images without labels")
	testenv.Contains(t, strings.Join(plain.Notes(), "\n"), "2 masks beside images are left out (a.mask.png, b.mask.png)")
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
		testenv.Check(t, err == nil || strings.Contains(err.Error(), path), "an error without the file's name: %v", err)
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

// A change of boxes makes another dataset, for an index and for parts, also where it changes neither the size of a file nor its date.
func TestDigestOfTargets(t *testing.T) {
	photo := jpegOf(t, 60, 40)
	line := `{"file_name": "a.jpg", "objects": {"bbox": [[1, 2, 3, 4]], "category": [1]}}`
	for name, tc := range map[string]struct{ file, text, old, new string }{
		"COCO":       {"_annotations.coco.json", string(cocoFile(cocoBoxes)), `"category_id": 90`, `"category_id":  1`},
		"COCO's ids": {"_annotations.coco.json", string(cocoFile("")), `"id": 7`, `"id": 8`},
		"lines":      {"metadata.jsonl", line, "[1]", "[0]"},
		"XML":        {"a.xml", string(xmlOf("cat 0 1 2 3 4")), "<ymax>4", "<ymax>5"},
		"YOLO":       {"labels/a.txt", "0 .5 .5 .1 .1", "0 ", "1 "},
	} {
		t.Run(name, func(t *testing.T) {
			images := map[string][]byte{"a.jpg": photo, "b.jpg": photo}
			if folder, _, is := strings.Cut(tc.file, "/"); is {
				images = map[string][]byte{strings.Replace(folder, "labels", "images", 1) + "/a.jpg": photo}
			}
			images[tc.file] = []byte(tc.text)
			root := lay(t, images)
			digest := func(dates bool) string {
				s := testenv.Must(Open(root, dataset.Options{}))(t)[0]
				d := dataset.Digest{Dates: dates}
				testenv.OK(t, s.Walk(t.Context(), func(it transport.Item) error { return d.Add(s, &it) }))
				return d.Sum(s)
			}
			file := filepath.Join(root, tc.file)
			info := testenv.Must(os.Stat(file))(t)
			dated, undated := digest(true), digest(false)
			changed := strings.Replace(tc.text, tc.old, tc.new, 1)
			testenv.Require(t, changed != tc.text && len(changed) == len(tc.text), "%v", changed)
			sourcetest.Write(t, file, []byte(changed))
			testenv.Check(t, digest(true) != dated && digest(false) != undated, "the digest is the same")
			sourcetest.Write(t, file, []byte(tc.text))
			testenv.OK(t, os.Chtimes(file, info.ModTime(), info.ModTime()))
			testenv.Check(t, digest(true) == dated && digest(false) == undated, "the digest of the same dataset is another")
		})
	}
}

// Splits with metadata.jsonl of their own have the classes that any of them names.
func TestListObjectsOfSplits(t *testing.T) {
	photo := jpegOf(t, 60, 40)
	line := func(category string) []byte {
		return []byte(`{"file_name": "a.jpg", "objects": {"bbox": [[1, 2, 3, 4]], "category": ["` + category + `"]}}`)
	}
	got, splits, err := targetsOf(t, lay(t, map[string][]byte{"train/a.jpg": photo, "train/metadata.jsonl": line("dog"), "val/a.jpg": photo,
		"val/metadata.jsonl": line("cat")}), dataset.Options{})
	testenv.Require(t, err == nil && len(splits) == 2, "%v %v", got, err)
	for split, label := range map[string]string{"train": "1", "val": "0"} {
		same(t, split, got[split], map[string]string{"a.jpg": `objects {"area":[12],"boxes":[[1,2,4,6]],"iscrowd":[0],"labels":[` + label + `]}`})
	}
}

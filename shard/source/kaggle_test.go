package source

import (
	"archive/zip"
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/internal/wordnet"

	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/sourcetest"
)

// kaggleTree is a few files as the competition's zip has them, and the label of each key of each split.
func kaggleTree(classes int) (files map[string][]byte, train, val map[string]item) {
	files = make(map[string][]byte)
	train, val = make(map[string]item), make(map[string]item)
	const images = "ILSVRC/Data/CLS-LOC/"
	for label, wnid := range wordnet.Wnids()[:classes] {
		key := fmt.Sprintf("%s/%s_18.JPEG", wnid, wnid)
		files[images+"train/"+key] = []byte(jpegStart + key)
		train[key] = item{label: int32(label), data: jpegStart + key}
	}
	for _, n := range []int{50000, 1, 490} {
		key, label := fmt.Sprintf("ILSVRC2012_val_%08d.JPEG", n), valLabel(n)
		files[images+"val/"+key] = []byte(jpegStart + key)
		val[key] = item{label: label, data: jpegStart + key}
	}
	files[images+"test/ILSVRC2012_test_00000001.JPEG"] = []byte(jpegStart)
	files["LOC_val_solution.csv"] = []byte("ImageId,PredictionString\n")
	files["LOC_synset_mapping.txt"] = []byte("n01440764 tench, Tinca tinca\n")
	files["ILSVRC/Annotations/CLS-LOC/train/n01440764/n01440764_18.xml"] = []byte("<annotation>")
	files["ILSVRC/ImageSets/CLS-LOC/train_cls.txt"] = []byte("n01440764/n01440764_18 1\n")
	return files, train, val
}

// zipOf makes a zip with Go's writer.
func zipOf(t *testing.T, files map[string][]byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f := testenv.Must(w.Create(name))(t)
		testenv.Must(f.Write(files[name]))(t)
	}
	testenv.OK(t, w.Close())
	return buf.Bytes()
}

func TestKaggle(t *testing.T) {
	files, few, val := kaggleTree(5) // to make many folders takes time
	all, whole, _ := kaggleTree(1000)
	dir := t.TempDir()
	top := writeTree(t, filepath.Join(dir, "kaggle"), files)
	archive := sourcetest.Write(t, filepath.Join(dir, "imagenet-object-localization-challenge.zip"), zipOf(t, all))
	for _, path := range []string{top, filepath.Join(top, "ILSVRC"), filepath.Join(top, "ILSVRC/Data"), filepath.Join(top, "ILSVRC/Data/CLS-LOC"), archive} {
		splits, err := Open(path, dataset.Options{Test: true})
		if err != nil || len(splits) != 3 || splits[0].Name != "train" || splits[1].Name != "val" || splits[2].Name != "test" {
			t.Fatalf("%s: %v, %v", path, splits, err)
		}
		train := few
		if path == archive {
			train = whole
		}
		if got := mustItems(t, splits[0]); !reflect.DeepEqual(got, train) {
			t.Errorf("%s: train has %d items, want %d", path, len(got), len(train))
		}
		if got := mustItems(t, splits[1]); !reflect.DeepEqual(got, val) {
			t.Errorf("%s: val %v, want %v", path, got, val)
		}
		if path == archive {
			splits[2].ExpectClasses(splits[0].Classes())
		}
		if got := mustItems(t, splits[2]); len(got) != 1 || got["ILSVRC2012_test_00000001.JPEG"].label != -1 || path == archive && len(splits[2].Classes()) != 1000 {
			t.Errorf("%s: test %v", path, got)
		}
		if notes := strings.Join(splits[0].Notes(), "\n"); path == archive && !strings.Contains(notes, "has 1,281,167 images, and here are 1,000: 1,280,167 are missing") {
			t.Errorf("%s: notes %s", path, notes)
		}
		if path == archive && splits[0].Output != filepath.Join(dir, "imagenet-object-localization-challenge-train-shards") {
			t.Errorf("the zip's set would stand at %s", splits[0].Output)
		}
	}
	if splits, err := Open(top, dataset.Options{}); err != nil || len(splits) != 2 || !strings.Contains(strings.Join(splits[0].Notes(), "\n"), "to take images without a label as -1, add --test") {
		t.Errorf("without --test: %v, %v", splits, err)
	}
	alone := open(t, filepath.Join(top, "ILSVRC/Data/CLS-LOC/test"), dataset.Options{NoLabels: true})
	if got := mustItems(t, alone); alone.Name != "test" || len(got) != 1 || got["ILSVRC2012_test_00000001.JPEG"].label != -1 {
		t.Errorf("test/ alone is %q: %v", alone.Name, got)
	}
}

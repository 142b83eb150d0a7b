package source

import (
	"archive/zip"
	"bytes"
	"errors"
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
	"github.com/imgfeed/imgfeed/shard/source/labelrule"
	"github.com/imgfeed/imgfeed/shard/source/sourcetest"
	"github.com/imgfeed/imgfeed/shard/source/transport"
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
	top := sourcetest.WriteTree(t, filepath.Join(dir, "kaggle"), files)
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

// valName is the name of the validation image of that number.
func valName(n int) string { return fmt.Sprintf("ILSVRC2012_val_%08d.JPEG", n) }

// valLabel is the label of the validation image of that number.
func valLabel(n int) int32 {
	label, err := labelrule.ValLabel(valName(n))
	if err != nil {
		panic(err)
	}
	return label
}

// valTree has the first five validation images.
func valTree() (files map[string][]byte, want map[string]item) {
	files, want = make(map[string][]byte), make(map[string]item)
	for k := range 5 {
		label := valLabel(k + 1)
		name := valName(k + 1)
		files[name] = []byte(jpegStart + name)
		want[name] = item{label: label, data: jpegStart + name}
	}
	return files, want
}

// layVal lays the files out as a folder and as tars, and returns their paths.
func layVal(t *testing.T, dir string, files map[string][]byte) []string {
	sourcetest.WriteTree(t, filepath.Join(dir, "val"), files)
	sourcetest.Write(t, filepath.Join(dir, "ILSVRC2012_img_val.tar"), sourcetest.TarOfTree(t, files, "", 1))
	sourcetest.Write(t, filepath.Join(dir, "prefixed_val.tar"), sourcetest.TarOfTree(t, files, "val/", 2))
	return []string{filepath.Join(dir, "val"), filepath.Join(dir, "ILSVRC2012_img_val.tar"), filepath.Join(dir, "prefixed_val.tar")}
}

func TestValidationImagesNeedNoLabels(t *testing.T) {
	files, want := valTree()
	dir := t.TempDir()
	paths := layVal(t, dir, files)
	sourcetest.Write(t, filepath.Join(dir, "val/.DS_Store"), []byte("junk"))
	sourcetest.Write(t, filepath.Join(dir, "val/ILSVRC2012_devkit_t12.tar.gz"), []byte("the kit, which is not read"))
	for _, path := range paths {
		s := open(t, path, dataset.Options{})
		if got := mustItems(t, s); !reflect.DeepEqual(got, want) || s.Name != "val" || !strings.HasSuffix(s.Format, "of ILSVRC2012's validation images") {
			t.Errorf("%s: split %q, %s, items %v, want %v", path, s.Name, s.Format, got, want)
		}
		if !slices.Equal(s.Classes(), wordnet.Wnids()) || len(s.Notes()) != 1 || !strings.Contains(s.Notes()[0], "has 50,000 images, and here are 5") {
			t.Errorf("%s: %d classes, notes %q", path, len(s.Classes()), s.Notes())
		}
	}
	s := open(t, paths[0], dataset.Options{Split: "holdout"})
	train := append(slices.Clone(wordnet.Wnids()), "n99999999")
	train[0] = "n00000000" // which none of the five has
	slices.Sort(train)
	s.ExpectClasses(train)
	if got := mustItems(t, s); s.Name != "holdout" || !reflect.DeepEqual(got, want) || len(s.Classes()) != 1001 {
		t.Errorf("labelled by train: split %s, items %v, want %v", s.Name, got, want)
	}
	s = open(t, paths[0], dataset.Options{})
	s.ExpectClasses([]string{"n01", "n02"})
	testenv.Fails(items(s))(t, "5 of its 5 classes are not among the 2")
}

func TestDatasetAsDownloaded(t *testing.T) {
	dir := t.TempDir()
	files, _ := valTree()
	sourcetest.Write(t, filepath.Join(dir, valTarName), sourcetest.TarOfTree(t, files, "", 1))
	sourcetest.Write(t, filepath.Join(dir, trainTarName), sourcetest.TarOfTars(t, tree(), 1))
	sourcetest.Write(t, filepath.Join(dir, "ILSVRC2012_devkit_t12/data/meta.mat"), nil)
	splits := testenv.Must(Open(dir, dataset.Options{}))(t)
	if len(splits) != 2 || splits[0].Name != "train" || splits[1].Name != "val" {
		t.Fatalf("splits %v", splits)
	}
	if _, err := Open(dir, dataset.Options{Split: "x"}); err == nil {
		t.Error("two splits of one name are taken")
	}
}

func TestOtherImagesWithoutFolders(t *testing.T) {
	files, _ := valTree()
	for _, name := range []string{"ILSVRC2012_val_00000000.JPEG", "ILSVRC2012_val_00050001.JPEG", "ILSVRC2012_val_1.JPEG", "ILSVRC2012_val_00000009.jpg", "zzz.JPEG",
		"ILSVRC2012_val_+0000001.JPEG", "IMG_1.JPEG"} {
		for _, others := range []map[string][]byte{{}, files} {
			m := maps.Clone(others)
			m[name] = []byte(jpegStart)
			for _, p := range layVal(t, t.TempDir(), m) {
				if strings.Contains(p, "prefixed") && !strings.HasPrefix(name, labelrule.ValNamePrefix) {
					continue // where it stands first, val is a class
				}
				err := refusal(p, dataset.Options{})
				var format *transport.FormatError
				want := "are called ILSVRC2012_val_00000001.JPEG to"
				other := want // where a tar begins with the image, the names behind it are not known yet
				if !strings.HasPrefix(name, labelrule.ValNamePrefix) && (len(others) == 0 || strings.HasSuffix(p, ".tar")) {
					other = "sort the images into a folder for each class, or list them"
				}
				said := strings.Contains(fmt.Sprint(err), want) && len(others) > 0 || strings.Contains(fmt.Sprint(err), other)
				if !errors.As(err, &format) || !said || !strings.HasSuffix(err.Error(), "add --no-labels") || !strings.Contains(err.Error(), name) {
					t.Errorf("%s, %s: error %v", name, p, err)
				}
			}
		}
	}
}

// TestValInWrongClasses refuses validation images most of which lie in the folder of another class than ILSVRC2012's, unless told to take
// them.
func TestValInWrongClasses(t *testing.T) {
	classes, folders := wordnet.Wnids(), map[string][]byte{}
	for k := range 40 {
		folders[classes[(int(valLabel(k+1))+1)%len(classes)]+"/"+valName(k+1)] = []byte(jpegStart)
	}
	path := sourcetest.WriteTree(t, t.TempDir(), folders)
	const want = "40 of its 40 validation images of ILSVRC2012 lie in the folder of another class"
	testenv.Says(t, "the refusal", refusal(path, dataset.Options{}), want)
	if got := mustItems(t, open(t, path, dataset.Options{ForceClasses: true})); len(got) != 40 {
		t.Errorf("%d images by --force-classes", len(got))
	}
}

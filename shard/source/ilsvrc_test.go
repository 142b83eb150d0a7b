package source

import (
	"archive/zip"
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
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
	tested := map[string]item{"ILSVRC2012_test_00000001.JPEG": {label: -1, data: jpegStart}}
	for _, path := range []string{top, filepath.Join(top, "ILSVRC"), filepath.Join(top, "ILSVRC/Data"), filepath.Join(top, "ILSVRC/Data/CLS-LOC"), archive} {
		splits := openSplits(t, 3, dataset.Options{Test: true}, path)
		testenv.Equal(t, splits[0].Name+" "+splits[1].Name+" "+splits[2].Name, "train val test", "%s: splits", path)
		if path == archive {
			holds(t, splits[0], whole)
			testenv.Contains(t, notes(splits[0]), "has 1,281,167 images, and here are 1,000: 1,280,167 are missing")
			testenv.Equal(t, splits[0].Output, filepath.Join(dir, "imagenet-object-localization-challenge-train-shards"), "output")
			splits[2].ExpectClasses(splits[0].Classes())
		} else {
			holds(t, splits[0], few)
		}
		holds(t, splits[1], val)
		holds(t, splits[2], tested)
		if path == archive {
			testenv.Equal(t, len(splits[2].Classes()), 1000, "classes of test")
		}
	}
	testenv.Contains(t, notes(openSplits(t, 2, dataset.Options{}, top)[0]), "to take images without a label as -1, add --test")
	alone := open(t, filepath.Join(top, "ILSVRC/Data/CLS-LOC/test"), dataset.Options{NoLabels: true})
	holds(t, alone, tested)
	testenv.Equal(t, alone.Name, "test", "test/ alone")
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
		name := valName(k + 1)
		files[name] = []byte(jpegStart + name)
		want[name] = item{label: valLabel(k + 1), data: jpegStart + name}
	}
	return files, want
}

// layVal lays the files out as a folder and as tars, and returns their paths.
func layVal(t *testing.T, dir string, files map[string][]byte) []string {
	return []string{sourcetest.WriteTree(t, filepath.Join(dir, "val"), files),
		sourcetest.Write(t, filepath.Join(dir, "ILSVRC2012_img_val.tar"), sourcetest.TarOfTree(t, files, "", 1)),
		sourcetest.Write(t, filepath.Join(dir, "prefixed_val.tar"), sourcetest.TarOfTree(t, files, "val/", 2))}
}

func TestValidationImagesNeedNoLabels(t *testing.T) {
	files, want := valTree()
	dir := t.TempDir()
	paths := layVal(t, dir, files)
	sourcetest.Write(t, filepath.Join(dir, "val/.DS_Store"), []byte("junk"))
	sourcetest.Write(t, filepath.Join(dir, "val/ILSVRC2012_devkit_t12.tar.gz"), []byte("the kit, which is not read"))
	for _, path := range paths {
		s := open(t, path, dataset.Options{})
		holds(t, s, want)
		if s.Name != "val" || !strings.HasSuffix(s.Format, "of ILSVRC2012's validation images") || !slices.Equal(s.Classes(), wordnet.Wnids()) {
			t.Errorf("%s: split %q, %s of %d classes", path, s.Name, s.Format, len(s.Classes()))
		}
		noted(t, s, "has 50,000 images, and here are 5")
	}
	s := open(t, paths[0], dataset.Options{Split: "holdout"})
	train := append(slices.Clone(wordnet.Wnids()), "n99999999")
	train[0] = "n00000000" // which none of the five has
	slices.Sort(train)
	s.ExpectClasses(train)
	holds(t, s, want)
	testenv.Equal(t, s.Name, "holdout", "split")
	testenv.Equal(t, len(s.Classes()), 1001, "classes of train")
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
	splits := openSplits(t, 2, dataset.Options{}, dir)
	testenv.Equal(t, splits[0].Name+" "+splits[1].Name, "train val", "splits")
	testenv.Fails(Open(dir, dataset.Options{Split: "x"}))(t, "two splits")
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
				want := "are called ILSVRC2012_val_00000001.JPEG to"
				other := want // where a tar begins with the image, the names behind it are not known yet
				if !strings.HasPrefix(name, labelrule.ValNamePrefix) && (len(others) == 0 || strings.HasSuffix(p, ".tar")) {
					other = "sort the images into a folder for each class, or list them"
				}
				said := testenv.As[*transport.FormatError](t, err, name).Error()
				if !(strings.Contains(said, want) && len(others) > 0 || strings.Contains(said, other)) || !strings.HasSuffix(said, "add --no-labels") {
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
	refuses(t, path, dataset.Options{}, "40 of its 40 validation images of ILSVRC2012 lie in the folder of another class")
	testenv.Equal(t, len(mustItems(t, open(t, path, dataset.Options{ForceClasses: true}))), 40, "images by --force-classes")
}

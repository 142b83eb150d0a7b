package source

import (
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
	writeTree(t, filepath.Join(dir, "val"), files)
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
	if _, err := items(s); err == nil || !strings.Contains(err.Error(), "5 of its 5 classes are not among the 2") {
		t.Errorf("other classes than train: %v", err)
	}
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
	path := writeTree(t, t.TempDir(), folders)
	const want = "40 of its 40 validation images of ILSVRC2012 lie in the folder of another class"
	if err := refusal(path, dataset.Options{}); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
	if got := mustItems(t, open(t, path, dataset.Options{ForceClasses: true})); len(got) != 40 {
		t.Errorf("%d images by --force-classes", len(got))
	}
}

package source

import (
	"encoding/base64"
	"encoding/json"
	"github.com/imgfeed/imgfeed/internal/wordnet"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/shard/source/sourcetest"
)

// TestSuffixTarsOfPython reads tars of Python's tarfile, and compares each image with what a loading script of the package datasets makes of them.
func TestSuffixTarsOfPython(t *testing.T) {
	python := testenv.PythonWith(t, "tarfile")
	dir := filepath.Join(t.TempDir(), "imagenet")
	wnids, _ := json.Marshal(wordnet.Wnids())
	var labels []int32
	for n := range 20 {
		labels = append(labels, valLabel(n+1))
	}
	val, _ := json.Marshal(labels)
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(python, "testdata/suffixtars.py", filepath.Join(dir, "data"), string(wnids), string(val)).Output()
	if err != nil {
		t.Fatal(err)
	}
	var said map[string]map[string][2]any
	if err := json.Unmarshal(out, &said); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, filepath.Join(dir, "data")} {
		splits, err := Open(path, Options{Test: true})
		if err != nil || len(splits) != 3 {
			t.Fatalf("%s: %v, %v", path, splits, err)
		}
		for _, s := range splits {
			want := make(map[string]item)
			for name, is := range said[s.Name] {
				data, _ := base64.StdEncoding.DecodeString(is[1].(string))
				want[name] = item{label: int32(is[0].(float64)), data: string(data)}
			}
			if got := mustItems(t, s); !reflect.DeepEqual(got, want) || len(got) < 3 || !slices.Equal(s.Classes(), wordnet.Wnids()) {
				t.Errorf("%s, %s: %d items, which differ from the %d wanted", path, s.Name, len(got), len(want))
			}
			if s.Output != path+"-"+s.Name+"-shards" {
				t.Errorf("%s to %s", s.Name, s.Output)
			}
			if notes := strings.Join(s.Notes(), "\n"); s.Name != "test" && !strings.Contains(notes, "are missing") || strings.Contains(notes, "another class") {
				t.Errorf("%s: %s", s.Name, notes)
			}
		}
	}
	if splits, err := Open(dir, Options{}); err != nil || len(splits) != 2 || !strings.Contains(strings.Join(splits[0].Notes(), "\n"), "--test takes them") {
		t.Errorf("without --test: %v, %v", splits, err)
	}
	one := open(t, filepath.Join(dir, "data/val_images.tar.gz"), Options{})
	if got := mustItems(t, one); len(got) != 20 || one.Name != "val" || one.Layout() != "a tar of images with the class in their names" {
		t.Errorf("val alone: %d of %s, %s", len(got), one.Name, one.Layout())
	}
	few, err := OpenAll([]string{filepath.Join(dir, "data/train_images_0.tar.gz"), filepath.Join(dir, "data/train_images_1.tar.gz")}, Options{})
	if err != nil || len(few) != 1 || few[0].Output != filepath.Join(dir, "data/train_images-shards") {
		t.Errorf("two tars: %v, %v", few, err)
	}
}

func TestSuffixTarsThatAreWrong(t *testing.T) {
	image := func(names ...string) []byte {
		var files []sourcetest.File
		for _, name := range names {
			files = append(files, sourcetest.File{Name: name, Data: []byte(jpegStart)})
		}
		return sourcetest.Gzip(t, sourcetest.Tar(t, files...))
	}
	good := "n01440764_1_n01440764.JPEG"
	for name, tc := range map[string]struct {
		tars map[string][]byte
		opts Options
		want string
	}{
		"an unknown wnid": {map[string][]byte{"train_images_0.tar.gz": image(good, "n00000001_1_n00000001.JPEG")}, Options{}, "does not end in one of ILSVRC2012's wnids"},
		"no wnid":         {map[string][]byte{"train_images_0.tar.gz": image(good, "README.md")}, Options{}, `entry "README.md"`},
		"cut off":         {map[string][]byte{"train_images_0.tar.gz": image(good, good)[:60]}, Options{}, "train_images_0.tar.gz"},
		"another tar":     {map[string][]byte{"train_images_0.tar.gz": image(good), "more.tar.gz": image(good)}, Options{}, `entry "more.tar.gz": other files here are named for a split`},
		"one name of two": {map[string][]byte{"train_images_0.tar.gz": image(good), "val_images.tar.gz": image(good)}, Options{Split: "x"}, "cannot all be called"},
	} {
		dir := t.TempDir()
		for file, data := range tc.tars {
			sourcetest.Write(t, filepath.Join(dir, file), data)
		}
		if err := refusal(dir, tc.opts); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
	other := sourcetest.Write(t, filepath.Join(t.TempDir(), "val.tar.gz"), image("ILSVRC2012_val_00000001_n01440764.JPEG"))
	s := open(t, other, Options{})
	if got := mustItems(t, s); got["ILSVRC2012_val_00000001_n01440764.JPEG"].label != 0 || !strings.Contains(strings.Join(s.Notes(), "\n"), "1 validation images have another class") {
		t.Errorf("%v, %q", got, s.Notes())
	}
}

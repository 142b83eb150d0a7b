package source

import (
	"bytes"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/labelrule"
	"github.com/imgfeed/imgfeed/shard/source/sourcetest"
)

// refusal is the error of opening a source and walking over its splits.
func refusal(path string, opts dataset.Options) error {
	splits, err := Open(path, opts)
	for _, s := range splits {
		if err == nil {
			_, err = items(s)
		}
	}
	return err
}

// TestRootOfATar reads the entry that Python's tarfile writes for the folder itself where it is added as "/".
func TestRootOfATar(t *testing.T) {
	data := sourcetest.Tar(t, sourcetest.File{Name: "/"}, sourcetest.File{Name: "./"}, sourcetest.File{Name: "a/"}, sourcetest.File{Name: "a/1.jpg", Data: []byte("A")},
		sourcetest.File{Name: "b/2.jpg", Data: []byte("B")})
	got := mustItems(t, open(t, sourcetest.Write(t, filepath.Join(t.TempDir(), "x.tar"), data), dataset.Options{}))
	if want := map[string]item{"a/1.jpg": {data: "A"}, "b/2.jpg": {label: 1, data: "B"}}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestBackslashes reads a zip with the names that .NET wrote on Windows.
func TestBackslashes(t *testing.T) {
	data := zipOf(t, map[string][]byte{`G\cat\1.jpg`: []byte("A"), `G\dog\2.jpg`: []byte("B"), `G\dog\`: nil})
	got := mustItems(t, open(t, sourcetest.Write(t, filepath.Join(t.TempDir(), "x.zip"), data), dataset.Options{}))
	if want := map[string]item{"cat/1.jpg": {data: "A"}, "dog/2.jpg": {label: 1, data: "B"}}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestDamagedZips gives zips that are cut, changed or hostile.
func TestDamagedZips(t *testing.T) {
	dir := t.TempDir()
	whole := zipOf(t, map[string][]byte{"a/1.jpg": bytes.Repeat([]byte("A"), 99), "b/2.jpg": []byte("B")})
	damaged := bytes.Clone(whole)
	damaged[bytes.Index(whole, []byte("PK\x01\x02"))+16] ^= 1 // a checksum
	for name, tc := range map[string]struct {
		data []byte
		want string
	}{
		"damaged.zip": {damaged, "damaged.zip/a/1.jpg: zip: checksum error: the zip is damaged there: get it again, or leave out the images that unzip -t names; to leave out the samples with the keys in a file, add --exclude FILE"},
		"x.z01":       {whole, "x.z01: a part of a split zip, which is not read\n  to join its parts:\n    zip -q -s 0 " + dir + "/x.zip --out " + dir + "/x-whole.zip && imgshard build " + dir + "/x-whole.zip"},
		"front.zip":   {whole[40:], "begins with path,label"},
		"cut.zip":     {whole[:len(whole)-30], "download is incomplete"},
		"up.zip":      {zipOf(t, map[string][]byte{"a/x.jpg": nil, "b/../../x.jpg": nil}), "climbs out"},
		"abs.zip":     {zipOf(t, map[string][]byte{"/a/x.jpg": nil}), "absolute"},
		"both.zip":    {zipOf(t, map[string][]byte{"a": nil, "a/x.jpg": nil}), "duplicate entries"},
		"tars.zip":    {zipOf(t, map[string][]byte{"a.tar": nil, "b.tar": nil}), "to unpack it, and build its folder:\n    unzip -q " + dir + "/tars.zip -d " + dir + "/tars-unpacked && imgshard build "},
		"empty.zip":   {zipOf(t, map[string][]byte{"x/": nil}), "x"},
	} {
		path := sourcetest.Write(t, filepath.Join(dir, name), tc.data)
		if err := refusal(path, dataset.Options{}); err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error %v, want one with %q", name, err, tc.want)
		}
	}
}

// TestUnlabelledTestFolder takes test images that lie in no class folders, as --test says.
func TestUnlabelledTestFolder(t *testing.T) {
	for name, files := range map[string]map[string][]byte{
		"flat":   paths("train/a/1.jpg", "train/b/2.jpg", "val/a/3.jpg", "val/b/4.jpg", "test/5.jpg", "test/6.jpg"),
		"nested": paths("train/a/1.jpg", "train/b/2.jpg", "val/a/3.jpg", "val/b/4.jpg", "test/images/5.jpg", "test/images/6.jpg"),
	} {
		dir := writeTree(t, filepath.Join(t.TempDir(), "G"), files)
		for _, path := range []string{dir, sourcetest.Write(t, dir+".zip", zipOf(t, files))} {
			splits, err := Open(path, dataset.Options{Test: true})
			if err != nil || len(splits) != 3 {
				t.Fatalf("%s: %v, %v", path, splits, err)
			}
			splits[2].ExpectClasses([]string{"a", "b"})
			got := mustItems(t, splits[2])
			for key, it := range got {
				if it.label != labelrule.NoLabel || it.reason != "" {
					t.Errorf("%s: %s is %v", path, key, it)
				}
			}
			if len(got) != 2 || splits[2].Name != "test" || len(splits[2].Classes()) != 2 || len(splits[2].Notes()) != 0 {
				t.Errorf("%s: %s: %v of %q, notes %q", name, splits[2].Name, got, splits[2].Classes(), splits[2].Notes())
			}
			if splits, err = Open(path, dataset.Options{}); err != nil || len(splits) != 2 {
				t.Errorf("%s without --test: %v, %v", path, splits, err)
			}
		}
	}
}

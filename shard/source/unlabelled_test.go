package source

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/sourcetest"
)

// TestNoLabels packs what has no labels, or whose labels are not wanted: as it lies on disk, and as img2dataset writes it.
func TestNoLabels(t *testing.T) {
	dir := t.TempDir()
	flat := paths("1.jpg", "2.jpg", "deep/down/3.png")
	beside := map[string][]byte{"a/000.jpg": []byte(jpegStart + "0"), "a/000.txt": []byte("a caption"), "a/000.json": []byte(`{"key": "000"}`)}
	pairs := sourcetest.Tar(t, sourcetest.File{Name: "000.jpg", Data: []byte(jpegStart)}, sourcetest.File{Name: "000.json", Data: []byte(`{}`)}, sourcetest.File{Name: "000.txt", Data: []byte("one")},
		sourcetest.File{Name: "001.jpg", Data: []byte(jpegStart)}, sourcetest.File{Name: "001.json", Data: []byte(`{}`)}, sourcetest.File{Name: "001.txt", Data: []byte("two")})
	hub := map[string][]byte{"00000.tar": pairs, "00000.parquet": []byte("PAR1"), "00000_stats.json": []byte("{}")}
	written := map[string][]byte{"00000/000.jpg": []byte(jpegStart), "00000/000.txt": []byte("one"), "00001/001.jpg": []byte(jpegStart), "00000_stats.json": []byte("{}"), "00000.parquet": []byte("PAR1")}
	splits := paths("train/1.jpg", "train/2.jpg", "val/3.jpg")
	list := paths("names.csv", "i/a.jpg", "i/b.jpg")
	list["names.csv"] = []byte("path\ni/a.jpg\ni/b.jpg\n")
	for _, tc := range []struct {
		path  string
		keys  string
		error string // without --no-labels
	}{
		{writeTree(t, filepath.Join(dir, "flat"), flat), "1.jpg 2.jpg deep/down/3.png", ""},
		{writeTree(t, filepath.Join(dir, "only"), paths("1.jpg", "2.jpg")), "1.jpg 2.jpg", "add --no-labels"},
		{writeTree(t, filepath.Join(dir, "beside"), beside), "a/000.jpg", "one class only"},
		{sourcetest.Write(t, filepath.Join(dir, "flat.tar"), sourcetest.TarOfTree(t, flat, "", 1)), "1.jpg 2.jpg deep/down/3.png", "--no-labels"},
		{sourcetest.Write(t, filepath.Join(dir, "flat.zip"), zipOf(t, flat)), "1.jpg 2.jpg deep/down/3.png", ""},
		{sourcetest.Write(t, filepath.Join(dir, "pairs.tar"), pairs), "000 001", "add --no-labels"},
		{writeTree(t, filepath.Join(dir, "tars"), hub), "000 001", "add --no-labels"},
		{writeTree(t, filepath.Join(dir, "files"), written), "00000/000.jpg 00001/001.jpg", "img2dataset wrote, which are not classes; to take the images without labels, add --no-labels"},
		{writeTree(t, filepath.Join(dir, "classes"), paths("cat/1.jpg", "dog/2.jpg")), "cat/1.jpg dog/2.jpg", ""},
		{writeTree(t, filepath.Join(dir, "splits"), splits), "1.jpg 2.jpg", "--no-labels"},
		{filepath.Join(writeTree(t, filepath.Join(dir, "list"), list), "names.csv"), "i/a.jpg i/b.jpg", ""},
	} {
		of, err := Open(tc.path, dataset.Options{NoLabels: true})
		if err != nil {
			t.Errorf("%s: %v", tc.path, err)
			continue
		}
		var keys []string
		for key, it := range mustItems(t, of[0]) {
			keys = append(keys, key)
			if it.label != -1 || it.reason != "" || !strings.HasPrefix(it.data, jpegStart) {
				t.Errorf("%s: %s is %v", tc.path, key, it)
			}
		}
		if got := strings.Join(slices.Sorted(slices.Values(keys)), " "); got != tc.keys || len(of[0].Classes()) != 0 {
			t.Errorf("%s: %s of the classes %q, want %s", tc.path, got, of[0].Classes(), tc.keys)
		}
		if of, err = Open(tc.path, dataset.Options{}); err == nil {
			_, err = items(of[0])
		}
		if tc.error != "" && (err == nil || !strings.Contains(err.Error(), tc.error)) {
			t.Errorf("%s, with labels: %v, want %q", tc.path, err, tc.error)
		}
	}
	nested := paths("images/train2017/1.jpg", "images/val2017/2.jpg", "images/more/3.jpg", "labels/train2017/1.txt", "labels/val2017/2.txt")
	for _, path := range []string{writeTree(t, filepath.Join(dir, "G"), nested), sourcetest.Write(t, filepath.Join(dir, "G.tar"), sourcetest.TarOfTree(t, nested, "", 1))} {
		err := refusal(path, dataset.Options{NoLabels: true})
		if err == nil || !strings.Contains(err.Error(), "holds folders of several splits (images/more, images/train2017, images/val2017), and this would join them; to take it as it is, add --force-classes\n") ||
			strings.HasSuffix(path, "G") != strings.HasSuffix(err.Error(), "imgshard build "+path+"/images --no-labels") {
			t.Errorf("%s: %v", path, err)
		}
		if got := mustItems(t, open(t, path, dataset.Options{NoLabels: true, ForceClasses: true})); len(got) != 3 {
			t.Errorf("%s, insisted on: %v", path, got)
		}
	}
	captioned := open(t, filepath.Join(dir, "pairs.tar"), dataset.Options{NoLabels: true, Fields: asked(t, "caption=txt")})
	if got, err := fieldsOf(captioned); err != nil || got["001"]["caption"] != "two" {
		t.Errorf("captions %v, %v", got, err)
	}
}

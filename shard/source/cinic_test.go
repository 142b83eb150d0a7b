package source

import (
	"bytes"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/shard/source/sourcetest"
)

// writeClasses writes a PNG of that side to each class of a split.
func writeClasses(t *testing.T, root string, classes []string, side int) {
	t.Helper()
	var buf bytes.Buffer
	if err := png.Encode(&buf, image.NewNRGBA(image.Rect(0, 0, side, side))); err != nil {
		t.Fatal(err)
	}
	for _, class := range classes {
		sourcetest.Write(t, filepath.Join(root, class, "cifar10-train-29.png"), buf.Bytes())
		sourcetest.Write(t, filepath.Join(root, class, ".hidden"), nil)
	}
}

func TestCINIC(t *testing.T) {
	root := filepath.Join(t.TempDir(), "CINIC-10")
	for _, split := range []string{"train", "valid", "test"} {
		writeClasses(t, filepath.Join(root, split), sourcetest.CIFARClasses, 32)
	}
	sourcetest.Write(t, filepath.Join(root, "README.md"), nil)
	splits, err := Open(root, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range splits {
		got = append(got, s.Name+" "+filepath.Base(s.Output))
		if items := mustItems(t, s); !s.Decoded() || len(items) != 10 || items["truck/cifar10-train-29.png"].label != 9 {
			t.Errorf("%s: decoded %t, items %v", s.Name, s.Decoded(), items)
		}
	}
	if want := []string{"train train-shards", "val valid-shards", "test test-shards"}; !slices.Equal(got, want) {
		t.Errorf("splits %q, want %q", got, want)
	}
	if notes := splits[0].Notes(); len(notes) != 1 || !strings.Contains(notes[0], "90,000 images, and here are 10: 89,990 are missing") {
		t.Errorf("notes %q", notes)
	}
	alone := open(t, filepath.Join(root, "test"), Options{})
	if alone.Name != "test" || !alone.Decoded() {
		t.Errorf("the test split alone is %q, decoded %t", alone.Name, alone.Decoded())
	}
}

func TestOtherClassFoldersAreNotSmall(t *testing.T) {
	for name, tc := range map[string]struct {
		classes []string
		side    int
	}{
		"larger images": {sourcetest.CIFARClasses, 33},
		"other classes": {[]string{"cat", "dog"}, 32},
		"nine classes":  {sourcetest.CIFARClasses[1:], 32},
	} {
		root := t.TempDir()
		for _, split := range []string{"train", "val", "test"} {
			writeClasses(t, filepath.Join(root, split), tc.classes, tc.side)
		}
		splits, err := Open(root, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if len(splits) != 2 || splits[0].Decoded() || splits[1].Decoded() {
			t.Errorf("%s: %d splits, want two of no small images", name, len(splits))
		}
		if notes := splits[0].Notes(); len(notes) != 1 || !strings.Contains(notes[0], "test is left out") {
			t.Errorf("%s: notes %q", name, notes)
		}
	}
	root := t.TempDir()
	writeClasses(t, root, sourcetest.CIFARClasses, 32)
	if err := os.Remove(filepath.Join(root, "ship/cifar10-train-29.png")); err != nil {
		t.Fatal(err)
	}
	if open(t, root, Options{}).Decoded() {
		t.Error("a class without images is taken as one of small images")
	}
	sourcetest.Write(t, filepath.Join(root, "ship/x.png"), []byte("no PNG"))
	if open(t, root, Options{}).Decoded() {
		t.Error("a file that is no PNG is taken as a small image")
	}
}

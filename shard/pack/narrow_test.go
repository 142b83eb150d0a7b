package pack

import (
	"bytes"
	"image"
	"image/png"
	"path/filepath"
	"strings"
	"testing"
)

// TestNarrowImagesAreNamed packs an image that Resize(256) would make 15 million pixels long.
func TestNarrowImagesAreNamed(t *testing.T) {
	var long bytes.Buffer
	if err := png.Encode(&long, image.NewGray(image.Rect(0, 0, 1, 60_000))); err != nil {
		t.Fatal(err)
	}
	files := synthetic(t, 2, 2)
	files["n90000001/long.png"] = long.Bytes()
	dir := t.TempDir()
	sum, err := build(writeTree(t, filepath.Join(dir, "train"), files), filepath.Join(dir, "out"), Options{})
	if err != nil || sum.Manifest.Samples != 5 {
		t.Fatal(sum.Manifest, err)
	}
	if notes := strings.Join(sum.Notes, "\n"); !strings.Contains(notes, "1 image is too narrow") || !strings.Contains(notes, "n90000001/long.png of 1×60000") {
		t.Errorf("notes %q", notes)
	}
}

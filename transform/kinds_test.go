package transform

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/kernel"
)

// TestKindsMatchPillow decodes an image of every kind and compares with what Pillow's convert("RGB") made of it
// (testdata/kinds.py).
func TestKindsMatchPillow(t *testing.T) {
	for _, level := range kernel.Available() {
		e := NewEngine(level)
		forEachKind(t, func(name string, data, want []byte) {
			pix, w, h, err := e.DecodeFull(Source{Image: data})
			if err != nil {
				t.Errorf("%s: %v", name, err)
				return
			}
			if w != int(want[0]) || h != int(want[1]) {
				t.Errorf("%s: %d×%d, want %d×%d", name, w, h, want[0], want[1])
				return
			}
			for i, v := range want[2:] {
				if pix[i] != v {
					t.Errorf("%v %s: pixel (%d, %d) channel %d is %d, Pillow's is %d", level, name, i/3%w, i/3/w, i%3, pix[i], v)
					return
				}
			}
		})
	}
}

// forEachKind calls do with each file of testdata/kinds and Pillow's pixels of it.
func forEachKind(t *testing.T, do func(name string, data, want []byte)) {
	t.Helper()
	files, err := filepath.Glob("testdata/kinds/*.rgb")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d files in testdata/kinds, %v", len(files), err)
	}
	for _, file := range files {
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(strings.TrimSuffix(file, ".rgb"))
		if err != nil {
			t.Fatal(err)
		}
		do(filepath.Base(file), data, want)
	}
}

// TestDamagedImages cuts and changes every kind: there must be an error or an image, and no panic.
func TestDamagedImages(t *testing.T) {
	e := NewEngine(kernel.Active())
	forEachKind(t, func(name string, data, _ []byte) {
		for n := 0; n < len(data)-1; n += 1 + len(data)/50 {
			_, _, _, err := e.DecodeFull(Source{Image: data[:n]})
			var ie *ImageError
			if err != nil && !errors.As(err, &ie) {
				t.Errorf("%s cut to %d bytes: %T %v", name, n, err, err)
			}
			if err == nil && n < len(data)/2 {
				t.Errorf("%s cut to %d of %d bytes decodes", name, n, len(data))
			}
			bad := bytes.Clone(data)
			bad[n] ^= 0x55
			e.DecodeFull(Source{Image: bad})
		}
	})
	if _, _, _, err := e.DecodeFull(Source{Image: []byte("no image")}); !errors.Is(err, ErrFormat) || !Unsupported(err) {
		t.Errorf("text: %v, want ErrFormat", err)
	}
	data, err := os.ReadFile("testdata/kinds/bytes.jpg")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := e.DecodeFull(Source{Image: data[:100]}); err == nil || Unsupported(err) {
		t.Errorf("half a JPEG: %v, want an error that is not about support", err)
	}
	data[bytes.Index(data, []byte{0xFF, 0xC0})+1] = 0xC9 // SOF9: arithmetic coding
	if _, _, _, err := e.DecodeFull(Source{Image: data}); !Unsupported(err) {
		t.Errorf("arithmetic coding: %v, want an error about support", err)
	}
}

func TestPixelLimit(t *testing.T) {
	data, err := os.ReadFile("testdata/kinds/rgb.bmp")
	if err != nil {
		t.Fatal(err)
	}
	bad := bytes.Clone(data)
	copy(bad[18:], []byte{0x00, 0x40, 0, 0, 0x00, 0x40, 0, 0}) // 16384 × 16384
	_, _, _, err = NewEngine(kernel.Generic).DecodeFull(Source{Image: bad})
	var le *LimitError
	if !errors.As(err, &le) || le.Width != 16384 {
		t.Errorf("a bitmap of 16384×16384: %v, want a LimitError", err)
	}
}

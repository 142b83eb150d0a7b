package pointwise

import (
	"bytes"
	"testing"
)

func TestInvert(t *testing.T) {
	pix := []byte{0, 1, 254, 255, 128}
	if Invert(pix); !bytes.Equal(pix, []byte{255, 254, 1, 0, 127}) {
		t.Errorf("%v", pix)
	}
}

// TestGray has pixels whose luma Pillow says, and bytes after them that are no pixel.
func TestGray(t *testing.T) {
	pix := []byte{255, 0, 0, 0, 255, 0, 0, 0, 255, 255, 255, 255, 10, 20, 30, 7, 8}
	Gray(pix)
	if want := []byte{76, 76, 76, 150, 150, 150, 29, 29, 29, 255, 255, 255, 18, 18, 18, 7, 8}; !bytes.Equal(pix, want) {
		t.Errorf("%v, want %v", pix, want)
	}
}

// TestSharpen has what Pillow's ImageEnhance.Sharpness makes of one band of a 4 × 3 image.
func TestSharpen(t *testing.T) {
	band := []byte{10, 20, 30, 40, 50, 200, 70, 80, 90, 100, 110, 120}
	src := make([]byte, 0, 3*len(band))
	for _, v := range band {
		src = append(src, v, v, v)
	}
	for factor, want := range map[float32][2]byte{0: {114, 81}, 1: {200, 70}, 2: {255, 59}, 0.5: {157, 75}} {
		dst := make([]byte, len(src))
		Sharpen(dst, src, 4, 3, factor)
		if got := [2]byte{dst[15], dst[18]}; got != want {
			t.Errorf("factor %v: %v, want %v", factor, got, want)
		}
		if !bytes.Equal(dst[:15], src[:15]) || !bytes.Equal(dst[21:], src[21:]) {
			t.Errorf("factor %v: the border has changed", factor)
		}
	}
}

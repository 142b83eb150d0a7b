package thumbnail

import (
	"bytes"
	"encoding/base64"
	"image"
	_ "image/jpeg"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

// gradient returns w × h pixels that rise to the right and downwards.
func gradient(w, h int) []byte {
	pix := make([]byte, 0, 3*w*h)
	for y := range h {
		for x := range w {
			pix = append(pix, byte(255*x/w), byte(255*y/h), 90)
		}
	}
	return pix
}

// TestNew makes pictures of images that are kept, made smaller, and much longer than wide.
func TestNew(t *testing.T) {
	for _, tt := range []struct {
		w, h, side, wantW, wantH int
		kind                     string
		differs                  int // from the pixel in the middle, at most
	}{
		{32, 24, 256, 32, 24, "png", 0},
		{64, 1, 256, 64, 1, "png", 0},
		{224, 224, 256, 224, 224, "jpeg", 4},
		{1000, 500, 256, 256, 128, "jpeg", 4},
		{3, 9000, 256, 1, 256, "jpeg", 60},
		{400, 200, 50, 50, 25, "png", 8},
	} {
		pix := gradient(tt.w, tt.h)
		p, err := New(pix, tt.w, tt.h, tt.side)
		testenv.Require(t, err == nil && p.Width == tt.wantW && p.Height == tt.wantH, "%d × %d: %d × %d, %v", tt.w, tt.h, p.Width, p.Height, err)
		data := testenv.Must(base64.StdEncoding.DecodeString(strings.TrimPrefix(p.URL, "data:image/"+tt.kind+";base64,")))(t)
		shown, kind, err := image.Decode(bytes.NewReader(data))
		testenv.Require(t, err == nil && kind == tt.kind && shown.Bounds().Size() == image.Pt(tt.wantW, tt.wantH),
			"%d × %d: %s of %v, %v", tt.w, tt.h, kind, shown.Bounds(), err)
		r, g, b, _ := shown.At(tt.wantW/2, tt.wantH/2).RGBA()
		from := pix[3*(tt.h/2*tt.w+tt.w/2):]
		for c, got := range []uint32{r, g, b} {
			d := int(got>>8) - int(from[c])
			testenv.Check(t, max(d, -d) <= tt.differs, "%d × %d: channel %d in the middle is %d, was %d", tt.w, tt.h, c, got>>8, from[c])
		}
	}
}

func TestColourOf(t *testing.T) { // of VOC's colour map from label 1 on
	for label, want := range [][3]byte{{128, 0, 0}, {0, 128, 0}, {128, 128, 0}, {0, 0, 128}} {
		testenv.Equal(t, colourOf(int64(label)), want, "%d", label)
	}
}

func TestDrawBox(t *testing.T) {
	pix := make([]byte, 3*4*3)
	drawBox(pix, 4, 3, [4]float32{1, -5, 9, 2}, 0)
	var drawn []int
	for i := range 12 {
		if pix[3*i] == 255 {
			drawn = append(drawn, i)
		}
	}
	want := []int{1, 2, 3, 5, 7, 9, 10, 11}
	testenv.Check(t, slices.Equal(drawn, want), "%v, want %v", drawn, want)
	for _, x := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), 1e30} {
		drawBox(pix, 4, 3, [4]float32{x, x, 1, 1}, -1)
	}
}

func TestDrawMask(t *testing.T) {
	pix := make([]byte, 3*4)
	drawMask(pix, 4, 1, []byte{0, 255}, 2, 1)
	want := []byte{64, 0, 0, 64, 0, 0, 0, 0, 0, 0, 0, 0}
	testenv.Check(t, slices.Equal(pix, want), "%v, want %v", pix, want)
}

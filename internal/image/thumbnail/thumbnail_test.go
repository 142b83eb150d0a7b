package thumbnail

import (
	"bytes"
	"encoding/base64"
	"image"
	_ "image/jpeg"
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
		testenv.Require(t, err == nil && p.Width == tt.wantW && p.Height == tt.wantH,
			"%d × %d: %d × %d, %v", tt.w, tt.h, p.Width, p.Height, err)
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

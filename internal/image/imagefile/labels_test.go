package imagefile

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

// exif is a JPEG's beginning with an orientation, little- or big-endian.
func exif(orientation byte, big bool) []byte {
	if big {
		return append([]byte("\xff\xd8\xff\xe0\x00\x04ab\xff\xe1\x00\x22Exif\x00\x00MM\x00*\x00\x00\x00\x08\x00\x01\x01\x12\x00\x03\x00\x00\x00\x01\x00"), orientation, 0, 0, 0, 0, 0, 0)
	}
	return append([]byte("\xff\xd8\xff\xe1\x00\x22Exif\x00\x00II*\x00\x08\x00\x00\x00\x01\x00\x12\x01\x03\x00\x01\x00\x00\x00"), orientation, 0, 0, 0, 0, 0, 0, 0)
}

func TestOrientation(t *testing.T) {
	for n := range byte(10) {
		want := int(n)
		if n == 0 || n > 8 {
			want = 1
		}
		for _, big := range []bool{false, true} {
			testenv.Equal(t, Orientation(exif(n, big)), want, "%d, big-endian %v", n, big)
		}
	}
	testenv.Check(t, Orientation(nil) == 1 && Orientation([]byte(pngSignature)) == 1, "a file that is no JPEG has an orientation")
}

func FuzzOrientation(f *testing.F) {
	f.Add(exif(6, false))
	f.Add(exif(3, true))
	f.Fuzz(func(t *testing.T, data []byte) {
		n := Orientation(data)
		testenv.Check(t, n >= 1 && n <= 8, "%d", n)
	})
}

// TestSizeIsTheDecodersSize compares the header's size with that of the decoded image.
func TestSizeIsTheDecodersSize(t *testing.T) {
	files, _ := filepath.Glob("testdata/*/*")
	seen := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil || Sniff(data) == Unknown {
			continue
		}
		d := NewDecoder(0)
		info, _, err := d.Check(nil, data)
		if err != nil {
			continue
		}
		w, h, err := Size(data)
		testenv.Check(t, err == nil && w == info.Width && h == info.Height,
			"%s: %d×%d, %v; decoded %d×%d", file, w, h, err, info.Width, info.Height)
		seen++
	}
	testenv.Check(t, seen != 0, "no images in testdata")
}

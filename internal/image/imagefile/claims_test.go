package imagefile

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"image"
	"os"
	"path/filepath"
	"runtime/metrics"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/testenv"
)

// enlarged returns a small file that says that it holds side × side pixels.
func enlarged(t *testing.T, data []byte, side int) []byte {
	t.Helper()
	data = bytes.Clone(data)
	little, big := binary.LittleEndian, binary.BigEndian
	switch Sniff(data) {
	case PNG:
		big.PutUint32(data[16:], uint32(side))
		big.PutUint32(data[20:], uint32(side))
		big.PutUint32(data[29:], crc32.ChecksumIEEE(data[12:29]))
	case BMP:
		little.PutUint32(data[18:], uint32(side))
		little.PutUint32(data[22:], uint32(side))
	case GIF:
		frame := bytes.Index(data, append([]byte{0x2c, 0, 0, 0, 0}, data[6:10]...))
		testenv.Require(t, frame >= 0, "no frame that fills the screen")
		for _, at := range []int{6, 8, frame + 5, frame + 7} {
			little.PutUint16(data[at:], uint16(side))
		}
	case JPEG:
		for at := 2; ; at += 2 + int(big.Uint16(data[at+2:])) {
			if kind := data[at+1]; kind == 0xc0 || kind == 0xc2 {
				big.PutUint16(data[at+5:], uint16(side))
				big.PutUint16(data[at+7:], uint16(side))
				break
			}
		}
	}
	return data
}

// TestSizesThatAreClaimed: a file of some bytes that says it holds 12,000 × 12,000 pixels is refused before there is room for them. Of WebP this can't
// be told: a colour that fills a lossless image has no bits, and a block of a lossy one a hundredth of one.
func TestSizesThatAreClaimed(t *testing.T) {
	const side = 12_000
	allocated := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	forEachKind(t, func(name string, data, _ []byte) {
		if Sniff(data) == WebP || strings.Contains(name, "small-frame") {
			return
		}
		data = enlarged(t, data, side)
		d := NewDecoder(kernel.Active())
		for _, read := range []func() error{
			func() error { _, _, err := d.Check(nil, data); return err },
			func() error {
				if _, _, err := d.Open(Unknown, data, nil); err != nil || d.Raw() != nil {
					return err
				}
				return d.Decode(make([]byte, 3*side), 3*side, image.Rect(0, side-1, side, side))
			},
		} {
			metrics.Read(allocated)
			before := allocated[0].Value.Uint64()
			err := read()
			metrics.Read(allocated)
			n := allocated[0].Value.Uint64() - before
			testenv.Check(t, n <= 16<<20, "%s: %d bytes are allocated for a file of %d", name, n, len(data))
			testenv.Check(t, err != nil, "%s: a file of %d bytes holds %d pixels", name, len(data), side*side)
		}
	})
}

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

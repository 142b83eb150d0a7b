package imagefile

import (
	"bytes"
	"encoding/binary"
	"fmt"
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

// TestKindsMatchPillow decodes an image of every kind and compares with what Pillow's convert("RGB") made of it (testdata/kinds.py).
func TestKindsMatchPillow(t *testing.T) {
	for _, level := range kernel.Available() {
		d := NewDecoder(level)
		forEachKind(t, func(name string, data, want []byte) {
			pix, w, h, err := decodeFull(d, data)
			testenv.Require(t, err == nil && w == int(want[0]) && h == int(want[1]), "%s: %d×%d, want %d×%d (%v)", name, w, h, want[0], want[1], err)
			testenv.Same(t, pix, want[2:], "%v %s", level, name)
		})
	}
}

// decodeFull returns all pixels of a file.
func decodeFull(d *Decoder, data []byte) (pix []byte, width, height int, err error) {
	if width, height, err = d.Open(Unknown, data, nil); err != nil {
		return nil, 0, 0, err
	}
	if m := d.Raw(); m != nil {
		return m.Pix, width, height, nil
	}
	pix = make([]byte, width*height*3)
	return pix, width, height, d.Decode(pix, width*3, image.Rect(0, 0, width, height))
}

// forEachKind calls do with each file of testdata and Pillow's pixels of it.
func forEachKind(t testing.TB, do func(name string, data, want []byte)) {
	t.Helper()
	files, err := filepath.Glob("testdata/*/*.rgb")
	testenv.Require(t, err == nil && len(files) >= 20, "%d files in testdata, %v", len(files), err)
	for _, file := range files {
		want := testenv.Must(os.ReadFile(file))(t)
		data := testenv.Must(os.ReadFile(strings.TrimSuffix(file, ".rgb")))(t)
		do(filepath.Base(file), data, want)
	}
}

// TestDamagedImages cuts and changes every kind: there must be an error or an image, and no panic, whether the file is decoded or
// checked, and both must agree.
func TestDamagedImages(t *testing.T) {
	d := NewDecoder(kernel.Active())
	both := func(name string, data []byte) error {
		_, w, h, err := decodeFull(d, data)
		info, _, checkErr := d.Check(nil, data)
		testenv.Check(t, (err == nil) == (checkErr == nil) && (err != nil || info.Width == w && info.Height == h),
			"%s: decoding says %d×%d, %v, and the check %+v, %v", name, w, h, err, info, checkErr)
		return err
	}
	forEachKind(t, func(name string, data, _ []byte) {
		for n := 0; n < len(data)-1; n += 1 + len(data)/50 {
			testenv.Check(t, both(name, data[:n]) != nil || n >= len(data)/2, "%s cut to %d of %d bytes decodes", name, n, len(data))
			bad := bytes.Clone(data)
			bad[n] ^= 0x55
			both(name, bad)
		}
	})
}

// kind returns a file of testdata, changed at some offsets.
func kind(t *testing.T, name string, change func(data []byte)) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata/kinds", name))
	if os.IsNotExist(err) {
		data, err = os.ReadFile(filepath.Join("testdata/unusual", name))
	}
	testenv.OK(t, err)
	change(data)
	return data
}

// TestUnsupported tells kinds and sizes that are left out on purpose from damage, for every format and what is none.
func TestUnsupported(t *testing.T) {
	huge := func(at int) func([]byte) {
		return func(data []byte) { copy(data[at:], []byte{0x00, 0x40, 0, 0, 0x00, 0x40, 0, 0}) } // 16384 × 16384
	}
	for _, c := range []struct {
		name string
		data []byte
		want string // in the error
		is   bool
	}{
		{"text", []byte("no image"), "not an image (it begins 6e 6f 20 69", true},
		{"TIFF", []byte("II*\x00rest"), "images of the format TIFF are not read", true},
		{"nothing", nil, "the file is empty", false},
		{"half a JPEG", kind(t, "bytes.jpg", func([]byte) {})[:100], "jpeg: ", false},
		{"arithmetic JPEG", kind(t, "bytes.jpg", func(data []byte) { data[bytes.Index(data, []byte{0xff, 0xc0})+1] = 0xc9 }), "jpeg: unsupported", true},
		{"huge JPEG", kind(t, "bytes.jpg", func(data []byte) {
			copy(data[bytes.Index(data, []byte{0xff, 0xc0})+5:], []byte{0xff, 0, 0xff, 0})
		}), "over the limit", true},
		{"half a PNG", kind(t, "type2-depth8.png", func([]byte) {})[:60], "png: ", false},
		{"PNG by another filter method", kind(t, "type2-depth8.png", func(data []byte) {
			data[27] = 1
			binary.BigEndian.PutUint32(data[29:], crc32.ChecksumIEEE(data[12:29]))
		}), "png: unsupported", true},
		{"half a bitmap", kind(t, "rgb.bmp", func([]byte) {})[:60], "bmp: the file is cut short", false},
		{"compressed bitmap", kind(t, "rgb.bmp", func(data []byte) { data[30] = 1 }), "bmp: unsupported compression 1: convert it to PNG", true},
		{"bitmap of two bits", kind(t, "palette.bmp", func(data []byte) { data[28] = 2 }), "bmp: unsupported depth of 2 bits", true},
		{"bitmap of another header", kind(t, "rgb.bmp", func(data []byte) { data[14] = 16 }), "bmp: unsupported header of 16 bytes", true},
		{"bitmap of unknown masks", kind(t, "masks0.bmp", func(data []byte) { data[54] = 1 }), "bmp: unsupported masks [ff000001 ", true},
		{"bitmap of many colours", kind(t, "palette.bmp", func(data []byte) { data[47] = 2 }), "bmp: unsupported palette of ", true},
		{"bitmap without room for a byte a pixel", kind(t, "grey-ramp.bmp", func(data []byte) { data[28] = 4 }), "bmp: unsupported grey palette of 100 colours", true},
		{"bitmap of 2³² rows", kind(t, "rgb.bmp", func(data []byte) { copy(data[18:], "\xff\xff\xff\xff\xff\xff\xff\xfe") }), "more than the limit", true},
		{"GIF with a first frame of width 0", kind(t, "palette.gif", func(data []byte) {
			data[bytes.IndexByte(data[13+3*32:], 0x2c)+13+3*32+5] = 0
		}), "gif: the first frame has no pixels", false},
		{"JPEG with a marker that Pillow refuses", append([]byte("\xff\xd8\xff\x01"), kind(t, "bytes.jpg", func([]byte) {})[2:]...), "jpeg: invalid format at byte 4: marker ff01", false},
		{"huge bitmap", kind(t, "rgb.bmp", huge(18)), "16384×16384 pixels, more than the limit", true},
		{"half a GIF", kind(t, "palette.gif", func([]byte) {})[:40], "gif: ", false},
		{"half a WebP", kind(t, "lossless.webp", func([]byte) {})[:40], "webp: ", false},
		{"huge WebP", kind(t, "animated.webp", func(data []byte) { copy(data[24:], "\xff\x3f\x00\xff\x3f\x00") }), "16384×16384 pixels, more than the limit", true},
		{"HEIC", []byte("\x00\x00\x00\x1cftypheic"), "images of the format HEIC are not read: convert them", true},
		{"JPEG XL", []byte("\xff\x0a\xfa\x1f"), "images of the format JPEG XL are not read", true},
		{"PPM", []byte("P6\n1 1\n255\nabc"), "images of the format PPM are not read", true},
		{"AVIF", []byte("\x00\x00\x00\x20ftypavif\x00\x00\x00\x00"), "images of the format AVIF are not read", true},
		{"JPEG 2000", []byte("\x00\x00\x00\x0cjP  \r\n\x87\n\x00\x00\x00\x14ftypjp2 "), "images of the format JPEG 2000 are not read", true},
		{"JPEG 2000's codestream", []byte("\xff\x4f\xff\x51\x00\x2f\x00\x00"), "images of the format JPEG 2000 are not read", true},
	} {
		_, _, _, err := decodeFull(NewDecoder(kernel.Generic), c.data)
		testenv.Check(t, err != nil && strings.Contains(err.Error(), c.want) && IsUnsupported(fmt.Errorf("x: %w", err)) == c.is,
			"%s: %v, unsupported is %v; want %q, %v", c.name, err, IsUnsupported(err), c.want, c.is)
	}
	for _, f := range []Format{7, 8, 9, Encoded, 99} {
		_, _, err := NewDecoder(kernel.Generic).Open(f, []byte("data"), nil)
		testenv.Check(t, IsUnsupported(err) && strings.Contains(err.Error(), f.String()), "%v: %v", f, err)
	}
}

// TestFormats checks that every format has a name of its own, and that the first bytes alone decide the format.
func TestFormats(t *testing.T) {
	names := map[string]bool{}
	for i := range len(formats) + 2 {
		name := Format(i).String()
		testenv.Check(t, name != "" && !names[name], "format %d is called %q", i, name)
		names[name] = true
	}
	testenv.Check(t, PixelsMax == 2*89478485, "the limit is %d pixels, Pillow's is %d", PixelsMax, 2*89478485)
	forEachKind(t, func(name string, data, _ []byte) {
		want := strings.TrimPrefix(filepath.Ext(strings.TrimSuffix(name, ".rgb")), ".")
		if want == "jpg" {
			want = "jpeg"
		}
		got := Sniff(data[:12])
		testenv.Check(t, got.String() == want && HasExtension(want), "%s is taken for %v", name, got)
	})
}

// TestMemoryIsLetGo decodes a huge image and then a small one: its memory must not stay.
func TestMemoryIsLetGo(t *testing.T) {
	d := NewDecoder(kernel.Generic)
	d.whole.Resize(6000, 4000)
	_, _, err := d.Open(Unknown, kind(t, "rgb.bmp", func([]byte) {}), nil)
	testenv.Check(t, err == nil && cap(d.whole.Pix) <= KeepBytesMax, "%d bytes are kept, %v", cap(d.whole.Pix), err)
}

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

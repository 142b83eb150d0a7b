package imagefile

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"image"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/pillowtest"
	"github.com/imgfeed/imgfeed/internal/testenv"
)

// imageData returns where a PNG's only IDAT chunk begins and ends.
func imageData(t *testing.T, data []byte) (start, end int) {
	t.Helper()
	start = bytes.Index(data, []byte("IDAT")) - 4
	testenv.Require(t, start >= 0, "no IDAT")
	return start, start + pngChunkBytes + int(binary.BigEndian.Uint32(data[start:]))
}

func inflated(t *testing.T, packed []byte) []byte {
	t.Helper()
	r := testenv.Must(zlib.NewReader(bytes.NewReader(packed)))(t)
	return testenv.Must(io.ReadAll(r))(t)
}

func deflated(raw []byte) []byte {
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	_, _ = w.Write(raw)
	_ = w.Close()
	return b.Bytes()
}

// TestDamagedPNG damages PNG files of every kind in the ways that Pillow does not look at: their pixels must not change. In
// other ways it must refuse them, and so must this.
func TestDamagedPNG(t *testing.T) {
	d := NewDecoder(kernel.Active())
	files := 0
	forEachKind(t, func(name string, data, want []byte) {
		if filepath.Ext(name[:len(name)-len(".rgb")]) != ".png" {
			return
		}
		files++
		start, end := imageData(t, data)
		head, packed := data[:start], data[start+8:end-4]
		iend := appendChunk(nil, "IEND", nil)
		file := func(chunks ...[]byte) []byte { return bytes.Join(append([][]byte{head}, chunks...), nil) }
		raw := inflated(t, packed)
		testenv.Equal(t, pngDataBytes(data[16:29]), len(raw), "%s: the size of the image data", name)
		insert := func(kind string, content []byte) []byte { // behind IHDR
			return bytes.Join([][]byte{data[:33], appendChunk(nil, kind, content), data[33:]}, nil)
		}
		wrong := func(chunk []byte) []byte {
			chunk[len(chunk)-1] ^= 1
			return chunk
		}
		idat := appendChunk(nil, "IDAT", packed)
		for what, damaged := range map[string][]byte{
			"no IEND":                      file(idat),
			"half an IEND":                 file(idat, iend[:6]),
			"wrong checksum of IDAT":       file(wrong(bytes.Clone(idat)), iend),
			"wrong checksum after IDAT":    file(idat, wrong(appendChunk(nil, "tEXt", []byte("a\x00b"))), iend),
			"too many pixels":              file(appendChunk(nil, "IDAT", deflated(append(bytes.Clone(raw), raw...))), iend),
			"no checksum of deflated data": file(appendChunk(nil, "IDAT", packed[:len(packed)-4]), iend),
			"cut in the checksum":          file(idat[:len(idat)-2]),
			"cut after the pixels":         file(idat[:len(idat)-8]),
			"cut in a second IDAT":         file(idat, idat[:11]),
			"another tRNS":                 insert("tRNS", make([]byte, 257)),
			"another PLTE":                 insert("PLTE", make([]byte, 9)),
			"an empty PLTE":                insert("PLTE", nil),
			"IHDR with more":               file(appendChunk(nil, "IHDR", append(bytes.Clone(data[16:29]), 1)), idat),
		} {
			pix, w, h, err := decodeFull(d, damaged)
			testenv.Check(t, err == nil && w == int(want[0]) && h == int(want[1]) && bytes.Equal(pix, want[2:]),
				"%s, %s: error %v, or other pixels than Pillow's", name, what, err)
		}
		for what, damaged := range map[string][]byte{
			"wrong checksum of IHDR":          bytes.Join([][]byte{data[:29], {1, 2, 3, 4}, data[33:]}, nil),
			"wrong checksum of deflated data": file(appendChunk(nil, "IDAT", append(bytes.Clone(packed[:len(packed)-4]), 1, 2, 3, 4)), iend),
			"too few pixels":                  file(appendChunk(nil, "IDAT", deflated(raw[:len(raw)/2])), iend),
			"no image data":                   file(iend),
			"wrong checksum of tRNS":          bytes.Join([][]byte{data[:33], wrong(appendChunk(nil, "tRNS", make([]byte, 257))), data[33:]}, nil),
			"cut in the pixels":               file(idat[:len(idat)-12]),
		} {
			_, _, _, err := decodeFull(d, damaged)
			testenv.Check(t, err != nil, "%s, %s: no error", name, what)
		}
	})
	testenv.Check(t, files >= 15, "%d PNG files", files)
}

// TestWebPMatchesPillow compares files of every size and kind that testdata/webp.py has Pillow write.
func TestWebPMatchesPillow(t *testing.T) {
	python, _ := pillowtest.Find(t, "numpy") // which kinds.py takes
	cmd := exec.Command(python, filepath.Join("testdata", "webp.py"))
	cmd.Stderr = os.Stderr
	out := testenv.Must(cmd.StdoutPipe())(t)
	testenv.OK(t, cmd.Start())
	d := NewDecoder(kernel.Active())
	files, r := 0, bufio.NewReader(out)
	for ; ; files++ {
		var head [4]uint32
		if err := binary.Read(r, binary.LittleEndian, &head); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		w, h := int(head[2]), int(head[3])
		record := make([]byte, int(head[0]+head[1])+3*w*h)
		testenv.Must(io.ReadFull(r, record))(t)
		name, data, want := record[:head[0]], record[head[0]:head[0]+head[1]], record[head[0]+head[1]:]
		pix, gotWidth, gotHeight, err := decodeFull(d, data)
		testenv.Check(t, err == nil && gotWidth == w && gotHeight == h && bytes.Equal(pix, want),
			"%s: %d×%d, want %d×%d; error %v, or other pixels than Pillow's", name, gotWidth, gotHeight, w, h, err)
	}
	testenv.OK(t, cmd.Wait())
	testenv.Check(t, files >= 2000, "%d files", files)
}

// TestChromaIsWeighed works the upsampling and the conversion by hand for four pixels of an image of 4×2.
func TestChromaIsWeighed(t *testing.T) {
	m := image.YCbCr{
		Y: []byte{16, 235, 128, 126, 16, 235, 128, 126}, YStride: 4,
		Cb: []byte{128, 128}, Cr: []byte{128, 240}, CStride: 2, Rect: image.Rect(0, 0, 4, 2),
	}
	got := make([]byte, 3*8)
	writeRGB(got, 12, &m)
	// V is 128, (3·128+240+2)/4 = 156, 212 and 240. Pixel 2: R is (9538 + 21654 − 14234)>>6 = 264, clipped; G is
	// (9538 − 3209 − 11030 + 8708)>>6 = 62; B is (9538 + 16525 − 17685)>>6 = 130.
	testenv.DeepEqual(t, got, slices.Repeat([]byte{0, 0, 0, 255, 232, 255, 255, 62, 130, 255, 37, 128}, 2), "two rows")
}

// webpFile returns a file of the chunks given, each a name and its content.
func webpFile(chunks ...string) []byte {
	body := []byte("WEBP")
	for i := 0; i < len(chunks); i += 2 {
		body = append(body, chunks[i]...)
		body = binary.LittleEndian.AppendUint32(body, uint32(len(chunks[i+1])))
		body = append(append(body, chunks[i+1]...), make([]byte, len(chunks[i+1])%2)...)
	}
	return append(binary.LittleEndian.AppendUint32([]byte("RIFF"), uint32(len(body))), body...)
}

// TestDamagedWebP takes files apart and puts them together wrongly.
func TestDamagedWebP(t *testing.T) {
	chunk := func(file, name string) string {
		data := kind(t, file, func([]byte) {})
		content := data[bytes.Index(data, []byte(name))+len(name):]
		return string(content[4 : 4+binary.LittleEndian.Uint32(content)])
	}
	lossy, lossless := chunk("lossy.webp", "VP8 "), chunk("lossless.webp", "VP8L")
	alpha, withAlpha := chunk("alpha-lossy.webp", "ALPH"), chunk("alpha-lossy.webp", "VP8 ")
	header := func(flags, w, h byte) string { return string([]byte{flags, 0, 0, 0, w - 1, 0, 0, h - 1, 0, 0}) }
	frame := func(x, y byte, chunks ...string) string {
		return string([]byte{x / 2, 0, 0, y / 2, 0, 0, 18, 0, 0, 12, 0, 0, 9, 0, 0, 0}) + string(webpFile(chunks...)[12:])
	}
	changed := func(s string, at int, to byte) string { return s[:at] + string([]byte{to}) + s[at+1:] }
	extended, still19 := header(0, 19, 13), header(webpAlpha, 19, 13)
	animated, anim := header(2, 24, 17), "\x00\x00\x00\x00\x00\x00"
	for _, c := range []struct {
		name string
		data []byte
		want string // in the error, "" for none
	}{
		{"unknown chunks", webpFile("VP8X", extended, "ICCP", "abc", "VP8 ", lossy, "EXIF", "x", "what", ""), ""},
		{"bytes after the file", append(webpFile("VP8 ", lossy), 1, 2, 3), ""},
		{"half a chunk after the image", cutRIFF(webpFile("VP8X", extended, "VP8 ", lossy, "EXIF", "0123456789"), 6), "too long"},
		{"alpha", webpFile("VP8X", still19, "ALPH", alpha, "VP8 ", withAlpha), ""},
		{"alpha as it is", webpFile("VP8X", still19, "ALPH", "\x00"+strings.Repeat("a", 19*13), "VP8 ", lossy), ""},
		{"a frame in the corner", webpFile("VP8X", animated, "ANIM", anim, "ANMF", frame(4, 4, "VP8 ", lossy)), ""},

		{"no chunk", webpFile(), "invalid format"},
		{"half an image", cutRIFF(webpFile("VP8 ", lossy), len(lossy)/2), "too long"},
		{"a larger canvas", webpFile("VP8X", header(0, 20, 13), "VP8 ", lossy), "invalid format"},
		{"two headers", webpFile("VP8X", extended, "VP8X", extended, "VP8 ", lossy), "invalid format"},
		{"no image", webpFile("VP8X", extended, "EXIF", "abc"), "invalid format"},
		{"alpha of a lossless image", webpFile("VP8X", still19, "ALPH", alpha, "VP8L", lossless), "invalid format"},
		{"half of the alpha", webpFile("VP8X", still19, "ALPH", alpha[:len(alpha)/2], "VP8 ", withAlpha), "cut short"},
		{"half of the alpha as it is", webpFile("VP8X", still19, "ALPH", "\x00"+strings.Repeat("a", 19*13-1), "VP8 ", lossy), "cut short"},
		{"an animation without frames", webpFile("VP8X", animated, "ANIM", anim), "invalid format"},
		{"a frame of a few bytes", webpFile("VP8X", animated, "ANIM", anim, "ANMF", "abc"), "cut short"},
		{"a still image in an animation", webpFile("VP8X", animated, "ANIM", anim, "VP8 ", lossy), "invalid format"},
		{"a frame outside", webpFile("VP8X", animated, "ANIM", anim, "ANMF", frame(6, 0, "VP8 ", lossy)), "the frame covers"},
		{"a frame of video", webpFile("VP8 ", changed(lossy, 0, lossy[0]|1)), "0×0"},
		{"no start code", webpFile("VP8 ", changed(lossy, 3, 0)), "vp8: invalid"},
		{"no width", webpFile("VP8 ", changed(lossy, 6, 0)), "0×13"},
		{"no signature", webpFile("VP8L", changed(lossless, 0, 0)), "vp8l: invalid"},
		{"a few bytes of lossless", webpFile("VP8L", lossless[:4]), "cut short"},
		{"half of lossless", webpFile("VP8L", lossless[:len(lossless)/2]), "cut short"},
		{"half of lossy", webpFile("VP8 ", lossy[:len(lossy)/2]), "cut short"},
	} {
		_, _, _, err := decodeFull(NewDecoder(kernel.Generic), c.data)
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "webp: ") || IsUnsupported(err)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// cutRIFF drops the last n bytes of a file that says itself how long it then is.
func cutRIFF(data []byte, n int) []byte {
	data = data[:len(data)-n]
	binary.LittleEndian.PutUint32(data[4:], uint32(len(data)-8))
	return data
}

// FuzzWhole decodes any bytes as a file of the formats other than JPEG, twice: the images must be the same, whatever was decoded before.
func FuzzWhole(f *testing.F) {
	forEachKind(f, func(_ string, data, _ []byte) { f.Add(data) })
	const pixels = 1 << 20
	d := NewDecoder(kernel.Active())
	f.Fuzz(func(t *testing.T, data []byte) {
		kind := Sniff(data)
		if kind == JPEG || kind == Unknown || formats[kind].config == nil {
			return
		}
		if config, err := formats[kind].config(bytes.NewReader(data)); err == nil && config.Width*config.Height > pixels {
			return // a few bytes may stand for a huge image of one colour
		}
		first, w, h, err := decodeFull(d, data)
		first = bytes.Clone(first)
		testenv.Require(t, err != nil || w >= 1 && h >= 1 && len(first) == 3*w*h, "%d×%d pixels in %d bytes", w, h, len(first))
		if d.whole.Pix != nil {
			d.whole.Pix = bytes.Repeat([]byte{0xa5}, cap(d.whole.Pix))
		}
		second, _, _, again := decodeFull(d, data)
		testenv.Require(t, (err == nil) == (again == nil) && bytes.Equal(first, second),
			"decoded again: %v, at first %v, or other pixels", again, err)
	})
}

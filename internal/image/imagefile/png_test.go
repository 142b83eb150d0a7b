package imagefile

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"io"
	"path/filepath"
	"testing"

	"github.com/imgfeed/imgfeed/internal/kernel"
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

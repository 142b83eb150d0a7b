package imagefile

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"image"
	"image/png"
	"io"
)

// PNG is the W3C's Portable Network Graphics.
const PNG Format = 2

var pngFormat = format{
	name:        "png",
	magic:       []string{pngSignature},
	extensions:  []string{"png"},
	config:      configPNG,
	bytesMin:    pngBytesMin,
	decode:      decodePNG,
	unsupported: hasType[png.UnsupportedError],
}

// configPNG returns the size by IHDR, which is the first chunk. The chunks after it may be damaged.
func configPNG(r io.Reader) (c image.Config, err error) {
	var start [pngHeaderAt + pngHeaderBytes]byte
	if _, err := io.ReadFull(r, start[:]); err != nil {
		return c, err
	}
	c.Width, c.Height = int(int32(binary.BigEndian.Uint32(start[pngHeaderAt:]))), int(int32(binary.BigEndian.Uint32(start[pngHeaderAt+4:])))
	if string(start[pngHeaderAt-4:pngHeaderAt]) != "IHDR" {
		err = png.FormatError("the first chunk is not IHDR")
	}
	return c, err
}

// decodePNG writes the pixels of a PNG. Of 16 bits it keeps the high byte, except for greyscale, which Pillow reads as
// integers and clips to 255.
func decodePNG(dst *RGB, _ image.Config, data []byte) error {
	img, err := openPNG(data)
	switch {
	case err != nil:
	case isGrey16(data):
		dst.clipGrey16(img)
	default:
		dst.convert(img)
	}
	return err
}

// isGrey16 reports whether a PNG is 16-bit greyscale without alpha, by IHDR's bit depth and colour type.
func isGrey16(data []byte) bool {
	return len(data) > 25 && binary.BigEndian.Uint16(data[24:]) == 16<<8 // colour type 0
}

// clipGrey16 makes m an image of 16-bit grey, clipped to a byte, as Pillow's conversion from mode I does.
func (m *RGB) clipGrey16(img image.Image) {
	b := img.Bounds()
	m.Resize(b.Dx(), b.Dy())
	i := 0
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			var v uint16
			switch img := img.(type) {
			case *image.Gray16:
				v = img.Gray16At(x, y).Y
			case *image.NRGBA64: // one grey is transparent
				v = img.NRGBA64At(x, y).R
			}
			c := byte(min(v, 255))
			m.Pix[i], m.Pix[i+1], m.Pix[i+2] = c, c, c
			i += 3
		}
	}
}

// openPNG decodes a PNG file. It accepts the files of [png.Decode], and the damaged ones that Pillow reads, with Pillow's pixels: Pillow
// ignores the checksums of IDAT chunks, the data after them, and superfluous pixels. It wants neither a palette nor chunks in order.
func openPNG(data []byte) (image.Image, error) {
	img, err := png.Decode(bytes.NewReader(data))
	if err == nil {
		return img, nil
	}
	if hasType[png.UnsupportedError](err) {
		return nil, err
	}
	if mended := mendPNG(data); mended != nil {
		if img, mendedErr := png.Decode(bytes.NewReader(mended)); mendedErr == nil {
			return img, nil
		}
	}
	return nil, err
}

// Chunk layout (PNG specification, section 5.3): length, type, data, CRC.
const (
	pngSignature    = "\x89PNG\r\n\x1a\n"
	pngHeaderBytes  = 13 // size of IHDR's data
	pngChunkBytes   = 12 // size of a chunk without data
	pngHeaderAt     = len(pngSignature) + 8
	pngColorIndexed = 3
)

// mendPNG rewrites a file with only the chunks that define its pixels, correct checksums, and as much image data as the
// header requires, or returns nil if that is impossible. Checksums of chunks before the image data must be right.
func mendPNG(data []byte) []byte {
	var header, palette, packed []byte
	for remaining := data[min(len(data), len(pngSignature)):]; len(remaining) >= 8; {
		n, kind := int(binary.BigEndian.Uint32(remaining)), string(remaining[4:8])
		content := remaining[8:]
		content = content[:min(n, len(content))]
		last := len(remaining) < n+pngChunkBytes // the file ends in this chunk
		switch {
		case kind == "IDAT":
			packed = append(packed, content...)
		case len(packed) > 0: // the image data are over
			last = true
		case last || binary.BigEndian.Uint32(remaining[8+n:]) != crc32.ChecksumIEEE(remaining[4:8+n]):
			return nil
		case kind == "IHDR" && n >= pngHeaderBytes:
			header = content[:pngHeaderBytes]
		case kind == "PLTE":
			palette = content
		case kind == "tRNS" && header != nil && n < [8]int{0: 2, 2: 6}[header[9]&7]: // other ones do not change the pixels
			return nil
		}
		if last {
			break
		}
		remaining = remaining[n+pngChunkBytes:]
	}
	if header == nil || len(palette)/3 > 256 {
		return nil
	}
	pixels := unpackPNG(packed, pngDataBytes(header))
	if pixels == nil {
		return nil
	}
	var stored bytes.Buffer
	w, _ := zlib.NewWriterLevel(&stored, zlib.NoCompression) // The level is valid, and writes to memory do not fail.
	w.Write(pixels)
	w.Close()
	out := appendChunk([]byte(pngSignature), "IHDR", header)
	if header[9] == pngColorIndexed {
		entries := make([]byte, 3*max(1, min(len(palette)/3, 1<<min(header[8], 8)))) // those that are missing are black
		copy(entries, palette[:len(palette)/3*3])
		out = appendChunk(out, "PLTE", entries)
	}
	return appendChunk(appendChunk(out, "IDAT", stored.Bytes()), "IEND", nil)
}

// unpackPNG returns the first size bytes of the image data, or nil if there are fewer or their checksum is present and wrong.
func unpackPNG(packed []byte, size int) []byte {
	if size > PixelsMax*8 || size/deflateRatioMax > len(packed) {
		return nil
	}
	r, err := zlib.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil
	}
	pixels := make([]byte, size)
	if _, err := io.ReadFull(r, pixels); err != nil {
		return nil
	}
	if _, err := r.Read(make([]byte, 1)); errors.Is(err, zlib.ErrChecksum) {
		return nil
	}
	return pixels
}

// deflateRatioMax is deflate's largest compression ratio: two bits for 258 bytes.
const deflateRatioMax = 1032

// pngBytesMin uses IHDR, which is the first chunk.
func pngBytesMin(_ image.Config, data []byte) int {
	if len(data) < pngHeaderAt+pngHeaderBytes {
		return 0
	}
	return pngDataBytes(data[pngHeaderAt:]) / deflateRatioMax
}

// pngDataBytes returns the size of the image data by IHDR, including filter bytes.
func pngDataBytes(header []byte) int {
	width, height := int(binary.BigEndian.Uint32(header)), int(binary.BigEndian.Uint32(header[4:]))
	if width > PixelsMax || height > PixelsMax || width*height > PixelsMax {
		return 1 << 62
	}
	bits := int(header[8]) * [8]int{0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[header[9]&7]
	rows := func(w, h int) int {
		if w <= 0 || h <= 0 {
			return 0
		}
		return h * (1 + (w*bits+7)/8)
	}
	if header[12] == 0 {
		return rows(width, height)
	}
	size := 0 // Adam7: where each pass starts, and its steps
	for _, p := range [7][4]int{{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4}, {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}} {
		size += rows((width-p[0]+p[2]-1)/p[2], (height-p[1]+p[3]-1)/p[3])
	}
	return size
}

func appendChunk(out []byte, kind string, content []byte) []byte {
	out = binary.BigEndian.AppendUint32(out, uint32(len(content)))
	start := len(out)
	out = append(append(out, kind...), content...)
	return binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(out[start:]))
}

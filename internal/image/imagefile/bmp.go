package imagefile

import (
	"encoding/binary"
	"fmt"
	"image"
	"io"
	"math/bits"
	"slices"
)

// BMP is Windows' bitmap.
const BMP Format = 6

var bmpFormat = format{
	name:       "bmp",
	magic:      []string{"BM"},
	extensions: []string{"bmp"},
	config: func(r io.Reader) (image.Config, error) {
		start := make([]byte, bmpHeaderMax)
		n, _ := io.ReadFull(r, start) // readBitmap sees whether these are enough
		b, err := readBitmap(start[:n])
		return image.Config{Width: b.width, Height: b.height}, err
	},
	bytesMin: func(_ image.Config, data []byte) int {
		b, _ := readBitmap(data) // config has seen its error
		return b.pixels + (b.height-1)*b.stride() + b.rowBytes()
	},
	decode: decodeBMP,
}

// bmpHeaderMax is the size of the file's header and the largest one of a bitmap.
const bmpHeaderMax = 14 + 124

// A bitmap is what the headers of a BMP say, as Pillow reads them.
type bitmap struct {
	width, height   int
	topDown         bool
	bits            int       // bits per pixel
	masks           [3]uint32 // red, green and blue in a pixel of 16 bits or more
	colours, entry  int       // entries of the palette, and the bytes of one
	palette, pixels int       // offsets in the file
}

// bmpMasks are the masks that Pillow reads: red, green, blue, and for 32 bits alpha.
var bmpMasks = map[int][][4]uint32{
	16: {{0x7c00, 0x3e0, 0x1f}, {0xf800, 0x7e0, 0x1f}},
	24: {{0xff0000, 0xff00, 0xff}},
	32: {{0xff0000, 0xff00, 0xff}, {0xff000000, 0xff0000, 0xff00}, {0xff000000, 0xff00, 0xff}, {0xff000000, 0xff0000, 0xff00, 0xff},
		{0xff, 0xff00, 0xff0000, 0xff000000}, {0xff0000, 0xff00, 0xff, 0xff000000}, {0xff000000, 0xff00, 0xff, 0xff0000}, {}},
}

func unsupportedBMP(format string, args ...any) error {
	return &UnsupportedError{fmt.Sprintf("bmp: unsupported "+format+": convert it to PNG", args...)}
}

// stride returns the bytes from one row to the next.
func (b *bitmap) stride() int { return (b.width*b.bits + 31) / 32 * 4 }

// rowBytes returns the bytes of a row without its padding, which the last row may lack.
func (b *bitmap) rowBytes() int { return (b.width*b.bits + 7) / 8 }

// readBitmap reads the headers. It wants only them of data.
func readBitmap(data []byte) (b bitmap, err error) {
	if len(data) < 26 {
		return b, io.ErrUnexpectedEOF
	}
	u16 := func(at int) int { return int(binary.LittleEndian.Uint16(data[at:])) }
	u32 := func(at int) int { return int(binary.LittleEndian.Uint32(data[at:])) }
	size, compression := u32(14), 0
	b.palette = 14 + size
	switch {
	case size == 12: // the header of OS/2
		b.width, b.height, b.bits, b.entry = u16(18), u16(20), u16(24), 3
	case !slices.Contains([]int{40, 52, 56, 64, 108, 124}, size):
		return b, unsupportedBMP("header of %d bytes", size)
	case len(data) < b.palette:
		return b, io.ErrUnexpectedEOF
	default:
		b.width, b.height, b.bits, b.entry = u32(18), u32(22), u16(28), 4
		if b.topDown = data[25] == 0xff; b.topDown {
			b.height = 1<<32 - b.height
		}
		compression, b.colours = u32(30), u32(46)
	}
	masks, deep := bmpMasks[b.bits]
	switch {
	case max(b.width, b.height) > PixelsMax:
		return b, &LimitError{b.width, b.height}
	case !deep && !slices.Contains([]int{1, 4, 8}, b.bits):
		return b, unsupportedBMP("depth of %d bits", b.bits)
	case deep && compression == 3:
		return b, b.readMasks(data, masks)
	case compression != 0:
		return b, unsupportedBMP("compression %d", compression)
	case deep:
		b.masks = [3]uint32(masks[0][:])
	case b.colours == 0:
		b.colours = 1 << b.bits
	}
	if b.colours > 256 && !deep {
		return b, unsupportedBMP("palette of %d colours", b.colours)
	}
	if b.pixels = u32(10); !deep && (b.pixels == 0 || b.pixels == b.palette) {
		b.pixels = b.palette + b.colours*b.entry
	} else if b.pixels == 0 {
		b.pixels = b.palette
	}
	return b, nil
}

// readMasks reads masks, which must be among the known ones.
func (b *bitmap) readMasks(data []byte, known [][4]uint32) error {
	const at = 14 + 40
	end := max(b.palette, at+12) // the masks are a part of their own after the shortest header
	if len(data) < end {
		return io.ErrUnexpectedEOF
	}
	var masks [4]uint32
	for i := range masks {
		if i < 3 || b.bits == 32 && end >= at+16 {
			masks[i] = binary.LittleEndian.Uint32(data[at+4*i:])
		}
	}
	if !slices.Contains(known, masks) {
		return unsupportedBMP("masks %08x", masks)
	}
	if masks == [4]uint32{} {
		masks = known[0]
	}
	b.masks = [3]uint32(masks[:])
	if b.pixels = int(binary.LittleEndian.Uint32(data[10:])); b.pixels == 0 {
		b.pixels = end
	}
	return nil
}

// readPalette returns 256 colours; those that the file lacks are black. Pillow takes a grey palette's indices for the pixels, of 8 bits
// each or, of two colours, of one: the depth changes then.
func (b *bitmap) readPalette(data []byte) *[256][3]byte {
	palette, ramp := &[256][3]byte{}, &[256][3]byte{}
	grey := true
	for i := range b.colours {
		entry := data[min(len(data), b.palette+i*b.entry):]
		if len(entry) < b.entry {
			grey = false
			break
		}
		palette[i] = [3]byte{entry[2], entry[1], entry[0]}
		v := byte(i)
		if b.colours == 2 {
			v = byte(-i) // 255
		}
		grey = grey && palette[i] == [3]byte{v, v, v}
	}
	if !grey {
		return palette
	}
	for i := range ramp {
		ramp[i] = [3]byte{byte(i), byte(i), byte(i)}
	}
	if b.bits = 8; b.colours <= 2 {
		b.bits, ramp[1] = 1, [3]byte{255, 255, 255}
	}
	return ramp
}

func decodeBMP(dst *RGB, _ image.Config, data []byte) error {
	b, err := readBitmap(data)
	if err != nil {
		return err
	}
	stride := b.stride()
	var palette *[256][3]byte
	if b.bits <= 8 {
		palette = b.readPalette(data)
	}
	switch {
	case b.rowBytes() > stride:
		return unsupportedBMP("grey palette of %d colours", b.colours)
	case b.pixels+(b.height-1)*stride+b.rowBytes() > len(data):
		return io.ErrUnexpectedEOF
	}
	dst.Resize(b.width, b.height)
	for y := range b.height {
		row := dst.Pix[y*b.width*3:][:b.width*3]
		if !b.topDown {
			row = dst.Pix[(b.height-1-y)*b.width*3:][:b.width*3]
		}
		b.decodeRow(row, data[b.pixels+y*stride:], palette)
	}
	return nil
}

func (b *bitmap) decodeRow(row, data []byte, palette *[256][3]byte) {
	shifts := [3]int{}
	for c, mask := range b.masks {
		shifts[c] = bits.TrailingZeros32(mask)
	}
	for x := range b.width {
		to := row[3*x:][:3]
		switch at := x * b.bits; b.bits {
		default:
			index := data[at/8] >> (8 - b.bits - at%8) & (1<<b.bits - 1)
			copy(to, palette[index][:])
		case 16:
			pixel := uint32(binary.LittleEndian.Uint16(data[2*x:]))
			for c, mask := range b.masks {
				to[c] = byte((pixel & mask >> shifts[c]) * 255 / (mask >> shifts[c]))
			}
		case 24, 32: // a byte for each
			to[0], to[1], to[2] = data[(at+shifts[0])/8], data[(at+shifts[1])/8], data[(at+shifts[2])/8]
		}
	}
}

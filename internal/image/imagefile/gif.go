package imagefile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"image"
	"image/gif"
)

// GIF is CompuServe's format, of which the first frame is read.
const GIF Format = 5

var gifFormat = format{
	name:       "gif",
	magic:      []string{"GIF87a", "GIF89a"},
	extensions: []string{"gif"},
	config:     gif.DecodeConfig,
	bytesMin:   gifBytesMin,
	decode:     decodeGIF,
}

var errNoPalette = errors.New("the first frame has no palette")

// decodeGIF decodes the first frame onto the logical screen, as Pillow does. What the frame leaves free is palette entry
// 0, or the frame's transparent entry if it has one. Entries keep their colour though they are transparent, which
// image/gif forgets; so the palette is read here.
func decodeGIF(dst *RGB, config image.Config, data []byte) error {
	img, err := gif.Decode(bytes.NewReader(data))
	if err != nil {
		return err
	}
	frame, ok := img.(*image.Paletted)
	palette, fill, _ := gifFirst(data)
	if !ok || len(palette) == 0 {
		return errNoPalette
	}
	color := func(index int) (r, g, b byte) {
		if 3*index+2 >= len(palette) {
			return 0, 0, 0
		}
		return palette[3*index], palette[3*index+1], palette[3*index+2]
	}
	w, h := config.Width, config.Height
	dst.Resize(w, h)
	for i := 0; i < w*h*3; i += 3 {
		dst.Pix[i], dst.Pix[i+1], dst.Pix[i+2] = color(fill)
	}
	box := frame.Bounds().Intersect(image.Rect(0, 0, w, h))
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			i := (y*w + x) * 3
			dst.Pix[i], dst.Pix[i+1], dst.Pix[i+2] = color(int(frame.ColorIndexAt(x, y)))
		}
	}
	return nil
}

// gifBytesMin is of the first frame: no code of twelve bits stands for more than 4,096 pixels. The screen around it has none.
func gifBytesMin(_ image.Config, data []byte) int {
	const codesMax, codeBits = 4096, 12
	_, _, frame := gifFirst(data)
	return frame.X * frame.Y / codesMax * codeBits / 8
}

// gifFirst returns the colour table of the first frame, its own or the global one, three bytes an entry, the frame's
// transparent entry, 0 without one, and its size (GIF89a, sections 18 to 23).
func gifFirst(data []byte) (palette []byte, transparent int, frame image.Point) {
	const headerBytes, descriptorBytes = 13, 10
	if len(data) < headerBytes {
		return nil, 0, frame
	}
	global, rest := gifTable(data[10], data[headerBytes:])
	for len(rest) > 1 {
		switch rest[0] {
		case 0x21: // extension: label, then sub-blocks
			if rest[1] == 0xF9 && len(rest) > 6 && rest[3]&1 != 0 {
				transparent = int(rest[6])
			}
			for rest = rest[2:]; len(rest) > 0 && rest[0] != 0; {
				rest = rest[min(1+int(rest[0]), len(rest)):]
			}
			rest = rest[min(1, len(rest)):]
		case 0x2C: // image descriptor
			if len(rest) < descriptorBytes {
				return global, transparent, frame
			}
			frame.X, frame.Y = int(binary.LittleEndian.Uint16(rest[5:])), int(binary.LittleEndian.Uint16(rest[7:]))
			if local, _ := gifTable(rest[9], rest[descriptorBytes:]); len(local) > 0 {
				return local, transparent, frame
			}
			return global, transparent, frame
		default:
			return global, transparent, frame
		}
	}
	return global, transparent, frame
}

// gifTable splits a colour table of 2 << (flags & 7) entries off, if the flags say that there is one.
func gifTable(flags byte, data []byte) (table, rest []byte) {
	if flags&0x80 == 0 {
		return nil, data
	}
	n := min(3*(2<<(flags&7)), len(data))
	return data[:n], data[n:]
}

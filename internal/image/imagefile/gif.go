package imagefile

import (
	"bytes"
	"compress/lzw"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/gif"
	"io"
)

// GIF is CompuServe's format. Only the first frame is decoded.
const GIF Format = 5

var gifFormat = format{
	name:       "gif",
	magic:      []string{"GIF87a", "GIF89a"},
	extensions: []string{"gif"},
	config:     gif.DecodeConfig,
	bytesMin:   gifBytesMin,
	decode:     decodeGIF,
}

// gifFrame is the first frame of a file (GIF89a, sections 18 to 23).
type gifFrame struct {
	box        image.Rectangle // position on the logical screen
	palette    []byte          // its own or the global one, three bytes an entry
	fill       int             // the transparent entry, 0 without one
	interlaced bool
	data       []byte // the width of a code, then the sub-blocks of the codes
}

var errNoGIFFrame = errors.New("gif: the file ends before its first image")

// decodeGIF decodes the first frame onto the logical screen, as Pillow does. Pixels outside the frame get palette entry 0, or the frame's
// transparent entry if it has one. Unlike in image/gif, transparent entries keep their colour, and data after the last pixel are ignored.
func decodeGIF(dst *RGB, config image.Config, data []byte) error {
	frame, err := gifFirst(data)
	w, h := config.Width, config.Height
	switch {
	case err != nil:
		return err
	case len(frame.palette) == 0:
		return errors.New("gif: the first frame has no palette")
	case frame.box.Empty():
		return errors.New("gif: the first frame has no pixels")
	case frame.box.Max.X > w, frame.box.Max.Y > h:
		return errors.New("gif: the first frame reaches over the screen")
	case len(frame.data) == 0 || frame.data[0] < 2 || frame.data[0] > 8:
		return errors.New("gif: the codes have a width that no GIF has")
	}
	var codes []byte
	for remaining := frame.data[1:]; len(remaining) > 0 && remaining[0] != 0; {
		n := min(1+int(remaining[0]), len(remaining))
		codes, remaining = append(codes, remaining[1:n]...), remaining[n:]
	}
	indices := make([]byte, frame.box.Dx()*frame.box.Dy())
	if _, err := io.ReadFull(lzw.NewReader(bytes.NewReader(codes), lzw.LSB, int(frame.data[0])), indices); err != nil {
		return fmt.Errorf("gif: reading the pixels: %w", err)
	}
	var colors [256][3]byte
	for i := range len(frame.palette) / 3 {
		copy(colors[i][:], frame.palette[3*i:])
	}
	dst.Resize(w, h)
	for i := 0; i < w*h*3; i += 3 {
		copy(dst.Pix[i:], colors[frame.fill][:])
	}
	known := max(len(frame.palette)/3, frame.fill+1)
	passes := [][2]int{{0, 1}} // the first row and the distance to the next
	if frame.interlaced {
		passes = [][2]int{{0, 8}, {4, 8}, {2, 4}, {1, 2}}
	}
	for _, pass := range passes {
		for y := frame.box.Min.Y + pass[0]; y < frame.box.Max.Y; y += pass[1] {
			at := (y*w + frame.box.Min.X) * 3
			for _, index := range indices[:frame.box.Dx()] {
				if int(index) >= known {
					return errors.New("gif: a pixel has a colour that is not in the palette")
				}
				copy(dst.Pix[at:], colors[index][:])
				at += 3
			}
			indices = indices[frame.box.Dx():]
		}
	}
	return nil
}

// gifBytesMin is the size of the first frame: a code of twelve bits stands for at most 4,096 pixels. The screen around it takes no bytes.
func gifBytesMin(_ image.Config, data []byte) int {
	const codesMax, codeBits = 4096, 12
	frame, _ := gifFirst(data)
	return frame.box.Dx() * frame.box.Dy() / codesMax * codeBits / 8
}

func gifFirst(data []byte) (frame gifFrame, err error) {
	const headerBytes, descriptorBytes = 13, 10
	if len(data) < headerBytes {
		return frame, errNoGIFFrame
	}
	global, remaining := gifTable(data[10], data[headerBytes:])
	for len(remaining) > 1 {
		switch remaining[0] {
		case 0x21: // extension: label, then sub-blocks
			if remaining[1] == 0xF9 && len(remaining) > 6 && remaining[3]&1 != 0 {
				frame.fill = int(remaining[6])
			}
			for remaining = remaining[2:]; len(remaining) > 0 && remaining[0] != 0; {
				remaining = remaining[min(1+int(remaining[0]), len(remaining)):]
			}
			remaining = remaining[min(1, len(remaining)):]
		case 0x2C: // image descriptor
			if len(remaining) < descriptorBytes {
				return frame, errNoGIFFrame
			}
			word := func(at int) int { return int(binary.LittleEndian.Uint16(remaining[at:])) }
			frame.box = image.Rect(word(1), word(3), word(1)+word(5), word(3)+word(7))
			frame.interlaced = remaining[9]&0x40 != 0
			if frame.palette, frame.data = gifTable(remaining[9], remaining[descriptorBytes:]); len(frame.palette) == 0 {
				frame.palette = global
			}
			return frame, nil
		case 0x3B: // trailer
			return frame, errNoGIFFrame
		default: // unknown: Pillow skips it too
			remaining = remaining[1:]
		}
	}
	return frame, errNoGIFFrame
}

// gifTable splits off a colour table of 2 << (flags & 7) entries, if the flags announce one.
func gifTable(flags byte, data []byte) (table, remaining []byte) {
	if flags&0x80 == 0 {
		return nil, data
	}
	n := min(3*(2<<(flags&7)), len(data))
	return data[:n], data[n:]
}

package imagefile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"image"

	"github.com/imgfeed/imgfeed/internal/image/jpeg"
)

// Size returns the size in pixels that a file's header declares.
func Size(data []byte) (width, height int, err error) {
	f := Sniff(data)
	switch {
	case f == JPEG:
		c, err := jpeg.DecodeConfig(data)
		return c.Width, c.Height, err
	case formats[f].config == nil:
		return 0, 0, errors.New("not an image")
	}
	c, err := formats[f].config(bytes.NewReader(data))
	return c.Width, c.Height, err
}

// Orientation returns the orientation that the EXIF data of a JPEG declare, 1 to 8: from 5 on, viewers that follow it show the image with
// width and height exchanged. It is 1 for any other file, and where nothing is declared.
func Orientation(data []byte) int {
	if Sniff(data) != JPEG {
		return 1
	}
	for at := 2; at+4 <= len(data) && data[at] == 0xff && data[at+1] != 0xda; {
		length := int(binary.BigEndian.Uint16(data[at+2:]))
		end := at + 2 + length
		if length < 2 || end > len(data) {
			return 1
		}
		if tiff, is := bytes.CutPrefix(data[at+4:end], []byte("Exif\x00\x00")); is && data[at+1] == 0xe1 {
			return tiffOrientation(tiff)
		}
		at = end
	}
	return 1
}

// tiffOrientation returns the tag 0x0112 of the first directory.
func tiffOrientation(tiff []byte) int {
	if len(tiff) < 8 {
		return 1
	}
	var order binary.ByteOrder = binary.LittleEndian
	if tiff[0] == 'M' {
		order = binary.BigEndian
	}
	at := int64(order.Uint32(tiff[4:]))
	if at+2 > int64(len(tiff)) {
		return 1
	}
	entries := tiff[at+2:]
	for range order.Uint16(tiff[at:]) {
		if len(entries) < 12 {
			break
		}
		if n := int(order.Uint16(entries[8:])); order.Uint16(entries) == 0x0112 && n >= 1 && n <= 8 {
			return n
		}
		entries = entries[12:]
	}
	return 1
}

// Labels are the numbers of an image's pixels, as a mask has them: the palette's indices, the greys or, of colours, R + 256·G + 65536·B.
type Labels struct {
	Width, Height int
	Bytes         []byte // if all are bytes, row by row
	Wide          []int  // otherwise
	Kind          string // what holds the wide ones: "16-bit grey" or "colours"
}

// ReadLabels reads the labels of a PNG of the given size, as numpy.array(Image.open(f)) does; a pixel of one bit is 0 or 1.
func ReadLabels(data []byte, width, height int) (Labels, error) {
	l := Labels{Width: width, Height: height}
	c, err := configPNG(bytes.NewReader(data))
	switch {
	case Sniff(data) != PNG:
		return l, fmt.Errorf("a mask of the format %v: masks are PNGs, as other formats change labels", Sniff(data))
	case err != nil:
		return l, named(PNG, err)
	case c.Width != width || c.Height != height:
		return l, fmt.Errorf("the mask has %d×%d pixels, and the image %d×%d", c.Width, c.Height, width, height)
	case width*height > PixelsMax:
		return l, &LimitError{width, height}
	case len(data) < pngBytesMin(c, data):
		return l, errors.New("the mask ends too early")
	}
	img, err := openPNG(data)
	if err != nil {
		return l, named(PNG, err)
	}
	bits, colour := data[pngHeaderAt+8], data[pngHeaderAt+9] // IHDR's bytes 8 and 9
	switch m := img.(type) {
	case *image.Paletted:
		l.Bytes = rows(m.Pix, m.Stride, width, height)
	case *image.Gray:
		l.Bytes = rows(m.Pix, m.Stride, width, height)
	case *image.NRGBA:
		if colour == 0 { // one grey is transparent
			l.Bytes = make([]byte, width*height)
			for i := range l.Bytes {
				l.Bytes[i] = m.Pix[i/width*m.Stride+i%width*4]
			}
		}
	}
	if l.Bytes == nil {
		l.wide(img, bits, colour)
	} else if bits == 1 && colour == 0 {
		for i := range l.Bytes {
			l.Bytes[i] &= 1 // turns 255 into 1
		}
	}
	return l, nil
}

// wide reads the labels of pixels that have more than a byte.
func (l *Labels) wide(img image.Image, bits, colour byte) {
	l.Wide, l.Kind = make([]int, l.Width*l.Height), "colours"
	if bits == 16 {
		l.Kind = fmt.Sprint(bits, "-bit ", map[bool]string{true: "grey", false: "colours"}[colour&2 == 0])
	}
	for i := range l.Wide {
		r, g, b, _ := img.At(i%l.Width, i/l.Width).RGBA()
		switch m := img.(type) {
		case *image.NRGBA: // RGBA would multiply by alpha
			c := m.NRGBAAt(i%l.Width, i/l.Width)
			l.Wide[i] = int(c.R) | int(c.G)<<8 | int(c.B)<<16
		case *image.NRGBA64:
			l.Wide[i] = int(m.NRGBA64At(i%l.Width, i/l.Width).R)
		case *image.Gray16:
			l.Wide[i] = int(r)
		default:
			l.Wide[i] = int(r>>8) | int(g>>8)<<8 | int(b>>8)<<16
		}
	}
}

// rows returns the pixels without what lies between the rows.
func rows(pix []byte, stride, width, height int) []byte {
	if stride == width {
		return pix[:width*height]
	}
	out := make([]byte, 0, width*height)
	for y := range height {
		out = append(out, pix[y*stride:][:width]...)
	}
	return out
}

package transform

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"image/png"

	"golang.org/x/image/bmp"
	"golang.org/x/image/webp"
)

// PixelsMax is the number of pixels from which Pillow refuses an image as a decompression bomb (2 · MAX_IMAGE_PIXELS).
const PixelsMax = 2 * 89478485

// A LimitError says that an image is larger than [PixelsMax].
type LimitError struct{ Width, Height int }

func (e *LimitError) Error() string {
	return fmt.Sprintf("%d×%d pixels, more than the limit of %d in all", e.Width, e.Height, PixelsMax)
}

// decodeWhole decodes an image of a format without region decoding as Pillow's Image.open(f).convert("RGB") does: alpha
// is dropped, not blended; palettes are looked up; 16 bits keep their high byte, but for greyscale PNG, which Pillow
// reads as integers and clips to 255.
func decodeWhole(dst *rgbImage, format Format, data []byte) error {
	config, err := configOf(format, data)
	if err != nil {
		return err
	}
	if config.Width < 1 || config.Height < 1 {
		return fmt.Errorf("the image has %d×%d pixels", config.Width, config.Height)
	}
	if config.Width*config.Height > PixelsMax {
		return &LimitError{config.Width, config.Height}
	}
	var img image.Image
	switch format {
	case FormatPNG:
		img, err = DecodePNG(data)
	case FormatGIF:
		return decodeGIF(dst, config, data)
	case FormatBMP:
		img, err = bmp.Decode(bytes.NewReader(data))
	case FormatWebP:
		img, err = webp.Decode(bytes.NewReader(data))
	}
	if err != nil {
		return err
	}
	b := img.Bounds()
	dst.resize(b.Dx(), b.Dy())
	if format == FormatPNG && isGrey16(data) {
		convertGrey16(dst.pix, img)
		return nil
	}
	convertRGB(dst.pix, img)
	return nil
}

func configOf(format Format, data []byte) (image.Config, error) {
	r := bytes.NewReader(data)
	switch format {
	case FormatPNG:
		return png.DecodeConfig(r)
	case FormatGIF:
		return gif.DecodeConfig(r)
	case FormatBMP:
		return bmp.DecodeConfig(r)
	case FormatWebP:
		return webp.DecodeConfig(r)
	}
	return image.Config{}, ErrFormat
}

// isGrey16 reports whether a PNG has 16 bits and no colour and no alpha channel: IHDR's bit depth and colour type.
func isGrey16(data []byte) bool {
	return len(data) > 25 && binary.BigEndian.Uint16(data[24:]) == 16<<8 // colour type 0
}

// convertGrey16 clips 16-bit grey to a byte, as Pillow's conversion from mode I does.
func convertGrey16(dst []byte, img image.Image) {
	b := img.Bounds()
	i := 0
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			var v uint16
			switch m := img.(type) {
			case *image.Gray16:
				v = m.Gray16At(x, y).Y
			case *image.NRGBA64: // with a transparent grey
				v = m.NRGBA64At(x, y).R
			}
			c := byte(min(v, 255))
			dst[i], dst[i+1], dst[i+2] = c, c, c
			i += 3
		}
	}
}

// convertRGB writes img as interleaved RGB, without its alpha. Types with alpha premultiplied come from these decoders
// only when opaque.
func convertRGB(dst []byte, img image.Image) {
	b := img.Bounds()
	w := b.Dx()
	for y := range b.Dy() {
		row := dst[y*w*3:][:w*3]
		switch m := img.(type) {
		case *image.Gray:
			for x, v := range m.Pix[y*m.Stride:][:w] {
				row[3*x], row[3*x+1], row[3*x+2] = v, v, v
			}
		case *image.NRGBA:
			copyPixels(row, m.Pix[y*m.Stride:], 4, 1)
		case *image.RGBA:
			copyPixels(row, m.Pix[y*m.Stride:], 4, 1)
		case *image.NRGBA64:
			copyPixels(row, m.Pix[y*m.Stride:], 8, 2)
		case *image.RGBA64:
			copyPixels(row, m.Pix[y*m.Stride:], 8, 2)
		case *image.Paletted:
			for x, v := range m.Pix[y*m.Stride:][:w] {
				row[3*x], row[3*x+1], row[3*x+2] = straight(m.Palette[v])
			}
		default:
			for x := range w {
				row[3*x], row[3*x+1], row[3*x+2] = straight(img.At(b.Min.X+x, b.Min.Y+y))
			}
		}
	}
}

// copyPixels takes the first three channels of pixels that are size bytes apart, step bytes a channel, high byte first.
func copyPixels(row, pix []byte, size, step int) {
	for i := 0; i+2 < len(row); i += 3 {
		p := pix[i/3*size:]
		row[i], row[i+1], row[i+2] = p[0], p[step], p[2*step]
	}
}

// straight returns a colour's channels without alpha.
func straight(c color.Color) (r, g, b byte) {
	switch c := c.(type) {
	case color.NRGBA:
		return c.R, c.G, c.B
	case color.RGBA:
		return c.R, c.G, c.B
	case color.NYCbCrA:
		return color.YCbCrToRGB(c.Y, c.Cb, c.Cr)
	}
	n := color.NRGBAModel.Convert(c).(color.NRGBA)
	return n.R, n.G, n.B
}

package imagefile

import (
	"image"
	"image/color"
)

// An RGB is an image in memory: three bytes a pixel, rows without gaps, with [SlackBytes] of capacity after the last.
type RGB struct {
	Pix           []byte
	Width, Height int
}

// SlackBytes is the number of bytes that vectors may read after an image's pixels.
const SlackBytes = 256

// Resize makes room for w × h pixels. Their values are undefined.
func (m *RGB) Resize(w, h int) {
	m.Pix, m.Width, m.Height = Grown(m.Pix, w*h*3), w, h
}

// Grown returns a slice of n bytes with [SlackBytes] of capacity after them, in memory if that is large enough.
func Grown(memory []byte, n int) []byte {
	if cap(memory) < n+SlackBytes {
		return make([]byte, n, n+n/4+SlackBytes)
	}
	return memory[:n]
}

// convert copies an image to m. It drops alpha without blending, and keeps the high byte of 16 bits. These decoders
// return types with premultiplied alpha only for opaque images.
func (m *RGB) convert(img image.Image) {
	b := img.Bounds()
	w := b.Dx()
	m.Resize(w, b.Dy())
	for y := range b.Dy() {
		row := m.Pix[y*w*3:][:w*3]
		switch img := img.(type) {
		case *image.Gray:
			for x, v := range img.Pix[y*img.Stride:][:w] {
				row[3*x], row[3*x+1], row[3*x+2] = v, v, v
			}
		case *image.NRGBA:
			copyPixels(row, img.Pix[y*img.Stride:], 4, 1)
		case *image.RGBA:
			copyPixels(row, img.Pix[y*img.Stride:], 4, 1)
		case *image.NRGBA64:
			copyPixels(row, img.Pix[y*img.Stride:], 8, 2)
		case *image.RGBA64:
			copyPixels(row, img.Pix[y*img.Stride:], 8, 2)
		case *image.Paletted:
			for x, v := range img.Pix[y*img.Stride:][:w] {
				row[3*x], row[3*x+1], row[3*x+2] = straight(img.Palette[v])
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
	}
	n := color.NRGBAModel.Convert(c).(color.NRGBA)
	return n.R, n.G, n.B
}

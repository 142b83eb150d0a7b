package transform

import (
	"image"

	"github.com/imgfeed/imgfeed/transform/kernel"
)

// pixels is where a pass takes its pixels from.
type pixels interface {
	// raw returns the image if all of it is in memory.
	raw() (*rgbImage, bool)
	// decode writes the RGB pixels of r to dst, rows stride bytes apart, for an image that is not raw.
	// It may be called once.
	decode(dst []byte, stride int, r image.Rectangle) error
}

// An rgbImage is a whole image in memory, rows without gaps, with slackBytes of capacity behind.
type rgbImage struct {
	pix           []byte
	width, height int
}

func (m *rgbImage) resize(w, h int) {
	m.pix, m.width, m.height = grown(m.pix, w*h*3), w, h
}

func (m *rgbImage) raw() (*rgbImage, bool) { return m, true }

func (m *rgbImage) decode([]byte, int, image.Rectangle) error {
	panic("transform: decode of an image that is in memory")
}

// A storedImage decodes sources of every format, one after the other: regions of those formats that can, whole images of
// the others.
type storedImage struct {
	format Format
	whole  rgbImage
}

func newStoredImage(level kernel.Level) storedImage { return storedImage{} }

// open starts on a source and returns its size in pixels.
func (s *storedImage) open(src Source) (width, height int, err error) {
	s.format = src.Format
	if s.format == FormatUnknown {
		s.format = Sniff(src.Image)
	}
	if err := decodeWhole(&s.whole, s.format, src.Image); err != nil {
		return 0, 0, &ImageError{s.format, err}
	}
	return s.whole.width, s.whole.height, nil
}

func (s *storedImage) raw() (*rgbImage, bool) { return &s.whole, true }

func (s *storedImage) decode(dst []byte, stride int, r image.Rectangle) error {
	return nil
}

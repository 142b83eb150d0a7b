package transform

import (
	"errors"
	"image"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
)

// A pixelSource is where a pass takes its pixels from.
type pixelSource interface {
	// raw returns the image if all of it is in memory, else nil.
	raw() *imagefile.RGB
	// decode writes the RGB pixels of r to dst, rows stride bytes apart, for an image that is not raw.
	// decode and decodeTo may be called once, together.
	decode(dst []byte, stride int, r image.Rectangle) error
	// decodeTo writes the pixels of r to an output of r's size, if the decoder can flip and lay out by itself.
	decodeTo(dst Output, r image.Rectangle) (done bool, err error)
}

// An rgbImage is a whole image in memory.
type rgbImage struct{ imagefile.RGB }

func (m *rgbImage) raw() *imagefile.RGB { return &m.RGB }

func (m *rgbImage) decode([]byte, int, image.Rectangle) error {
	panic("transform: decode of an image that is in memory")
}

func (m *rgbImage) decodeTo(Output, image.Rectangle) (bool, error) { return false, nil }

// An Encoding makes decoders of images that are stored otherwise than as image files. Sources of one set share one value, by which
// an Engine finds the decoder that it has made; it must be comparable.
type Encoding interface {
	// NewDecoder returns a decoder for one goroutine, or nil if the encoding stores nothing but image files.
	NewDecoder(Level) Decoder
}

// A Decoder decodes images of an [Encoding], one after the other. It allocates nothing in the steady state.
type Decoder interface {
	// Open starts on a source and returns its size in pixels.
	Open(src Source) (width, height int, err error)
	// Decode writes the RGB pixels of r to dst, rows stride bytes apart. Decode and DecodeTo may be called once, together.
	Decode(dst []byte, stride int, r image.Rectangle) error
	// DecodeTo writes the pixels of r to an output of r's size, if the decoder can flip and lay out by itself.
	DecodeTo(dst Output, r image.Rectangle) (done bool, err error)
}

// A storedImage is the source at hand: it chooses its decoder, and makes the decoder's errors an [ImageError].
type storedImage struct {
	level     Level
	files     *imagefile.Decoder // decodes formats other than JPEG whole, in open: raw then returns the image
	encodings map[Encoding]Decoder
	encoded   Decoder // of the source at hand; nil for an image file
}

func newStoredImage(level Level) storedImage {
	return storedImage{level: level, files: imagefile.NewDecoder(level), encodings: make(map[Encoding]Decoder)}
}

var errNoEncoding = errors.New("no image file, and no encoding says what it is")

// open starts on a source and returns its size in pixels.
func (s *storedImage) open(src Source) (width, height int, err error) {
	if src.Format != imagefile.Encoded {
		s.encoded = nil
		width, height, err = s.files.Open(src.Format, src.Image, src.Aux)
		return width, height, imageError(err)
	}
	if s.encoded = s.decoderOf(src.Encoding); s.encoded == nil {
		return 0, 0, &ImageError{errNoEncoding}
	}
	width, height, err = s.encoded.Open(src)
	return width, height, imageError(err)
}

// decodersMax bounds the decoders that are kept; one process serves a few sets.
const decodersMax = 64

// decoderOf returns the decoder of an encoding, nil if it has none.
func (s *storedImage) decoderOf(e Encoding) Decoder {
	d := s.encodings[e]
	if d == nil && e != nil {
		if len(s.encodings) >= decodersMax {
			clear(s.encodings)
		}
		d = e.NewDecoder(s.level)
		s.encodings[e] = d
	}
	return d
}

func (s *storedImage) raw() *imagefile.RGB {
	if s.encoded != nil {
		return nil
	}
	return s.files.Raw()
}

func (s *storedImage) decode(dst []byte, stride int, r image.Rectangle) error {
	if s.encoded == nil {
		return imageError(s.files.Decode(dst, stride, r))
	}
	return imageError(s.encoded.Decode(dst, stride, r))
}

func (s *storedImage) decodeTo(dst Output, r image.Rectangle) (bool, error) {
	if s.encoded == nil {
		return false, nil
	}
	done, err := s.encoded.DecodeTo(dst, r)
	return done, imageError(err)
}

func imageError(err error) error {
	if err == nil {
		return nil
	}
	return &ImageError{err}
}

// DecodeResized decodes all of src and resizes it to what size makes of its width and height. It returns the RGB pixels, rows without
// gaps, valid until the next call. The error is an [*ImageError] or size's.
func (e *Engine) DecodeResized(src Source, size func(w, h int) (int, int, error), filter Interpolation, by Resampler) (pix []byte, width, height int, err error) {
	w, h, err := e.stored.open(src)
	if err != nil {
		return nil, 0, 0, err
	}
	if width, height, err = size(w, h); err != nil {
		return nil, 0, 0, err
	}
	now := wholeImage(w, h)
	now.resize(width, height, resizing{filter, by})
	to := &e.between[0]
	to.Resize(width, height)
	err = e.render(Output{Pix: to.Pix, Width: width, Height: height}, &e.stored, &now)
	e.trim()
	return to.Pix, width, height, err
}

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

// A storedImage decodes sources of every kind, one after the other.
type storedImage struct {
	level    Level
	file     *imagefile.Decoder
	decoders map[Encoding]Decoder
	decoder  Decoder // of the source at hand; nil if that is an image file
}

func newStoredImage(level Level) storedImage {
	return storedImage{level: level, file: imagefile.NewDecoder(level), decoders: make(map[Encoding]Decoder)}
}

// open starts on a source and returns its size in pixels.
func (s *storedImage) open(src Source) (width, height int, err error) {
	if s.decoder = nil; src.Format != imagefile.Encoded {
		width, height, err = s.file.Open(src.Format, src.Image, src.Aux)
	} else if s.decoder = s.decoderOf(src.Encoding); s.decoder != nil {
		width, height, err = s.decoder.Open(src)
	} else {
		err = errNoEncoding
	}
	if err != nil {
		return 0, 0, &ImageError{err}
	}
	return width, height, nil
}

var errNoEncoding = errors.New("no image file, and no encoding says what it is")

// decodersMax bounds the decoders that are kept; one process serves a few sets.
const decodersMax = 64

// decoderOf returns the decoder of an encoding, nil if it has none.
func (s *storedImage) decoderOf(e Encoding) Decoder {
	d := s.decoders[e]
	if d == nil && e != nil {
		if len(s.decoders) >= decodersMax {
			clear(s.decoders)
		}
		d = e.NewDecoder(s.level)
		s.decoders[e] = d
	}
	return d
}

func (s *storedImage) raw() *imagefile.RGB {
	if s.decoder != nil {
		return nil
	}
	return s.file.Raw()
}

func (s *storedImage) decode(dst []byte, stride int, r image.Rectangle) error {
	var err error
	if s.decoder != nil {
		err = s.decoder.Decode(dst, stride, r)
	} else {
		err = s.file.Decode(dst, stride, r)
	}
	if err != nil {
		return &ImageError{err}
	}
	return nil
}

func (s *storedImage) decodeTo(dst Output, r image.Rectangle) (bool, error) {
	if s.decoder == nil {
		return false, nil
	}
	done, err := s.decoder.DecodeTo(dst, r)
	if err != nil {
		err = &ImageError{err}
	}
	return done, err
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

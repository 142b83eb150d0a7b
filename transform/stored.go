package transform

import (
	"errors"
	"image"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
)

// An Encoding makes decoders of images that are not stored as image files. All sources of a set share one value. It
// must be comparable, because an Engine uses it as the key of its decoders.
type Encoding interface {
	// NewDecoder returns a decoder for one goroutine, or nil if the encoding stores nothing but image files.
	NewDecoder(Level) Decoder
}

// A Decoder decodes images of an [Encoding], one after the other. It allocates nothing in the steady state.
type Decoder interface {
	// Open starts on a source and returns its size in pixels.
	Open(src Source) (width, height int, err error)
	// Decode writes the RGB pixels of r to dst, rows stride bytes apart. Only one call of Decode or DecodeTo is allowed.
	Decode(dst []byte, stride int, r image.Rectangle) error
	// DecodeTo writes the pixels of r to an output of r's size, if the decoder supports its flip and layout.
	DecodeTo(dst Output, r image.Rectangle) (done bool, err error)
}

// A storedImage is the current source. It chooses the decoder, and wraps its errors into an [ImageError].
type storedImage struct {
	level     Level
	files     *imagefile.Decoder // open decodes all formats except JPEG at once
	encodings map[Encoding]Decoder
	encoded   Decoder // decoder of the current source; nil for an image file
}

// open starts on a source and returns its size in pixels.
func (s *storedImage) open(src Source) (width, height int, err error) {
	if src.Format != imagefile.Encoded {
		s.encoded = nil
		width, height, err = s.files.Open(src.Format, src.Image, src.Aux)
		return width, height, imageError(err)
	}
	if s.encoded = s.decoderOf(src.Encoding); s.encoded == nil {
		return 0, 0, &ImageError{errors.New("not an image file, and the source has no encoding")}
	}
	width, height, err = s.encoded.Open(src)
	return width, height, imageError(err)
}

// decoderOf returns the decoder of an encoding, or nil.
func (s *storedImage) decoderOf(e Encoding) Decoder {
	d := s.encodings[e]
	if d == nil && e != nil {
		if len(s.encodings) >= 64 { // one process serves a few sets
			clear(s.encodings)
		}
		d = e.NewDecoder(s.level)
		s.encodings[e] = d
	}
	return d
}

// inMemory returns the image if open has decoded it, else nil.
func (s *storedImage) inMemory() *imagefile.RGB {
	if s.encoded != nil {
		return nil
	}
	return s.files.Raw()
}

// decode writes the RGB pixels of r to dst, rows stride bytes apart, of an image that is not in memory. Only one call of
// decode or decodeTo is allowed.
func (s *storedImage) decode(dst []byte, stride int, r image.Rectangle) error {
	if s.encoded == nil {
		return imageError(s.files.Decode(dst, stride, r))
	}
	return imageError(s.encoded.Decode(dst, stride, r))
}

// decodeTo writes the pixels of r to an output of r's size, if the decoder supports its flip and layout.
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

// DecodeResized decodes all of src and resizes it; size returns the new width and height. It returns the RGB pixels,
// rows without gaps, valid until the next call. The error is an [*ImageError] or size's.
func (e *Engine) DecodeResized(
	src Source, size func(w, h int) (int, int, error), filter Interpolation, by Resampler,
) (pix []byte, width, height int, err error) {
	w, h, err := e.open(src)
	if err == nil {
		width, height, err = size(w, h)
	}
	if err != nil {
		return nil, 0, 0, err
	}
	now := wholeImage(w, h)
	now.resize(width, height, resizing{filter: filter, algorithm: by})
	to := &e.scratch[0]
	to.Resize(width, height)
	err = e.render(Output{Pix: to.Pix, Width: width, Height: height}, e.stored.inMemory(), nil, &now)
	e.trim()
	return to.Pix, width, height, err
}

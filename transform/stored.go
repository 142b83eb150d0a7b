package transform

import (
	"errors"
	"image"

	"github.com/imgfeed/imgfeed/internal/imagefile"
	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/pixels"
	"github.com/imgfeed/imgfeed/internal/resample"
)

// A pixelSource is where a pass takes its pixels from.
type pixelSource interface {
	// raw returns the image if all of it is in memory, else nil.
	raw() *imagefile.RGB
	// decode writes the RGB pixels of r to dst, rows stride bytes apart, for an image that is not raw.
	// decode and decodeTo may be called once, together.
	decode(dst []byte, stride int, r image.Rectangle) error
	// decodeTo writes the pixels of r to an output of r's size, if the decoder can flip and lay out by itself.
	decodeTo(dst resample.Output, r image.Rectangle) (done bool, err error)
}

// An rgbImage is a whole image in memory.
type rgbImage struct{ imagefile.RGB }

func (m *rgbImage) raw() *imagefile.RGB { return &m.RGB }

func (m *rgbImage) decode([]byte, int, image.Rectangle) error {
	panic("transform: decode of an image that is in memory")
}

func (m *rgbImage) decodeTo(resample.Output, image.Rectangle) (bool, error) { return false, nil }

// A storedImage decodes sources of every format, one after the other.
type storedImage struct {
	level  kernel.Level
	file   *imagefile.Decoder
	codecs map[*pixels.Params]pixels.Codec
	codec  pixels.Codec // of the blob at hand; nil if an image file is
	blob   []byte
}

func newStoredImage(level kernel.Level) storedImage {
	return storedImage{level: level, file: imagefile.NewDecoder(level), codecs: make(map[*pixels.Params]pixels.Codec)}
}

// open starts on a source and returns its size in pixels.
func (s *storedImage) open(src Source) (width, height int, err error) {
	if s.codec = nil; src.Format == imagefile.Encoded {
		width, height, err = s.openPixels(src)
	} else {
		width, height, err = s.file.Open(src.Format, src.Image, src.Aux)
	}
	if err != nil {
		return 0, 0, &ImageError{err}
	}
	return width, height, nil
}

var errNoParams = errors.New("the source says no parameters of its codec")

// codecsMax bounds the codecs that are kept; one process serves a few sets.
const codecsMax = 64

func (s *storedImage) openPixels(src Source) (width, height int, err error) {
	if src.Pixels == nil {
		return 0, 0, errNoParams
	}
	codec := s.codecs[src.Pixels]
	if codec == nil {
		if codec, err = pixels.New(*src.Pixels, s.level); err != nil {
			return 0, 0, err
		}
		if len(s.codecs) >= codecsMax {
			clear(s.codecs)
		}
		s.codecs[src.Pixels] = codec
	}
	codec.Prefetch(src.Prefetch)
	codec.NonTemporal(src.NonTemporal)
	config, err := pixels.DecodeConfig(src.Image)
	s.codec, s.blob = codec, src.Image
	return config.Width, config.Height, err
}

func (s *storedImage) raw() *imagefile.RGB {
	if s.codec != nil {
		return nil
	}
	return s.file.Raw()
}

func (s *storedImage) decode(dst []byte, stride int, r image.Rectangle) error {
	var err error
	if s.codec != nil {
		err = s.codec.Decode(dst, stride, s.blob, r)
	} else {
		err = s.file.Decode(dst, stride, r)
	}
	if err != nil {
		return &ImageError{err}
	}
	return nil
}

func (s *storedImage) decodeTo(dst resample.Output, r image.Rectangle) (bool, error) {
	if s.codec == nil {
		return false, nil
	}
	if err := s.codec.DecodeTo(dst, s.blob, r); err != nil {
		return true, &ImageError{err}
	}
	return true, nil
}

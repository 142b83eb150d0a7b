// Package imagefile detects the formats of image files by their first bytes, and decodes them to the same pixels as
// Pillow's Image.open(f).convert("RGB").
//
// Each decoded format has its own source file and a line in [formats].
package imagefile

import (
	"errors"
	"fmt"
	"image"
	"io"
	"slices"
	"strconv"

	"github.com/imgfeed/imgfeed/internal/image/jpeg"
)

// A Format is the format of a sample's image bytes. It is detected by their beginning, never by a name.
type Format uint8

// Shards store these numbers: they never change.
const (
	// Unknown is a file with unread or unrecognised first bytes.
	Unknown Format = 0
	// Encoded is a record of the set's encoding instead of a file.
	Encoded Format = 3
)

// formats lists the decoded formats, by number. The numbers 7 to 9 were TIFF, AVIF and JPEG 2000, which are not packed.
var formats = [...]format{
	JPEG:    jpegFormat,
	PNG:     pngFormat,
	Encoded: {name: "encoded"},
	WebP:    webpFormat,
	GIF:     gifFormat,
	BMP:     bmpFormat,
}

// A format says how the files of one format are recognised and decoded.
type format struct {
	name  string
	magic []string // its files begin with one of these; '?' stands for any byte
	// extensions are the usual extensions of its files, in lower case. They never decide a file's format.
	extensions []string
	config     func(io.Reader) (image.Config, error)
	// bytesMin returns the smallest size of a file with an image of the declared size: decoders allocate memory before
	// they find its pixels.
	bytesMin func(config image.Config, data []byte) int
	// decode writes all pixels of a file to dst. It is nil for JPEG, where a Decoder decodes single regions.
	decode func(dst *RGB, config image.Config, data []byte) error
	// unsupported recognises errors about kinds of the format that its decoder does not support; it may be nil.
	unsupported func(error) bool
}

// PixelsMax is the largest number of pixels of an image: Pillow treats larger ones as decompression bombs (2 · MAX_IMAGE_PIXELS).
const PixelsMax = jpeg.MaxPixels

// String returns the format's lower-case name, or "format(9)" for a number without one.
func (f Format) String() string {
	switch {
	case f == Unknown:
		return "unknown"
	case int(f) < len(formats):
		return formats[f].name
	}
	return "format(" + strconv.Itoa(int(f)) + ")"
}

// Sniff detects a file's format by its first bytes; 12 are enough. It returns Unknown for a format without a number. A
// detected file may still be impossible to decode.
func Sniff(data []byte) Format {
	for i := range formats {
		for _, magic := range formats[i].magic {
			if begins(data, magic) {
				return Format(i)
			}
		}
	}
	return Unknown
}

// unread detects a format without a number by the first bytes of a file, and returns its name; "" for other files.
func unread(data []byte) string {
	for _, f := range [...]struct{ magic, name string }{
		{"????ftypheic", "HEIC"}, {"????ftypheix", "HEIC"}, {"????ftyphevc", "HEIC"}, {"????ftypmif1", "HEIF"}, {"????ftypmsf1", "HEIF"},
		{"\xff\x0a", "JPEG XL"}, {"\x00\x00\x00\x0cJXL \r\n\x87\n", "JPEG XL"}, {"\x00\x00\x01\x00", "ICO"}, {"<svg", "SVG"},
		{"II*\x00", "TIFF"}, {"MM\x00*", "TIFF"}, {"????ftypavif", "AVIF"}, {"????ftypavis", "AVIF"},
		{"\x00\x00\x00\x0cjP  \r\n\x87\n", "JPEG 2000"}, {"\xff\x4f\xff\x51", "JPEG 2000"},
		{"P2\n", "PGM"}, {"P3\n", "PPM"}, {"P5\n", "PGM"}, {"P6\n", "PPM"}, {"8BPS", "PSD"},
	} {
		if begins(data, f.magic) {
			return f.name
		}
	}
	return ""
}

// HasExtension reports whether an extension, in lower case and without its dot, is usual for a supported format.
func HasExtension(extension string) bool {
	return slices.ContainsFunc(formats[:], func(f format) bool { return slices.Contains(f.extensions, extension) })
}

func begins(data []byte, magic string) bool {
	if len(data) < len(magic) {
		return false
	}
	for i := range magic {
		if magic[i] != '?' && magic[i] != data[i] {
			return false
		}
	}
	return true
}

// An UnsupportedError reports a file of a kind that is not supported on purpose.
type UnsupportedError struct{ Msg string }

func (e *UnsupportedError) Error() string { return e.Msg }

// A LimitError reports an image larger than [PixelsMax].
type LimitError struct{ Width, Height int }

func (e *LimitError) Error() string {
	return fmt.Sprintf("%d×%d pixels, more than the limit of %d in all", e.Width, e.Height, PixelsMax)
}

// IsUnsupported reports whether an image has a kind or a size that is not supported on purpose (an unknown format,
// arithmetic coding, a decompression bomb, …), as opposed to a damaged one.
func IsUnsupported(err error) bool {
	return hasType[*UnsupportedError](err) || hasType[*LimitError](err) ||
		slices.ContainsFunc(formats[:], func(f format) bool { return f.unsupported != nil && f.unsupported(err) })
}

func hasType[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// JPEG is ITU-T T.81, decoded by package jpeg.
const JPEG Format = 1

var jpegFormat = format{
	name:       "jpeg",
	magic:      []string{"\xff\xd8\xff"},
	extensions: []string{"jpg", "jpeg", "jpe", "jfif"},
	unsupported: func(err error) bool {
		return hasType[*jpeg.UnsupportedError](err) || hasType[*jpeg.LimitError](err)
	},
}

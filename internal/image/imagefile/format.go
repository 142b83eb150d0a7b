// Package imagefile knows the formats of image files: it tells them by their first bytes, and decodes them to RGB with the pixels of
// Pillow's Image.open(f).convert("RGB").
//
// Each format that is decoded here has a file of its own, and each one that is known a line in [formats].
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

// A Format is the format of a sample's image bytes. Their beginning tells it, never a name.
type Format uint8

// The entries of shards hold the numbers: they never change.
const (
	// Unknown is a file with unread or unrecognised first bytes.
	Unknown Format = 0
	// Encoded is no file, but what the set's encoding has made of one.
	Encoded Format = 3
)

// formats lists the known formats, by number.
var formats = [...]format{
	JPEG:     jpegFormat,
	PNG:      pngFormat,
	Encoded:  {name: "encoded"},
	WebP:     webpFormat,
	GIF:      gifFormat,
	BMP:      bmpFormat,
	TIFF:     tiffFormat,
	AVIF:     avifFormat,
	JPEG2000: jpeg2000Format,
}

// A format is all that the package knows of one. A format without config is known by name and not read.
type format struct {
	name  string
	magic []string // its files begin with one of these; '?' stands for any byte
	// extensions are those that its files usually have, in lower case. What a file is, is never told by its name.
	extensions []string
	config     func(io.Reader) (image.Config, error)
	// bytesMin returns how many bytes an image has at least that a file says it holds: decoders make room before they look for its pixels.
	bytesMin func(config image.Config, data []byte) int
	// decode writes all pixels of a file to dst. It is nil for JPEG, whose regions a Decoder decodes by themselves.
	decode func(dst *RGB, config image.Config, data []byte) error
	// unsupported tells errors about kinds of the format that its decoder leaves out; it may be nil.
	unsupported func(error) bool
}

// PixelsMax is the number of pixels of the largest image that is read: above it Pillow sees a decompression bomb (2 · MAX_IMAGE_PIXELS).
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

// Sniff tells a file's format by its first bytes, of which 12 are enough; Unknown when they are those of no format that has a
// number. It does not say that the file can be decoded.
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

// unread is the name of a format that has no number, and is not read, by the first bytes of its files; "" for others.
func unread(data []byte) string {
	for _, f := range [...]struct{ magic, name string }{
		{"????ftypheic", "HEIC"}, {"????ftypheix", "HEIC"}, {"????ftyphevc", "HEIC"}, {"????ftypmif1", "HEIF"}, {"????ftypmsf1", "HEIF"},
		{"\xff\x0a", "JPEG XL"}, {"\x00\x00\x00\x0cJXL \r\n\x87\n", "JPEG XL"}, {"\x00\x00\x01\x00", "ICO"}, {"<svg", "SVG"},
		{"P2\n", "PGM"}, {"P3\n", "PPM"}, {"P5\n", "PGM"}, {"P6\n", "PPM"}, {"8BPS", "PSD"},
	} {
		if begins(data, f.magic) {
			return f.name
		}
	}
	return ""
}

// HasExtension reports whether files of a format that is read usually have the extension, given in lower case and without its dot.
func HasExtension(extension string) bool {
	for i := range formats {
		if slices.Contains(formats[i].extensions, extension) {
			return true
		}
	}
	return false
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

// An UnsupportedError says that a file is of a kind that is left out on purpose.
type UnsupportedError struct{ Msg string }

func (e *UnsupportedError) Error() string { return e.Msg }

// A LimitError says that an image is larger than [PixelsMax].
type LimitError struct{ Width, Height int }

func (e *LimitError) Error() string {
	return fmt.Sprintf("%d×%d pixels, more than the limit of %d in all", e.Width, e.Height, PixelsMax)
}

// IsUnsupported reports whether err says that an image is of a kind or a size that is left out on purpose (a format that nobody
// knows, arithmetic coding, a decompression bomb, …), rather than damaged.
func IsUnsupported(err error) bool {
	if is[*UnsupportedError](err) || is[*LimitError](err) {
		return true
	}
	for i := range formats {
		if f := &formats[i]; f.unsupported != nil && f.unsupported(err) {
			return true
		}
	}
	return false
}

func is[E error](err error) bool {
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
		return is[*jpeg.UnsupportedError](err) || is[*jpeg.LimitError](err)
	},
}

// TIFF is known by name, and not read.
const TIFF Format = 7

var tiffFormat = format{name: "tiff", magic: []string{"II*\x00", "MM\x00*"}}

// AVIF is AV1's still images in ISO's base media file format, known by name and not read.
const AVIF Format = 8

var avifFormat = format{name: "avif", magic: []string{"????ftypavif", "????ftypavis"}}

// JPEG2000 is ISO/IEC 15444-1, in its file format or as a bare codestream, known by name and not read.
const JPEG2000 Format = 9

var jpeg2000Format = format{name: "jpeg2000", magic: []string{"\x00\x00\x00\x0cjP  \r\n\x87\n", "\xff\x4f\xff\x51"}}

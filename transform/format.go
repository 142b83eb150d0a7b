package transform

import (
	"bytes"
	"fmt"
)

// A Format is how a stored image is encoded.
type Format uint8

const (
	FormatUnknown Format = iota // told from the first bytes
	FormatJPEG
	FormatPNG
	FormatGIF
	FormatBMP
	FormatWebP
	FormatPixels // package pixels; it has no magic bytes
)

var formatNames = [...]string{
	FormatUnknown: "unknown", FormatJPEG: "JPEG", FormatPNG: "PNG", FormatGIF: "GIF", FormatBMP: "BMP", FormatWebP: "WebP",
	FormatPixels: "pixels",
}

// String returns the format's usual name.
func (f Format) String() string {
	if int(f) < len(formatNames) {
		return formatNames[f]
	}
	return fmt.Sprintf("transform.Format(%d)", uint8(f))
}

// Sniff tells an image's format from its first bytes.
func Sniff(data []byte) Format {
	switch {
	case bytes.HasPrefix(data, []byte{0xFF, 0xD8, 0xFF}):
		return FormatJPEG
	case bytes.HasPrefix(data, []byte("\x89PNG\r\n\x1a\n")):
		return FormatPNG
	case bytes.HasPrefix(data, []byte("GIF87a")), bytes.HasPrefix(data, []byte("GIF89a")):
		return FormatGIF
	case bytes.HasPrefix(data, []byte("BM")):
		return FormatBMP
	case len(data) >= 12 && string(data[:4]) == "RIFF" && string(data[8:12]) == "WEBP":
		return FormatWebP
	}
	return FormatUnknown
}

package imagefile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"image"

	"golang.org/x/image/bmp"
)

// BMP is Windows' bitmap.
const BMP Format = 6

var bmpFormat = format{
	name:        "bmp",
	magic:       []string{"BM"},
	extensions:  []string{"bmp"},
	config:      bmp.DecodeConfig,
	bytesMin:    bmpBytesMin,
	decode:      decodeBMP,
	unsupported: func(err error) bool { return errors.Is(err, bmp.ErrUnsupported) },
}

// bmpBytesMin is the size of the pixels: uncompressed rows, padded to 32 bits.
func bmpBytesMin(config image.Config, data []byte) int {
	const bitsAt = 28
	if len(data) < bitsAt+2 {
		return 0
	}
	bits := int(binary.LittleEndian.Uint16(data[bitsAt:]))
	return (config.Width*bits + 31) / 32 * 4 * config.Height
}

func decodeBMP(dst *RGB, _ image.Config, data []byte) error {
	img, err := bmp.Decode(bytes.NewReader(data))
	if err == nil {
		dst.convert(img)
	}
	return err
}

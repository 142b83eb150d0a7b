package imagefile

import (
	"bytes"
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
	decode:      decodeBMP,
	unsupported: func(err error) bool { return errors.Is(err, bmp.ErrUnsupported) },
}

func decodeBMP(dst *RGB, _ image.Config, data []byte) error {
	img, err := bmp.Decode(bytes.NewReader(data))
	if err == nil {
		dst.convert(img)
	}
	return err
}

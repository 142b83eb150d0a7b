package imagefile

import (
	"bytes"
	"image"

	"golang.org/x/image/webp"
)

// WebP is Google's format, lossy or lossless.
const WebP Format = 4

var webpFormat = format{
	name:       "webp",
	magic:      []string{"RIFF????WEBP"},
	extensions: []string{"webp"},
	config:     webp.DecodeConfig,
	decode:     decodeWebP,
}

func decodeWebP(dst *RGB, _ image.Config, data []byte) error {
	img, err := webp.Decode(bytes.NewReader(data))
	switch {
	case err == nil:
		dst.convert(img)
	case animatedWebP(data):
		err = &UnsupportedError{"webp: animated images are not read"}
	}
	return err
}

// animatedWebP reports whether the first chunk is VP8X, and its flags say that the file is an animation.
func animatedWebP(data []byte) bool {
	const chunk, flags, animation = 12, 20, 1 << 1
	return len(data) > flags && begins(data[chunk:], "VP8X") && data[flags]&animation != 0
}

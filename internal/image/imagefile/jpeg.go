package imagefile

import (
	"github.com/imgfeed/imgfeed/internal/image/jpeg"
)

// JPEG is ITU-T T.81, decoded by package jpeg.
const JPEG Format = 1

var jpegFormat = format{
	name:       "jpeg",
	magic:      []string{"\xff\xd8\xff"},
	extensions: []string{"jpg", "jpeg"},
	unsupported: func(err error) bool {
		return is[*jpeg.UnsupportedError](err) || is[*jpeg.LimitError](err)
	},
}

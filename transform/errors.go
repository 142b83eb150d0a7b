package transform

import (
	"errors"
	"image/png"

	"golang.org/x/image/bmp"

	"github.com/imgfeed/imgfeed/internal/jpeg"
)

// Unsupported reports whether err says that an image is of a kind that is left out on purpose (a format that nobody
// knows, arithmetic coding, …), rather than damaged.
func Unsupported(err error) bool {
	if errors.Is(err, ErrFormat) || errors.Is(err, bmp.ErrUnsupported) {
		return true
	}
	if _, ok := errors.AsType[*jpeg.UnsupportedError](err); ok {
		return true
	}
	_, ok := errors.AsType[png.UnsupportedError](err)
	return ok
}

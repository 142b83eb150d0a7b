package imagefile

import (
	"errors"
	"fmt"
)

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

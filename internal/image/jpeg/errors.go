package jpeg

import "fmt"

// A FormatError reports data that are no complete JPEG file, or so wrong that libjpeg refuses them. Offset is the position in the file, in bytes, at
// or shortly before which the decoder noticed.
type FormatError struct {
	Offset int
	Msg    string // what was found, and what was expected
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("jpeg: invalid format at byte %d: %s", e.Offset, e.Msg)
}

// An UnsupportedError reports a valid JPEG file of a kind that this package leaves out on purpose: arithmetic coding,
// progressive files that end too early to be shown as they are, lossless and hierarchical processes, 12 bits a sample, and
// sampling factors that libjpeg rejects as well.
type UnsupportedError struct{ Msg string }

func (e *UnsupportedError) Error() string { return "jpeg: unsupported: " + e.Msg }

// A LimitError reports an image with more pixels than [MaxPixels] or a side longer than [MaxSide].
type LimitError struct{ Width, Height int }

func (e *LimitError) Error() string {
	return fmt.Sprintf("jpeg: %d×%d pixels are over the limit of %d pixels or %d a side", e.Width, e.Height, MaxPixels, MaxSide)
}

// MaxPixels is where Pillow raises DecompressionBombError: twice Image.MAX_IMAGE_PIXELS.
const MaxPixels = 2 * (1024 * 1024 * 1024 / 4 / 3)

// MaxSide is libjpeg's JPEG_MAX_DIMENSION.
const MaxSide = 65500

func formatError(offset int, format string, args ...any) error {
	return &FormatError{Offset: offset, Msg: fmt.Sprintf(format, args...)}
}

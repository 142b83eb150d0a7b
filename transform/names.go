package transform

import (
	"encoding/json"
	"fmt"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/internal/image/resample"
	"github.com/imgfeed/imgfeed/internal/kernel"
)

// Types of internal packages in this one's interface, so that users of this module can name them.
type (
	// Interpolation is one of Pillow's filters, under torchvision's name. The zero value is Bilinear, torchvision's default.
	Interpolation = resample.Filter
	// Resampler names the releases of Pillow that a resize matches bit for bit. The zero value is the newest.
	Resampler = resample.Algorithm
	// Output is the destination of an image.
	Output = resample.Output
	// Layout is the order of an output's bytes: NHWC (the zero value) or NCHW.
	Layout = resample.Layout
	// Format is the format of an image file. The zero value detects it from the file's first bytes.
	Format = imagefile.Format
	// Level is an instruction set that kernels are written for. The zero value is plain Go, on every platform.
	Level = kernel.Level
)

// The filters of [Resize] and its like, antialiased as in Pillow.
const (
	Nearest  = resample.Nearest
	Box      = resample.Box
	Bilinear = resample.Bilinear
	Hamming  = resample.Hamming
	Bicubic  = resample.Bicubic
	Lanczos  = resample.Lanczos
)

// The resamplers: for some tall images Pillow 13 swaps the two passes of Pillow 9.4 to 12.1.
const (
	Pillow13 = resample.Pillow13
	Pillow12 = resample.Pillow12
)

// The layouts: rows of interleaved R, G, B, or three planes.
const (
	NHWC = resample.NHWC
	NCHW = resample.NCHW
)

// ActiveLevel returns the highest compiled level that this processor supports, unless the environment variable
// IMGFEED_KERNELS names a lower one.
func ActiveLevel() Level { return kernel.Active() }

// SizeMax bounds the sides of every size and padding in an operation.
const SizeMax = 1 << 14

// A Size is torchvision's parameter size, in pixels: {n}, or {height, width}.
type Size [2]int

// MarshalJSON returns n or [height, width].
func (s Size) MarshalJSON() ([]byte, error) {
	if s[1] == 0 {
		return json.Marshal(s[0])
	}
	return json.Marshal([2]int(s))
}

// A Fill is a colour, torchvision's parameter fill: red, green and blue. The zero value is torchvision's default, black.
type Fill [3]uint8

// MarshalJSON returns n for grey, or [red, green, blue].
func (f Fill) MarshalJSON() ([]byte, error) {
	if f[0] == f[1] && f[1] == f[2] {
		return json.Marshal(f[0])
	}
	return fmt.Appendf(nil, "[%d,%d,%d]", f[0], f[1], f[2]), nil
}

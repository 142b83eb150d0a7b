// Package resample resizes RGB images with exactly the arithmetic of Pillow's Image.resize: the same bits, for every
// filter, at every scale, on every platform.
//
// Pillow (libImaging/Resample.c) resizes in two passes, horizontal and then vertical; from release 13 on, vertical first if that is less
// work ([Algorithm]). Each output pixel of a pass is a weighted sum over a window of input pixels; weights are computed in float64,
// normalised, and rounded to fixed point with 22 fractional bits. The sum is rounded and clipped to a byte between the passes. One example,
// 4 pixels to 2 with Bilinear (scale 2, so the triangle reaches 2 pixels to each side of the centre):
//
//	output 0, centre 1.0, window 0..2:  weights .75 .75 .25 -> normalised 3/7 3/7 1/7
//	                                    in fixed point      1797559 1797559 599186  (of 1<<22 = 4194304)
//	pixels 10 20 30 -> (10·1797559 + 20·1797559 + 30·599186 + 1<<21) >> 22 = 17.
//
// Pillow computes full images. This package only computes the part that the caller keeps: a resize followed by a crop
// computes no row or column outside the crop. [SourceRegion] returns the necessary source pixels. The result is written
// to its destination as NHWC or NCHW, mirrored or not.
//
// The generic Go code is the reference. Accelerated kernels for AVX2, AVX-512 and NEON give the same bytes; they are
// built with GOEXPERIMENT=simd on amd64 and arm64 and chosen by the [kernel.Level] given to [New].
package resample

import (
	"errors"
	"fmt"
	"image"
	"slices"

	"github.com/imgfeed/imgfeed/internal/kernel"
)

// A Filter is one of Pillow's resampling filters.
type Filter uint8

// The filters, with their support in Pillow, in pixels of the smaller image to each side. The zero value is torchvision's default.
const (
	Bilinear Filter = iota // support 1, antialiased: a triangle scaled with the image
	Nearest                // the pixel under the centre, like Image.NEAREST (an affine transform, not a filter)
	Box                    // support 0.5
	Hamming                // support 1
	Bicubic                // support 2, a = -0.5
	Lanczos                // support 3
)

// Filters of torch alone, for tensors.
const (
	TensorNearest Filter = Lanczos + 1 + iota // the pixel at the output's edge, torch's "nearest"
	NearestExact                              // the pixel under the output's centre
	PlainBilinear                             // bilinear without antialiasing: two pixels at every scale
	PlainBicubic                              // bicubic without antialiasing, a = -0.75
)

var filterNames = [...]string{
	Nearest: "nearest", Box: "box", Bilinear: "bilinear", Hamming: "hamming", Bicubic: "bicubic", Lanczos: "lanczos",
	TensorNearest: "torch's nearest", NearestExact: "nearest-exact", PlainBilinear: "plain bilinear", PlainBicubic: "plain bicubic",
}

// String returns the filter's name in torchvision's InterpolationMode: "bilinear".
func (f Filter) String() string {
	if int(f) < len(filterNames) {
		return filterNames[f]
	}
	return fmt.Sprintf("resample.Filter(%d)", uint8(f))
}

// ParseFilter is the inverse of [Filter.String] for Pillow's filters.
func ParseFilter(name string) (Filter, error) {
	if i := slices.Index(filterNames[:Lanczos+1], name); i >= 0 {
		return Filter(i), nil
	}
	return 0, fmt.Errorf("resample: unknown interpolation %q, want one of %v", name, filterNames[:Lanczos+1])
}

// nearest reports whether an output is one pixel of the source.
func (f Filter) nearest() bool { return f == Nearest || f == TensorNearest || f == NearestExact }

// plain reports whether the filter does not reach farther at smaller scales.
func (f Filter) plain() bool { return f == PlainBilinear || f == PlainBicubic }

// A Layout is the order of an output image's bytes.
type Layout uint8

const (
	NHWC Layout = iota // rows of interleaved R, G, B: pixel (x, y) of channel c at (y·Width + x)·3 + c
	NCHW               // three planes: at (c·Height + y)·Width + x
)

// String returns "NHWC" or "NCHW".
func (l Layout) String() string {
	if l <= NCHW {
		return [...]string{"NHWC", "NCHW"}[l]
	}
	return fmt.Sprintf("resample.Layout(%d)", uint8(l))
}

// An Output is the destination of an image: Width × Height × 3 bytes at the start of Pix, without gaps between rows.
// Bytes after them are not touched, so that neighbours in a batch may be written concurrently.
type Output struct {
	Pix           []byte
	Width, Height int
	Layout        Layout
	Flip          bool // mirror the image left to right
	// Stride is the number of bytes from row to row of a part of an NHWC image; 0 if there are no gaps. Bytes between rows get any values.
	Stride int
}

// stride returns the number of bytes from row to row of an NHWC output.
func (dst Output) stride() int { return max(dst.Stride, 3*dst.Width) }

// Limits of the sides of source and result. They keep positions in 32 bits and tables within memory. A JPEG has at most
// 65,535 pixels per side. A result can be much longer: Resize(256) makes 256 × 1,280,000 of 1 × 5,000, before a crop.
const (
	sourceSideMax = 1 << 20
	resultSideMax = 1 << 30
)

// ErrArgument is wrapped by all errors of this package: sizes, rectangles or buffers do not match.
var ErrArgument = errors.New("resample: invalid argument")

func argumentError(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrArgument}, args...)...)
}

// A Resampler resizes images. It keeps its tables and intermediate rows from call to call, so that nothing is allocated
// in the steady state. It serves one goroutine at a time. The zero value runs the generic code.
type Resampler struct {
	level      kernel.Level
	horizontal axis
	vertical   axis
	nearest    nearestTables
	scratch    scratch
	simd       simdState
}

// New returns a Resampler that runs the kernels of the given level, which must be one of [kernel.Available].
func New(level kernel.Level) *Resampler { return &Resampler{level: level} }

// A Scaling says what to make of which pixels.
type Scaling struct {
	// Src holds interleaved RGB, rows Stride bytes apart, of the region Have of the source image. Have must contain the [SourceRegion].
	Src    []byte
	Stride int
	Have   image.Rectangle

	SrcW, SrcH int  // size of the source image
	Mirrored   bool // flip it before it is resized, which may round in another way than after

	OutW, OutH int             // size of the result
	Keep       image.Rectangle // the part of the result to write
	Filter     Filter
	Algorithm  Algorithm // the program to be like
}

// Resize resizes an image, and writes the part of the result to keep to dst, which has the size of that part. If the size does not
// change, Resize is a copy, as in Pillow. Errors wrap [ErrArgument], and leave dst unchanged.
func (r *Resampler) Resize(dst Output, s Scaling) error {
	if err := checkSizes(s.SrcW, s.SrcH, s.OutW, s.OutH, s.Keep, s.Filter); err != nil {
		return err
	}
	if s.Algorithm > Torch {
		return argumentError("unknown resampler %d", uint8(s.Algorithm))
	}
	need := SourceRegion(s.SrcW, s.SrcH, s.OutW, s.OutH, s.Keep, s.Filter)
	if s.Mirrored {
		need = Mirrored(need, s.SrcW)
	}
	if err := checkBuffers(dst, s.Src, s.Stride, s.Have, need, s.Keep); err != nil {
		return err
	}
	switch {
	case s.SrcW == s.OutW && s.SrcH == s.OutH:
		dst.Flip = dst.Flip != s.Mirrored
		r.copyRegion(dst, s.Src, s.Stride, s.Have, need)
	case s.Filter.nearest():
		r.resizeNearest(dst, &s)
	default:
		r.horizontal.compute(axisSpec{s.SrcW, s.OutW, s.Keep.Min.X, s.Keep.Dx(), s.Filter, dst.Flip, s.Mirrored}, r.level,
			s.Algorithm == Torch)
		r.vertical.compute(axisSpec{s.SrcH, s.OutH, s.Keep.Min.Y, s.Keep.Dy(), s.Filter, false, false}, r.level, s.Algorithm == Torch)
		start := (r.vertical.first-s.Have.Min.Y)*s.Stride + (r.horizontal.first-s.Have.Min.X)*3 // the first pixel with a weight
		r.resizeFiltered(dst, s.Src[start:], s.Stride, s.Algorithm.verticalFirst(s.SrcW, s.SrcH, s.OutW, s.OutH))
	}
	return nil
}

// Mirrored returns a part of an image of w columns as it lies in the mirror image.
func Mirrored(part image.Rectangle, w int) image.Rectangle {
	part.Min.X, part.Max.X = w-part.Max.X, w-part.Min.X
	return part
}

func checkSizes(srcW, srcH, outW, outH int, keep image.Rectangle, f Filter) error {
	if min(srcW, srcH) < 1 || max(srcW, srcH) > sourceSideMax {
		return argumentError("source of %dx%d pixels: sides must be within 1..%d", srcW, srcH, sourceSideMax)
	}
	if min(outW, outH) < 1 || max(outW, outH) > resultSideMax {
		return argumentError("result of %dx%d pixels: sides must be within 1..%d", outW, outH, resultSideMax)
	}
	if keep.Empty() || !keep.In(image.Rect(0, 0, outW, outH)) {
		return argumentError("part %v to keep is empty or not within the %dx%d result", keep, outW, outH)
	}
	if f > PlainBicubic {
		return argumentError("unknown filter %d", uint8(f))
	}
	return nil
}

// checkBuffers returns an error unless src holds the region need and dst has room for keep.
func checkBuffers(dst Output, src []byte, stride int, have, need, keep image.Rectangle) error {
	if !need.In(have) {
		return argumentError("source region %v given, %v needed", have, need)
	}
	if stride < 3*have.Dx() {
		return argumentError("stride of %d bytes for rows of %d pixels", stride, have.Dx())
	}
	if size := (have.Dy()-1)*stride + 3*have.Dx(); len(src) < size {
		return argumentError("source of %d bytes, region %v with stride %d takes %d", len(src), have, stride, size)
	}
	return checkOutput(dst, keep)
}

func checkOutput(dst Output, keep image.Rectangle) error {
	if dst.Width != keep.Dx() || dst.Height != keep.Dy() {
		return argumentError("output is %dx%d, the part to keep %dx%d", dst.Width, dst.Height, keep.Dx(), keep.Dy())
	}
	if size := (dst.Height-1)*dst.stride() + dst.Width*3; len(dst.Pix) < size {
		return argumentError("output buffer of %d bytes, %dx%d takes %d", len(dst.Pix), dst.Width, dst.Height, size)
	}
	if dst.Layout > NCHW || dst.Layout == NCHW && dst.Stride != 0 {
		return argumentError("unknown layout %d", uint8(dst.Layout))
	}
	return nil
}

// scratch is the memory of the row loops.
type scratch struct {
	rows     []byte  // generic: the source rows after the horizontal pass, or one row after a vertical pass that came first
	weights  []int32 // generic: the horizontal table with the taps of one output adjacent
	sums     []int32 // generic: one row of the vertical pass
	line     []byte  // one finished row, interleaved
	mirrored []byte  // one row of a copy
}

// grown returns s with length n. The contents are unspecified.
func grown[T any](s []T, n int) []T { return slices.Grow(s[:0], n)[:n] }

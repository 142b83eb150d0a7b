// Package blur blurs RGB images in memory: like Pillow's ImageFilter.GaussianBlur, with the same bits, and like
// torchvision's gaussian_blur, up to rounding.
//
// Pillow's is three box blurs along the rows and then three along the columns, each rounded to bytes. A box of radius r
// and a fraction weighs 2r + 1 pixels by ww, and the two beyond them by fw, in fixed point with 24 bits of fraction
// (libImaging/BoxBlur.c). One example, radius 1.25: 3 pixels by 4793490 and the two beyond by 1198373 of 16777216, or
// 0.2857 and 0.0714 each.
//
// torchvision's uses a kernel of given size: here first along rows and then along columns, in float32 and rounded once.
// torchvision multiplies by the two-dimensional kernel. Its sums have other rounding errors, which show where a sum is
// almost half way between two bytes.
//
// Beyond an image's edges Pillow repeats the outermost pixels, and torchvision mirrors the image about their middles.
// The generic Go code is the reference. Accelerated kernels for AVX2, AVX-512 and NEON give the same bytes.
package blur

import (
	"slices"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/internal/kernel"
)

//go:generate go run ../../../internal/lanes/generate blur_avx2.go

// A Blurrer blurs images. It keeps its scratch memory from call to call, so that nothing is allocated in the steady state. It
// serves one goroutine at a time. The zero value runs the generic code.
type Blurrer struct {
	kernels *kernels
	lines   [2][]byte // two rows, and pixels beside them
	planes  [2][]byte // two images, and rows above and below
	floats  []float32 // an image between rows and columns, and rows above and below
}

// New returns a Blurrer that runs the kernels of the given level, which must be one of [kernel.Available].
func New(level kernel.Level) *Blurrer { return &Blurrer{kernels: byLevel[level]} }

// vectorMax bounds the bytes that a kernel writes behind a row's end: fewer than the largest vector has.
const vectorMax = 64

// grown returns memory for n elements, with room for the kernels' accesses behind them.
func grown[T any](s []T, n int) []T {
	n += imagefile.SlackBytes
	return slices.Grow(s[:0], n)[:n]
}

// extend repeats the first and the last of n pixels, which begin at pixel margin of line, margin times each.
func extend(line []byte, margin, n int) {
	first, behind := 3*margin, 3*(margin+n)
	for i := range first {
		line[i] = line[first+i%3]
		line[behind+i] = line[behind-3+i%3]
	}
}

// kernels are the functions that have a version for each level.
type kernels struct {
	box     boxKernel
	rows    rowsKernel
	columns columnsKernel
}

var byLevel kernel.Table[kernels]

// Package blur blurs RGB images in memory: as Pillow's ImageFilter.GaussianBlur does it, with the same bits, and as torchvision's
// gaussian_blur does it, to within rounding.
//
// Pillow's is three box blurs along the rows and then three along the columns, each rounded to bytes. A box of radius r and a
// fraction weighs 2r + 1 pixels by ww, and the two beyond them by fw, in fixed point with 24 bits of fraction (libImaging/BoxBlur.c).
// One example, radius 1.25: 3 pixels by 4793490 and the two beyond by 1198373 of 16777216, or 0.2857 and 0.0714 each.
//
// torchvision's weighs with a kernel of given size, here first along rows and then along columns, in float32 and rounded once.
// torchvision multiplies by the two-dimensional kernel: its sums have other rounding errors, which show where one is as
// good as half way between two bytes.
//
// Beyond an image's edges lie, for Pillow, its outermost pixels again, and for torchvision the image mirrored about their middles.
// The generic Go code is the reference. Accelerated kernels for AVX2, AVX-512 and NEON give the same bytes.
package blur

import (
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

// vectorMax are the bytes that a kernel may write behind a row's end: less than the largest vector.
const vectorMax = 64

// grown returns memory for n elements and what kernels read and write behind them.
func grown[T any](s []T, n int) []T {
	n += imagefile.SlackBytes
	if cap(s) < n {
		return make([]T, n+n/4)[:n]
	}
	return s[:n]
}

// extend repeats the first and the last of n pixels, which begin at pixel margin of line, margin times each.
func extend(line []byte, margin, n int) {
	first, behind := 3*margin, 3*(margin+n)
	for i := range first {
		line[i] = line[first+i%3]
		line[behind+i] = line[behind-3+i%3]
	}
}

// kernels are what one level does its own way.
type kernels struct {
	box     boxKernel
	rows    rowsKernel
	columns columnsKernel
}

var byLevel kernel.Table[kernels]

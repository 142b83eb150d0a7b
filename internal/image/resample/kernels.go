package resample

import (
	"unsafe"

	"github.com/imgfeed/imgfeed/internal/kernel"
)

//go:generate go run ../../lanes/generate -neon horizontal_avx2.go
//go:generate go run ../../lanes/generate rows_avx2.go vertical_avx2.go

// kernels are the functions that have a version for each level.
type kernels struct {
	doubles       int // float64 per step of weights
	weights       func(a *axis, filter Filter, taps int)
	split         func(k0, k1 int32, top bool) (high, low int32) // the weights of two taps, for vertical and verticalFirst
	prepare       func(r *Resampler, p *bandPlan)                // builds the tables of the horizontal pass and chooses its kernel
	vertical      *verticalKernels
	verticalFirst [3]verticalFirstKernel // kernels for filters that clip, for others, and for others with 3 or 4 taps
	take          func(p *bandPlan, dst unsafe.Pointer, pair, second int)
	splitPlanes   func(red, green, blue, row []byte)
	mirror        func(dst, src []byte)
	bytes         int // bytes per step of verticalFirst and splitPlanes; narrower rows use the level below
	level         kernel.Level
}

var byLevel kernel.Table[kernels]

// Kernels with few taps keep the weights in registers: there is an instance of the same text for each number of pairs of taps, and for each
// of the two ways of finishing sums. The parameters are types, because the compiler treats a type's length as a constant.
//
// In their inner loops an inlined call costs a no-op for tracebacks, unless its line has another instruction. So
// addresses and sums are computed in the line of the call.
type (
	one   = [1]struct{}
	two   = [2]struct{}
	three = [3]struct{}
	four  = [4]struct{}
	few   interface{ one | two | three | four }

	clipped = [0]struct{} // filters with negative weights
	topByte = [1]struct{} // other filters: their sums stay in range
	ending  interface{ clipped | topByte }
)

type (
	horizontalKernel    = func(p *bandPlan, dst, src unsafe.Pointer, stride, pairs int)
	verticalKernel      = func(p *bandPlan, dst unsafe.Pointer, pair int, k []int32)
	verticalFirstKernel = func(dst, src unsafe.Pointer, stride, rowBytes int, k []int32, last int)
)

// instances are kernels for filters that clip and for others, with 1, 2, 3, 4 and any number of pairs of taps.
type instances[K any] [2][5]K

type (
	horizontalKernels = instances[horizontalKernel]
	verticalKernels   = instances[verticalKernel]
)

func (k *instances[K]) choose(clips bool, pairs int) K {
	if clips {
		return k[0][min(pairs, 5)-1]
	}
	return k[1][min(pairs, 5)-1]
}

// forRow returns the kernels for rows of n bytes or planes of n pixels, or nil if n is too small.
func (k *kernels) forRow(n int) *kernels {
	for k != nil && n < k.bytes {
		k = byLevel[k.level-1] // nil for Generic, and for AVX512 on arm64
	}
	return k
}

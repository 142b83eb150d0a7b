package resample

import (
	"unsafe"

	"github.com/imgfeed/imgfeed/internal/kernel"
)

//go:generate go run ../../lanes/generate -neon horizontal_avx2.go
//go:generate go run ../../lanes/generate rows_avx2.go vertical_avx2.go

// kernels are what one level does its own way.
type kernels struct {
	doubles       int // float64 that weights takes at a time
	weights       func(a *axis, filter Filter, taps int)
	split         func(k0, k1 int32, top bool) (high, low int32) // the weights of two taps, for vertical and verticalFirst
	prepare       func(r *Resampler, p *bandPlan)                // builds the tables of the horizontal pass and chooses its kernel
	vertical      *verticalKernels
	verticalFirst [3]verticalFirstKernel // for filters that clip, for others, and for others with 3 or 4 taps
	take          func(p *bandPlan, dst unsafe.Pointer, pair, second int)
	splitPlanes   func(red, green, blue, row []byte)
	mirror        func(dst, src []byte)
	bytes         int // that verticalFirst and splitPlanes take at a time; narrower rows go to the level below
	level         kernel.Level
}

var byLevel kernel.Table[kernels]

// Kernels with few taps have the weights in registers: an instance of the same text for each number of pairs of taps, and for
// each of the two ways in which sums end. The parameters are types, because the compiler makes constants of a type's length.
//
// In their inner loops a call that is inlined costs a no-op, for tracebacks, unless its line has an instruction of its own:
// that is why addresses and sums are worked out where the calls are.
type (
	one   = [1]struct{}
	two   = [2]struct{}
	three = [3]struct{}
	four  = [4]struct{}
	few   interface{ one | two | three | four }

	clipped = [0]struct{} // filters with negative weights
	topByte = [1]struct{} // the others, whose sums stay in range
	ending  interface{ clipped | topByte }
)

type (
	horizontalKernel    = func(p *bandPlan, dst, src unsafe.Pointer, stride, pairs int)
	verticalKernel      = func(p *bandPlan, dst unsafe.Pointer, pair int, k []int32)
	verticalFirstKernel = func(dst, src unsafe.Pointer, stride, rowBytes int, k []int32, last int)
)

// instances are kernels for filters that clip and for others, of 1, 2, 3, 4 and any number of pairs of taps.
type instances[K any] [2][5]K

type (
	horizontalKernels = instances[horizontalKernel]
	verticalKernels   = instances[verticalKernel]
)

func (k *instances[K]) of(clips bool, pairs int) K {
	if clips {
		return k[0][min(pairs, 5)-1]
	}
	return k[1][min(pairs, 5)-1]
}

// forRow returns the kernels for rows of n bytes or planes of n pixels; nil if there are none for so few.
func (k *kernels) forRow(n int) *kernels {
	for k != nil && n < k.bytes {
		k = byLevel[k.level-1] // of Generic, and of AVX512 on arm64, there are none
	}
	return k
}

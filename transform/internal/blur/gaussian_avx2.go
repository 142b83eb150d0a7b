//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package blur

import (
	"unsafe"

	. "github.com/imgfeed/imgfeed/internal/lanes/avx2"
)

// rowsAVX2 does what rowsGeneric does. It takes bytes to words and those to two vectors of dwords, by lane: so stand the sums.
func rowsAVX2(dst []float32, src []byte, n int, weights []float32) {
	from, to := unsafe.Pointer(unsafe.SliceData(src)), unsafe.Pointer(unsafe.SliceData(dst))
	middle := 3 * (len(weights) - 1)
	for i := 0; i < n; i += 8 * Count {
		p := unsafe.Add(from, i+middle)
		lo, hi := Interleave(LoadBytes(p), Words{})
		weight := BroadcastFloat(&weights[0])
		low, high := ToFloats(lo).Mul(weight), ToFloats(hi).Mul(weight)
		left, right := p, p
		for k := 1; k < len(weights); k++ {
			left, right = unsafe.Add(left, -3), unsafe.Add(right, 3)
			lo, hi = Interleave(LoadBytes(left).Add(LoadBytes(right)), Words{})
			weight = BroadcastFloat(&weights[k])
			low, high = low.Add(ToFloats(lo).Mul(weight)), high.Add(ToFloats(hi).Mul(weight))
		}
		StoreFloats(low, unsafe.Add(to, 4*i))
		StoreFloats(high, unsafe.Add(to, 4*i+16*Count))
	}
	Leave()
}

// columnsAVX2 does what columnsGeneric does, for sums that stand as rowsAVX2 leaves them.
func columnsAVX2(dst []byte, src []float32, stride, n int, weights []float32) {
	from, to := unsafe.Pointer(unsafe.SliceData(src)), unsafe.Pointer(unsafe.SliceData(dst))
	step := 4 * stride
	middle := step * (len(weights) - 1)
	rounding := BroadcastFloat(&roundingAddend)
	for i := 0; i < n; i += 16 * Count {
		p := unsafe.Add(from, 4*i+middle)
		weight := BroadcastFloat(&weights[0])
		a, b := LoadFloats(p).Mul(weight), LoadFloats(unsafe.Add(p, 16*Count)).Mul(weight)
		c, d := LoadFloats(unsafe.Add(p, 32*Count)).Mul(weight), LoadFloats(unsafe.Add(p, 48*Count)).Mul(weight)
		above, below := p, p
		for k := 1; k < len(weights); k++ {
			above, below = unsafe.Add(above, -step), unsafe.Add(below, step)
			weight = BroadcastFloat(&weights[k])
			a = a.Add(LoadFloats(above).Add(LoadFloats(below)).Mul(weight))
			b = b.Add(LoadFloats(unsafe.Add(above, 16*Count)).Add(LoadFloats(unsafe.Add(below, 16*Count))).Mul(weight))
			c = c.Add(LoadFloats(unsafe.Add(above, 32*Count)).Add(LoadFloats(unsafe.Add(below, 32*Count))).Mul(weight))
			d = d.Add(LoadFloats(unsafe.Add(above, 48*Count)).Add(LoadFloats(unsafe.Add(below, 48*Count))).Mul(weight))
		}
		first := LowWords(FloatBits(a.Add(rounding)), FloatBits(b.Add(rounding)))
		second := LowWords(FloatBits(c.Add(rounding)), FloatBits(d.Add(rounding)))
		StoreLowBytes(first, second, unsafe.Add(to, i))
	}
	Leave()
}

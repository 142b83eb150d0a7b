//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package blur

import (
	"unsafe"

	"github.com/imgfeed/imgfeed/internal/kernel"
	. "github.com/imgfeed/imgfeed/internal/lanes/avx2"
)

func init() {
	byLevel[kernel.AVX2] = &kernels{box: boxAVX2, rows: rowsAVX2, columns: columnsAVX2}
}

// boxAVX2 is boxGeneric for 16 bytes of each lane at a time. Sums of up to 121 bytes are words, which it multiplies by
// both weights at once.
func boxAVX2(dst, src []byte, step, n int, b box) {
	high, low := SplitWeight(int32(b.inner), int32(b.outer), false)
	highs, lows, start := BroadcastPair(high), BroadcastPair(low), TopByteStart()
	taps := 2*b.radius + 1
	from, to := unsafe.Pointer(unsafe.SliceData(src)), unsafe.Pointer(unsafe.SliceData(dst))
	for i := 0; i < n; i += 16 * Count {
		p := unsafe.Add(from, i)
		outer0, outer1 := LoadBytes(p), LoadBytes(unsafe.Add(p, 8*Count))
		p = unsafe.Add(p, step)
		inner0, inner1 := LoadBytes(p), LoadBytes(unsafe.Add(p, 8*Count))
		for range taps - 1 {
			p = unsafe.Add(p, step)
			inner0, inner1 = inner0.Add(LoadBytes(p)), inner1.Add(LoadBytes(unsafe.Add(p, 8*Count)))
		}
		p = unsafe.Add(p, step)
		outer0, outer1 = outer0.Add(LoadBytes(p)), outer1.Add(LoadBytes(unsafe.Add(p, 8*Count)))
		StoreLowBytes(weighedAVX2(inner0, outer0, highs, lows, start), weighedAVX2(inner1, outer1, highs, lows, start), unsafe.Add(to, i))
	}
	Leave()
}

// weighedAVX2 returns the top bytes of weighted sums.
func weighedAVX2(inner, outer, highs, lows Words, start Dwords) Words {
	first, second := Interleave(inner, outer)
	firstHigh, firstLow := MulPairs(start, first, highs, lows)
	secondHigh, secondLow := MulPairs(start, second, highs, lows)
	sums := HighWords(firstLow.Add(Raise(firstHigh, false)), secondLow.Add(Raise(secondHigh, false)))
	return sums.ToBits().ShiftAllRight(8).BitsToInt16()
}

// rowsAVX2 is rowsGeneric. It widens bytes to words and these to two vectors of dwords, by lane, and stores the sums in that order.
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

// columnsAVX2 is columnsGeneric, for sums in rowsAVX2's order.
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

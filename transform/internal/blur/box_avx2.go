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

// boxAVX2 does what boxGeneric does, 16 bytes for each lane at a time. Sums of up to 121 bytes are words, which it multiplies by both
// weights at once.
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

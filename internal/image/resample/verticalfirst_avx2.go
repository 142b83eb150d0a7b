//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package resample

import (
	"unsafe"

	. "github.com/imgfeed/imgfeed/internal/lanes/avx2"
)

// verticalFirstAVX2 makes a row of a vertical pass that comes first from source rows that are stride bytes apart, two weights
// of k for each pair of them; last is how far apart those of the last pair are, 0 for an odd number of rows. It takes a vector
// of bytes at a time, the last ones overlapping those before.
func verticalFirstAVX2[E ending](dst, src unsafe.Pointer, stride, rowBytes int, k []int32, last int) {
	top := len(*new(E)) == 1
	start := WholeStart(top)
	bytes := BroadcastWords(255)
	for x := 0; x < rowBytes; x += 16 * Count {
		x := min(x, rowBytes-16*Count)
		row := unsafe.Add(src, x)
		even0, odd0, even1, odd1 := start, start, start, start
		for i := 0; ; row = unsafe.Add(row, 2*stride) {
			step := stride
			if i+2 >= len(k) {
				step = last
			}
			high, low := BroadcastPair(k[i]), BroadcastPair(k[i+1])
			v, w := LoadWords(row), LoadWords(unsafe.Add(row, step))
			pairs, upper := Interleave(v, w)
			even0 = AddPairs(even0, pairs.And(bytes), high, low, top)
			odd0 = AddPairs(odd0, pairs.ToBits().ShiftAllRight(8).BitsToInt16(), high, low, top)
			even1 = AddPairs(even1, upper.And(bytes), high, low, top)
			odd1 = AddPairs(odd1, upper.ToBits().ShiftAllRight(8).BitsToInt16(), high, low, top)
			if i += 2; i >= len(k) {
				break
			}
		}
		if top {
			Store(JoinTops(even0, odd0, even1, odd1), unsafe.Add(dst, x))
		} else {
			Store(JoinClipped(even0, odd0, even1, odd1), unsafe.Add(dst, x))
		}
	}
	Leave()
}

// verticalFirst2AVX2 serves 3 or 4 taps of a filter without negative weights: bilinear up to a scale of 2.
func verticalFirst2AVX2(dst, src unsafe.Pointer, stride, rowBytes int, k []int32, last int) {
	start := SumStart(true)
	bytes := BroadcastWords(255)
	k = k[:4]
	high0, low0, high1, low1 := BroadcastPair(k[0]), BroadcastPair(k[1]), BroadcastPair(k[2]), BroadcastPair(k[3])
	sum := func(v, w Words) Dwords {
		high, low := MulPairs(start, v, high0, low0)
		high, low = MulAddPairs(high, low, w, high1, low1)
		return low.Add(Raise(high, true))
	}
	for x := 0; x < rowBytes; x += 16 * Count {
		x := min(x, rowBytes-16*Count)
		row := unsafe.Add(src, x)
		third := unsafe.Add(row, 2*stride)
		a, b := LoadWords(row), LoadWords(unsafe.Add(row, stride))
		c, d := LoadWords(third), LoadWords(unsafe.Add(third, last))
		v, upper0 := Interleave(a, b)
		w, upper1 := Interleave(c, d)
		even0, odd0 := sum(v.And(bytes), w.And(bytes)), sum(v.ToBits().ShiftAllRight(8).BitsToInt16(), w.ToBits().ShiftAllRight(8).BitsToInt16())
		even1, odd1 := sum(upper0.And(bytes), upper1.And(bytes)), sum(upper0.ToBits().ShiftAllRight(8).BitsToInt16(), upper1.ToBits().ShiftAllRight(8).BitsToInt16())
		Store(JoinTops(even0, odd0, even1, odd1), unsafe.Add(dst, x))
	}
	Leave()
}

// takeAVX2 makes an output row, 16·vectors bytes, of the first or the second bytes (second is 0 or 1) of a row pair of the
// ring.
func takeAVX2(p *bandPlan, dst unsafe.Pointer, pair, second int) {
	row := p.ringRow(pair)
	pack0, pack1 := PackTables()
	for v := 0; v < p.vectors; v += Count {
		at := 64 * min(v, p.vectors-Count)
		a, b := LoadDwords(unsafe.Add(row, at)), LoadDwords(unsafe.Add(row, at+16*Count))
		c, d := LoadDwords(unsafe.Add(row, at+32*Count)), LoadDwords(unsafe.Add(row, at+48*Count))
		if second == 0 {
			a, b, c, d = a.ShiftAllLeft(16), b.ShiftAllLeft(16), c.ShiftAllLeft(16), d.ShiftAllLeft(16)
		}
		a, b, c, d = a.ShiftAllLeft(8), b.ShiftAllLeft(8), c.ShiftAllLeft(8), d.ShiftAllLeft(8)
		Store(PackTops(a, b, c, d, pack0, pack1), unsafe.Add(dst, at>>2))
	}
	Leave()
}

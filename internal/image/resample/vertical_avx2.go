//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package resample

import (
	"unsafe"

	. "github.com/imgfeed/imgfeed/internal/lanes/avx2"
)

// verticalsAVX2 make an output row, 16·vectors bytes, from row pairs of the ring.
var verticalsAVX2 = verticalKernels{
	{
		verticalAVX2[one, clipped], verticalAVX2[two, clipped], verticalAVX2[three, clipped], verticalAVX2[four, clipped],
		verticalAnyAVX2[clipped],
	},
	{
		verticalAVX2[one, topByte], verticalAVX2[two, topByte], verticalAVX2[three, topByte], verticalAVX2[four, topByte],
		verticalAnyAVX2[topByte],
	},
}

// verticalAVX2 is for as many pairs as N has elements. Their weights stay in registers. It works on four vectors at a
// time; the last ones may overlap those before.
func verticalAVX2[N few, E ending](p *bandPlan, dst unsafe.Pointer, pair int, k []int32) {
	n, top := len(*new(N)), len(*new(E)) == 1
	start, vectors := SumStart(top), p.vectors
	pack0, pack1 := PackTables()
	k = k[:2*n]
	high0, low0 := BroadcastPair(k[0]), BroadcastPair(k[1])
	row0 := p.ringRow(pair)
	row1, row2, row3, high1, low1, high2, low2, high3, low3 := row0, row0, row0, high0, low0, high0, low0, high0, low0
	if n > 1 {
		row1, high1, low1 = p.ringRow(pair+1), BroadcastPair(k[2]), BroadcastPair(k[3])
	}
	if n > 2 {
		row2, high2, low2 = p.ringRow(pair+2), BroadcastPair(k[4]), BroadcastPair(k[5])
	}
	if n > 3 {
		row3, high3, low3 = p.ringRow(pair+3), BroadcastPair(k[6]), BroadcastPair(k[7])
	}
	sum := func(at int) Dwords {
		high, low := MulPairs(start, LoadWords(unsafe.Add(row0, at)), high0, low0)
		if n > 1 {
			high, low = MulAddPairs(high, low, LoadWords(unsafe.Add(row1, at)), high1, low1)
		}
		if n > 2 {
			high, low = MulAddPairs(high, low, LoadWords(unsafe.Add(row2, at)), high2, low2)
		}
		if n > 3 {
			high, low = MulAddPairs(high, low, LoadWords(unsafe.Add(row3, at)), high3, low3)
		}
		return low.Add(Raise(high, top))
	}
	for v := 0; v < vectors; v += Count {
		at := 64 * min(v, vectors-Count)
		if top {
			Store(PackTops(sum(at), sum(at+16*Count), sum(at+32*Count), sum(at+48*Count), pack0, pack1), unsafe.Add(dst, at>>2))
		} else {
			Store(PackClipped(sum(at), sum(at+16*Count), sum(at+32*Count), sum(at+48*Count), pack0, pack1), unsafe.Add(dst, at>>2))
		}
	}
	Leave()
}

// verticalAnyAVX2 is for any number of pairs; k has two entries for each.
func verticalAnyAVX2[E ending](p *bandPlan, dst unsafe.Pointer, firstPair int, k []int32) {
	top := len(*new(E)) == 1
	start, vectors := SumStart(top), p.vectors
	pack0, pack1 := PackTables()
	for v := 0; v < vectors; v += Count {
		at := 64 * min(v, vectors-Count)
		aHigh, bHigh, cHigh, dHigh := start, start, start, start
		var aLow, bLow, cLow, dLow Dwords
		pair := firstPair
		for i := 0; i+1 < len(k); i += 2 {
			row := unsafe.Add(p.ring, (pair&p.ringMask)*p.ringStride+at)
			high, low := BroadcastPair(k[i]), BroadcastPair(k[i+1])
			aHigh, aLow = MulAddPairs(aHigh, aLow, LoadWords(row), high, low)
			bHigh, bLow = MulAddPairs(bHigh, bLow, LoadWords(unsafe.Add(row, 16*Count)), high, low)
			cHigh, cLow = MulAddPairs(cHigh, cLow, LoadWords(unsafe.Add(row, 32*Count)), high, low)
			dHigh, dLow = MulAddPairs(dHigh, dLow, LoadWords(unsafe.Add(row, 48*Count)), high, low)
			pair++
		}
		a, b := aLow.Add(Raise(aHigh, top)), bLow.Add(Raise(bHigh, top))
		c, d := cLow.Add(Raise(cHigh, top)), dLow.Add(Raise(dHigh, top))
		if top {
			Store(PackTops(a, b, c, d, pack0, pack1), unsafe.Add(dst, at>>2))
		} else {
			Store(PackClipped(a, b, c, d, pack0, pack1), unsafe.Add(dst, at>>2))
		}
	}
	Leave()
}

// verticalFirstAVX2 makes a row of a vertical pass that comes first, from source rows stride bytes apart. k has two
// weights for each pair of rows; last is the distance of the last pair's rows, 0 for an odd number of rows. It takes a
// vector of bytes at a time; the last ones overlap those before.
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

// verticalFirst2AVX2 is for 3 or 4 taps of a filter without negative weights: bilinear up to a scale of 2.
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
		even0 := sum(v.And(bytes), w.And(bytes))
		odd0 := sum(v.ToBits().ShiftAllRight(8).BitsToInt16(), w.ToBits().ShiftAllRight(8).BitsToInt16())
		even1 := sum(upper0.And(bytes), upper1.And(bytes))
		odd1 := sum(upper0.ToBits().ShiftAllRight(8).BitsToInt16(), upper1.ToBits().ShiftAllRight(8).BitsToInt16())
		Store(JoinTops(even0, odd0, even1, odd1), unsafe.Add(dst, x))
	}
	Leave()
}

// takeAVX2 makes an output row, 16·vectors bytes, from the first or the second bytes (second is 0 or 1) of a row pair of the ring.
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

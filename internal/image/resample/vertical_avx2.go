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

//go:build goexperiment.simd && go1.27 && !go1.28 && arm64

package pixelcodec

import (
	. "simd/archsimd"
	"unsafe"

	"github.com/imgfeed/imgfeed/internal/kernel"
)

// unpackNEON uses the algorithm of unpackAVX2. The left two groups of a chunk's plane and the right two correspond to the lanes of a vector
// there. A byte look-up spreads the bit planes, and three exchanges of bits and four interleavings turn planes into columns.
func unpackNEON(t *groupTables, headers, payload []byte, rows *rowPair, chunks int, first bool, ahead fetch) {
	if ahead.step != 0 {
		kernel.Prefetch(ahead.memory)
	}
	if first {
		clear(rows.bottom)
	}
	m4, m2, m1 := BroadcastUint8x16(0x0F), BroadcastUint8x16(0x33), BroadcastUint8x16(0x55)
	head, src, o := start(headers), start(payload), 0
	top, bottom, stride := start(rows.top), start(rows.bottom), rows.stride
	for remaining := 3 * chunks; ; head = unsafe.Add(head, 2) {
		codes := *(*[2]uint8)(head)
		left, right := &t.spread[codes[0]], &t.spread[codes[1]]
		half := int(t.pairWidth[codes[0]])
		row := half + int(t.pairWidth[codes[1]])
		unpackPairNEON(src, unsafe.Add(src, row), left, unsafe.Add(top, o), unsafe.Add(bottom, o), m4, m2, m1)
		src = unsafe.Add(src, half)
		unpackPairNEON(src, unsafe.Add(src, row), right, unsafe.Add(top, o+16), unsafe.Add(bottom, o+16), m4, m2, m1)
		if remaining--; remaining == 0 {
			break
		}
		src = unsafe.Add(src, 2*row-half)
		if o += stride; o >= 3*stride { // continue with the first plane of the next chunk
			o += chunkColumns - 3*stride
		}
	}
	if first {
		sumFirstRowsNEON(rows, chunks)
	}
}

// unpackPairNEON decodes 16 columns of two rows of a plane from their bit planes and the row above. On entry bottom holds that row.
func unpackPairNEON(upper, lower unsafe.Pointer, s *spread, top, bottom unsafe.Pointer, m4, m2, m1 Uint8x16) {
	planes, lowest := LoadInt8x16Array(&s.planes).ToBits(), LoadUint8x16Array(&s.lowest)
	a := LoadUint8x16Array((*[16]uint8)(upper)).LookupOrZero(planes)
	b := LoadUint8x16Array((*[16]uint8)(lower)).LookupOrZero(planes)
	wa, wb := a.ReshapeToUint16s(), b.ReshapeToUint16s()
	a, b = wa.InterleaveLo(wb).ReshapeToUint8s(), wa.InterleaveHi(wb).ReshapeToUint8s()
	t := a.ShiftAllRight(4).Xor(b).And(m4)
	a, b = a.Xor(t.ShiftAllLeft(4)), b.Xor(t)
	a, b = a.InterleaveLo(b), a.InterleaveHi(b)
	t = a.ShiftAllRight(2).Xor(b).And(m2)
	a, b = a.Xor(t.ShiftAllLeft(2)), b.Xor(t)
	a, b = a.InterleaveLo(b), a.InterleaveHi(b)
	t = a.ShiftAllRight(1).Xor(b).And(m1)
	a, b = a.Xor(t.ShiftAllLeft(1)), b.Xor(t)
	a, b = a.InterleaveLo(b), a.InterleaveHi(b)
	a = a.Add(LoadUint8x16Array((*[16]uint8)(bottom)).Add(lowest))
	a.StoreArray((*[16]uint8)(top))
	a.Add(b.Add(lowest)).StoreArray((*[16]uint8)(bottom))
}

//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package pixelcodec

import "unsafe"

//go:noescape
func unpackPairAVX2(tables *groupTables, headers, payload, top, bottom unsafe.Pointer, stride, chunks int, ahead unsafe.Pointer, apart int)

//go:noescape
func unpackPairAVX512(tables *groupTables, headers, payload, top, bottom unsafe.Pointer, stride, chunks int, ahead unsafe.Pointer, apart int)

// unpackAVX2 does the three planes of two chunks side by side: each instruction waits for the one before it, and a processor looks
// only so far ahead for others to do meanwhile. PSHUFB brings the bit planes of two groups together, byte 2j+g
// being plane j of group g, one vector for the top row (a) and one for the bottom row (b). Then bits change places by exchanges
// between the two vectors, a third of the transposition each, and byte unpacks bring the partners of the next exchange
// into different vectors. In five bits, where a byte stands (the vector, then the place in a half of it; j is the plane, g the
// group, r the row, c the column):
//
//	r | j2 j1 j0 g     as spread
//	j2 | j1 j0 r g     VPUNPCKLWD, VPUNPCKHWD; exchange j2 with c2, bits 4 apart
//	j1 | j0 r g c2     VPUNPCKLBW, VPUNPCKHBW; exchange j1 with c1
//	j0 | r g c2 c1     the same; exchange j0 with c0
//	r | g c2 c1 c0     the same: the rows
//
// That is 26 instructions where transposing each vector by itself takes 36, and it needs byte unpacks, which simd/archsimd
// does not have. It is in assembly because that makes all of serving 18 % faster with AVX2 (46,600 images/s against 54,900, eval of
// photographs, Zen 5, medians of seven alternating runs) than the same by archsimd's means.
func unpackAVX2(t *groupTables, headers, payload []byte, rows *rowPair, chunks int, first bool, ahead fetch) {
	if first {
		clear(rows.bottom)
	}
	unpackPairAVX2(t, start(headers), start(payload), start(rows.top), start(rows.bottom), rows.stride, chunks, start(ahead.memory), ahead.apart)
	if first {
		sumFirstRowsAVX2(rows, chunks)
	}
}

// unpackAVX512 does one plane of a chunk at a time, both rows in one vector: VPEXPANDB spreads the planes to eight bytes
// for each group, and VGF2P8AFFINEQB transposes the eight groups' bits. Written by archsimd's means it makes serving 7 %
// slower; being there beside the other, it is in assembly too.
func unpackAVX512(t *groupTables, headers, payload []byte, rows *rowPair, chunks int, first bool, ahead fetch) {
	if first {
		clear(rows.bottom)
	}
	unpackPairAVX512(t, start(headers), start(payload), start(rows.top), start(rows.bottom), rows.stride, chunks, start(ahead.memory), ahead.apart)
	if first {
		sumFirstRowsAVX2(rows, chunks)
	}
}

// A store to memory that is in no cache first reads it from there. Stores that go past the caches don't, which saves a third of
// what decoding moves; simd/archsimd does not have them. A batch larger than the caches is not in them any more
// when its consumer reads it, and so loses nothing.

//go:noescape
func streamRowsAVX512(dst, top, bottom unsafe.Pointer, stride, blocks, step int, shuffles unsafe.Pointer)

//go:noescape
func streamRowsAVX2(dst, top, bottom unsafe.Pointer, stride, blocks, step int, shuffles, thirds unsafe.Pointer)

// streamCopyAVX2 copies vectors of 32 bytes, one at least.
//
//go:noescape
func streamCopyAVX2(dst, src unsafe.Pointer, vectors int)

// streamCopy copies src to dst, which is as long and aligned.
func streamCopy(dst, src []byte) { streamCopyAVX2(start(dst), start(src), len(dst)/streamAlign) }

// fence orders streamed stores before all that come after: other processors may otherwise see those first.
func fence()

// ends returns where the first blocks of two rows are, and how far it is from one to the next. The second row may be nil.
func ends(top, bottom []byte, width int, flip bool) (first, second unsafe.Pointer, step int) {
	first, step = start(top), 32
	if bottom != nil {
		second = start(bottom)
	}
	if flip {
		first, step = unsafe.Pointer(&top[width-32]), -32
		if bottom != nil {
			second = unsafe.Pointer(&bottom[width-32])
		}
	}
	return first, second, step
}

func streamAVX512(dst, top, bottom []byte, stride, width int, flip bool) {
	first, second, step := ends(top, bottom, width, flip)
	shuffles := &constants512.interleaveLow
	if flip {
		shuffles = &constants512.mirrorLow
	}
	streamRowsAVX512(start(dst), first, second, stride, width/32, step, unsafe.Pointer(shuffles))
}

func streamAVX2(dst, top, bottom []byte, stride, width int, flip bool) {
	first, second, step := ends(top, bottom, width, flip)
	shuffles := &placesAVX2
	if flip {
		shuffles = &mirroredAVX2
	}
	streamRowsAVX2(start(dst), first, second, stride, width/32, step, unsafe.Pointer(shuffles), unsafe.Pointer(&thirdsAVX2))
}

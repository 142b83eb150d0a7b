//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package pixelcodec

import "unsafe"

//go:noescape
func unpackPairAVX2(tables *groupTables, headers, payload, top, bottom unsafe.Pointer, stride, chunks int, ahead unsafe.Pointer, step int)

//go:noescape
func unpackPairAVX512(tables *groupTables, headers, payload, top, bottom unsafe.Pointer, stride, chunks int, ahead unsafe.Pointer, step int)

// unpackAVX2 does the three planes of two chunks in parallel: each instruction waits for the previous one, and a processor's look-ahead for
// independent instructions is limited. PSHUFB collects the bit planes of two groups: byte 2j+g is plane j of group g, one vector for the
// top row (a) and one for the bottom row (b). Then exchanges of bits between the two vectors do a third of the transposition each, and byte
// unpacks move the partners of the next exchange into different vectors. The position of a byte in five bits (the vector, then the index in
// a half of it; j is the plane, g the group, r the row, c the column):
//
//	r | j2 j1 j0 g     after PSHUFB
//	j2 | j1 j0 r g     VPUNPCKLWD, VPUNPCKHWD; exchange j2 with c2, bits 4 apart
//	j1 | j0 r g c2     VPUNPCKLBW, VPUNPCKHBW; exchange j1 with c1
//	j0 | r g c2 c1     the same; exchange j0 with c0
//	r | g c2 c1 c0     the same: the rows
//
// That takes 26 instructions; separate transpositions would take 36. It needs byte unpacks, which simd/archsimd does
// not have. The assembly makes serving 18 % faster with AVX2 than archsimd (54,900 instead of 46,600 images/s, eval of
// photographs, Zen 5, medians of seven alternating runs).
func unpackAVX2(t *groupTables, headers, payload []byte, rows *rowPair, chunks int, first bool, ahead fetch) {
	if first {
		clear(rows.bottom)
	}
	top, bottom := start(rows.top), start(rows.bottom)
	unpackPairAVX2(t, start(headers), start(payload), top, bottom, rows.stride, chunks, start(ahead.memory), ahead.step)
	if first {
		sumFirstRowsAVX2(rows, chunks)
	}
}

// unpackAVX512 does one plane of a chunk at a time, both rows in one vector: VPEXPANDB spreads the planes to eight bytes for each group,
// and VGF2P8AFFINEQB transposes the eight groups' bits. With archsimd serving would be 7 % slower.
func unpackAVX512(t *groupTables, headers, payload []byte, rows *rowPair, chunks int, first bool, ahead fetch) {
	if first {
		clear(rows.bottom)
	}
	top, bottom := start(rows.top), start(rows.bottom)
	unpackPairAVX512(t, start(headers), start(payload), top, bottom, rows.stride, chunks, start(ahead.memory), ahead.step)
	if first {
		sumFirstRowsAVX2(rows, chunks)
	}
}

// A store to uncached memory first reads the line. Non-temporal stores do not, which saves a third of decoding's memory
// traffic; simd/archsimd does not have them. A batch larger than the caches loses nothing by it, because it would be
// evicted before its consumer reads it.

//go:noescape
func streamRowsAVX512(dst, top, bottom unsafe.Pointer, stride, blocks, step int, shuffles unsafe.Pointer)

//go:noescape
func streamRowsAVX2(dst, top, bottom unsafe.Pointer, stride, blocks, step int, shuffles, thirds unsafe.Pointer)

// streamCopyAVX2 copies vectors of 32 bytes, at least one.
//
//go:noescape
func streamCopyAVX2(dst, src unsafe.Pointer, vectors int)

// streamCopy copies src to dst, which is aligned and has the same length.
func streamCopy(dst, src []byte) { streamCopyAVX2(start(dst), start(src), len(dst)/streamAlign) }

// fence orders streamed stores before all later ones, which other processors could otherwise see first.
func fence()

// ends returns the addresses of the first blocks of two rows, and the step to the next ones. The second row may be nil.
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
	shuffles := &forwardAVX2
	if flip {
		shuffles = &mirroredAVX2
	}
	streamRowsAVX2(start(dst), first, second, stride, width/32, step, unsafe.Pointer(shuffles), unsafe.Pointer(&thirdsAVX2))
}

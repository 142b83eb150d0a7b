//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package pixelcodec

import (
	"unsafe"

	"github.com/imgfeed/imgfeed/internal/kernel"
	. "github.com/imgfeed/imgfeed/internal/lanes/avx2"
)

func init() {
	byLevel[kernel.AVX2] = &kernels{
		measure: measureAVX2, unpack: unpackAVX2, predict: predictAVX2, interleave: interleaveAVX2,
		planar: planarAVX2, split: splitAVX2, residuals: residualsAVX2, pack: packAVX2,
	}
}

// Kernels along chunks. A row of one plane in a chunk is one vector of AVX2, or two of NEON. AVX-512 uses the kernels
// of AVX2, except where its other instructions help. If Count is 1, the second step is written out, because the
// compiler does not unroll loops of one round.

// spreadBiasAVX2 repeats each of bytes 4 to 7 of an eight-byte word eight times, from a maskBias to the bias of each column.
var spreadBiasAVX2 = func() (t [32]uint8) {
	for i := range t {
		t[i] = uint8(4 + i/8)
	}
	return t
}()

// predictStepAVX2 predicts a vector of two rows of a plane: the residuals of the bottom row are 32 bytes after those of the top row.
func predictStepAVX2(src, top, bottom unsafe.Pointer) {
	v := Load(src).Add(Load(bottom))
	Store(v, top)
	Store(v.Add(Load(unsafe.Add(src, chunkColumns))), bottom)
}

// predictAVX2 only loads, adds and stores. There is at least one chunk.
func predictAVX2(residuals []byte, rows *rowPair, chunks int, first bool) {
	if first {
		clear(rows.bottom)
	}
	src, o := start(residuals), 0
	top, bottom, stride := start(rows.top), start(rows.bottom), rows.stride
	for remaining := 3 * chunks; ; src = unsafe.Add(src, 2*chunkColumns) {
		predictStepAVX2(src, unsafe.Add(top, o), unsafe.Add(bottom, o))
		if Count == 1 {
			predictStepAVX2(unsafe.Add(src, 16), unsafe.Add(top, o+16), unsafe.Add(bottom, o+16))
		}
		if remaining--; remaining == 0 {
			break
		}
		if o += stride; o >= 3*stride { // continue with the first plane of the next chunk
			o += chunkColumns - 3*stride
		}
	}
	Leave()
	if first {
		sumFirstRowsAVX2(rows, chunks)
	}
}

// sumStepAVX2 is a step of sumFirstRowsAVX2 for one vector. left is the sample to the left of it; the result is its last sample.
func sumStepAVX2(top, bottom unsafe.Pointer, left Bytes) (last Bytes) {
	residuals := Load(top)
	values, last := PrefixSums(residuals, left)
	Store(values, top)
	Store(Load(bottom).Sub(residuals).Add(values), bottom)
	return last
}

// sumFirstRowsAVX2 completes the first two rows of a band, which were decoded with zeros as the row above: the top
// row's samples are predicted by those to their left, the first one by 128.
func sumFirstRowsAVX2(rows *rowPair, chunks int) {
	top, bottom, mid := start(rows.top), start(rows.bottom), BroadcastBytes(128)
	for plane := range 3 {
		for c := range chunks {
			o := plane*rows.stride + c*chunkColumns
			last := sumStepAVX2(unsafe.Add(top, o), unsafe.Add(bottom, o), mid)
			if Count == 1 {
				sumStepAVX2(unsafe.Add(top, o+16), unsafe.Add(bottom, o+16), last)
			}
		}
	}
	Leave()
}

// storeResidualsAVX2 writes the residuals of one plane of a chunk from its rows and the row above.
func storeResidualsAVX2(out unsafe.Pointer, above, upper, lower Bytes) {
	Store(upper.Sub(above), out)
	Store(lower.Sub(upper), unsafe.Add(out, chunkColumns))
}

func residualsAVX2(dst, top, bottom, above []byte, chunks int, first bool) {
	if chunks == 0 {
		return
	}
	const chunkBytes = 3 * chunkColumns
	mid := BroadcastBytes(128)
	p0, p1, up, out := start(top), start(bottom), start(above), start(dst)
	for remaining := chunks; ; {
		leftG, leftR, leftB := mid, mid, mid
		for x := 0; x < chunkColumns; x += vectorAVX2 {
			g0, r0, b0 := loadPlanesAVX2(unsafe.Add(p0, 3*x), mid)
			g1, r1, b1 := loadPlanesAVX2(unsafe.Add(p1, 3*x), mid)
			aboveG, aboveR, aboveB := unsafe.Add(up, x), unsafe.Add(up, x+chunkColumns), unsafe.Add(up, x+2*chunkColumns)
			o := unsafe.Add(out, x)
			if first {
				storeResidualsAVX2(o, ShiftIn(leftG, g0), g0, g1)
				storeResidualsAVX2(unsafe.Add(o, 2*chunkColumns), ShiftIn(leftR, r0), r0, r1)
				storeResidualsAVX2(unsafe.Add(o, 4*chunkColumns), ShiftIn(leftB, b0), b0, b1)
				leftG, leftR, leftB = g0, r0, b0
			} else {
				storeResidualsAVX2(o, Load(aboveG), g0, g1)
				storeResidualsAVX2(unsafe.Add(o, 2*chunkColumns), Load(aboveR), r0, r1)
				storeResidualsAVX2(unsafe.Add(o, 4*chunkColumns), Load(aboveB), b0, b1)
			}
			Store(g1, aboveG)
			Store(r1, aboveR)
			Store(b1, aboveB)
		}
		if remaining--; remaining == 0 {
			break
		}
		p0, p1 = unsafe.Add(p0, chunkBytes), unsafe.Add(p1, chunkBytes)
		up, out = unsafe.Add(up, chunkBytes), unsafe.Add(out, chunkResiduals)
	}
	Leave()
}

// rangesAVX2 returns, in the low 16 bits of each word, the index into a codeTable of a group of eight columns. Its
// residuals are that word of v0 and of v1.
func rangesAVX2(v0, v1 Bytes) Qwords {
	a, b := v0.BitsToInt8(), v1.BitsToInt8()
	low, high := a.Min(b), a.Max(b)
	low = low.Min(low.ToBits().ReshapeToUint64s().ShiftAllRight(32).ReshapeToUint8s().BitsToInt8())
	high = high.Max(high.ToBits().ReshapeToUint64s().ShiftAllRight(32).ReshapeToUint8s().BitsToInt8())
	low = low.Min(low.ToBits().ReshapeToUint64s().ShiftAllRight(16).ReshapeToUint8s().BitsToInt8())
	high = high.Max(high.ToBits().ReshapeToUint64s().ShiftAllRight(16).ReshapeToUint8s().BitsToInt8())
	low = low.Min(low.ToBits().ReshapeToUint64s().ShiftAllRight(8).ReshapeToUint8s().BitsToInt8())
	high = high.Max(high.ToBits().ReshapeToUint64s().ShiftAllRight(8).ReshapeToUint8s().BitsToInt8())
	lowest := low.ToBits().ReshapeToUint64s().And(BroadcastQwords(0xFF))
	index := lowest.Or(high.ToBits().ReshapeToUint64s().ShiftAllLeft(8).And(BroadcastQwords(0xFF00)))
	return index.Xor(BroadcastQwords(0x8080))
}

// transposeAVX2 is transpose8 of each word.
func transposeAVX2(v Bytes, m7, m14, m28 Qwords) Bytes {
	x := v.ReshapeToUint64s()
	t := x.Xor(x.ShiftAllRight(7)).And(m7)
	x = x.Xor(t).Xor(t.ShiftAllLeft(7))
	t = x.Xor(x.ShiftAllRight(14)).And(m14)
	x = x.Xor(t).Xor(t.ShiftAllLeft(14))
	t = x.Xor(x.ShiftAllRight(28)).And(m28)
	return x.Xor(t).Xor(t.ShiftAllLeft(28)).ReshapeToUint8s()
}

func packAVX2(t *groupTables, codes *codeTable, headers, payload, residuals []byte, chunks int) int {
	var scratch [8]uint64
	return packWithAVX2(&scratch, t, codes, headers, payload, residuals, chunks)
}

// packWithAVX2 is packAVX2 with memory for eight words from the caller, because the compiler zeroes it with SSE.
//
//go:noinline
func packWithAVX2(scratch *[8]uint64, t *groupTables, codes *codeTable, headers, payload, residuals []byte, chunks int) int {
	m7, m14, m28 := BroadcastQwords(0x00AA00AA00AA00AA), BroadcastQwords(0x0000CCCC0000CCCC), BroadcastQwords(0x00000000F0F0F0F0)
	src, out, head := start(residuals), start(payload), start(headers)
	used := uint(0)
	for remaining := 3 * chunks; ; src, head = unsafe.Add(src, 2*chunkColumns), unsafe.Add(head, 2) {
		Store(rangesAVX2(Load(src), Load(unsafe.Add(src, chunkColumns))).ReshapeToUint8s(), unsafe.Pointer(scratch))
		if Count == 1 {
			ranges := rangesAVX2(Load(unsafe.Add(src, 16)), Load(unsafe.Add(src, chunkColumns+16)))
			Store(ranges.ReshapeToUint8s(), unsafe.Pointer(&scratch[2]))
		}
		left, right := codes.lookup(scratch[0], scratch[1]), codes.lookup(scratch[2], scratch[3])
		*(*[2]uint8)(head) = [2]uint8{left, right}
		lowest := BroadcastQwords(t.maskBias[left] | t.maskBias[right]<<16).ReshapeToUint8s()
		bias := Take(lowest, Load(unsafe.Pointer(&spreadBiasAVX2[0])))
		Store(transposeAVX2(Load(src).Add(bias), m7, m14, m28), unsafe.Pointer(scratch))
		Store(transposeAVX2(Load(unsafe.Add(src, chunkColumns)).Add(bias), m7, m14, m28), unsafe.Pointer(&scratch[4]))
		if Count == 1 {
			bias = Take(lowest, Load(unsafe.Pointer(&spreadBiasAVX2[16])))
			Store(transposeAVX2(Load(unsafe.Add(src, 16)).Add(bias), m7, m14, m28), unsafe.Pointer(&scratch[2]))
			Store(transposeAVX2(Load(unsafe.Add(src, chunkColumns+16)).Add(bias), m7, m14, m28), unsafe.Pointer(&scratch[6]))
		}
		w0, w1 := uint(t.width[left&15]), uint(t.width[left>>4])
		w2, w3 := uint(t.width[right&15]), uint(t.width[right>>4])
		for i := 0; i < 8; i += 4 {
			*(*uint64)(unsafe.Add(out, used)) = scratch[i]
			used += w0
			*(*uint64)(unsafe.Add(out, used)) = scratch[i+1]
			used += w1
			*(*uint64)(unsafe.Add(out, used)) = scratch[i+2]
			used += w2
			*(*uint64)(unsafe.Add(out, used)) = scratch[i+3]
			used += w3
		}
		if remaining--; remaining == 0 {
			break
		}
	}
	Leave()
	return int(used)
}

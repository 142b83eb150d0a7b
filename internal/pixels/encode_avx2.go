//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package pixels

import (
	. "simd/archsimd"
	"unsafe"
)

// splitShuffles takes 16 pixels of R, G, B in three 16-byte vectors apart: entry [c][v] says which byte of vector v each
// byte of channel c is, for both 128-bit lanes.
var splitShuffles = func() (t [3][3][32]int8) {
	for c := range 3 {
		for i := range 32 {
			for v := range 3 {
				t[c][v][i] = -128
			}
			place := 3*(i%16) + c
			t[c][place/16][i] = int8(place % 16)
		}
	}
	return t
}()

// splitChunk takes the 32 pixels at src apart into planes G, R−G+128 and B−G+128, stride bytes apart.
func splitChunk(planes unsafe.Pointer, stride int, src unsafe.Pointer) {
	v0 := pair16(src, unsafe.Add(src, 48))
	v1 := pair16(unsafe.Add(src, 16), unsafe.Add(src, 64))
	v2 := pair16(unsafe.Add(src, 32), unsafe.Add(src, 80))
	t := &splitShuffles
	r := v0.PermuteOrZeroGrouped(LoadInt8x32Array(&t[0][0])).Or(v1.PermuteOrZeroGrouped(LoadInt8x32Array(&t[0][1]))).Or(v2.PermuteOrZeroGrouped(LoadInt8x32Array(&t[0][2])))
	g := v0.PermuteOrZeroGrouped(LoadInt8x32Array(&t[1][0])).Or(v1.PermuteOrZeroGrouped(LoadInt8x32Array(&t[1][1]))).Or(v2.PermuteOrZeroGrouped(LoadInt8x32Array(&t[1][2])))
	b := v0.PermuteOrZeroGrouped(LoadInt8x32Array(&t[2][0])).Or(v1.PermuteOrZeroGrouped(LoadInt8x32Array(&t[2][1]))).Or(v2.PermuteOrZeroGrouped(LoadInt8x32Array(&t[2][2])))
	mid := BroadcastUint8x32(128)
	store32(g, planes)
	store32(r.Sub(g).Xor(mid), unsafe.Add(planes, stride))
	store32(b.Sub(g).Xor(mid), unsafe.Add(planes, 2*stride))
}

// splitAVX2 makes 32 pixels at a time. The last 32 may overlap those before.
func splitAVX2(planes []byte, stride int, src []byte, width int) {
	if width < 32 {
		splitGeneric(planes, stride, src, width)
		return
	}
	out, in := start(planes), start(src)
	for x := 0; x < width; x += 32 {
		x = min(x, width-32)
		splitChunk(unsafe.Add(out, x), stride, unsafe.Add(in, 3*x))
	}
}

// residualsAVX2 serves AVX-512 too: it is far from being what packing waits for.
func residualsAVX2(dst, top, bottom, above []byte, chunks int, first bool) {
	if chunks == 0 {
		return
	}
	var upper, lower [3 * chunkColumns]uint8 // three planes
	residualsWith(&upper, &lower, dst, top, bottom, above, chunks, first)
}

// residualsWith is residualsAVX2 with memory for two chunks, which is zeroed elsewhere: the compiler does so by SSE.
//
//go:noinline
func residualsWith(upper, lower *[3 * chunkColumns]uint8, dst, top, bottom, above []byte, chunks int, first bool) {
	const chunkBytes = 3 * chunkColumns
	p0, p1, up, out := start(top), start(bottom), start(above), start(dst)
	for rest := chunks; ; rest-- {
		splitChunk(unsafe.Pointer(upper), chunkColumns, p0)
		splitChunk(unsafe.Pointer(lower), chunkColumns, p1)
		if first {
			for plane := range 3 {
				left := unsafe.Slice((*byte)(unsafe.Add(up, plane*chunkColumns)), chunkColumns)
				left[0] = 128
				copy(left[1:], upper[plane*chunkColumns:])
			}
		}
		for plane := range 3 {
			o := plane * chunkColumns
			a, v0, v1 := unsafe.Add(up, o), load32(unsafe.Pointer(&upper[o])), load32(unsafe.Pointer(&lower[o]))
			store32(v0.Sub(load32(a)), unsafe.Add(out, 2*o))
			store32(v1.Sub(v0), unsafe.Add(out, 2*o+chunkColumns))
			store32(v1, a)
		}
		if rest == 1 {
			ClearAVXUpperBits()
			return
		}
		p0, p1 = unsafe.Add(p0, chunkBytes), unsafe.Add(p1, chunkBytes)
		up, out = unsafe.Add(up, chunkBytes), unsafe.Add(out, chunkResiduals)
	}
}

// ranges returns, in the low 16 bits of each of four words, the index into a codeTable for the group of eight columns
// whose residuals are the word of v0 and of v1.
func ranges(v0, v1 Uint8x32) Uint64x4 {
	a, b := v0.BitsToInt8(), v1.BitsToInt8()
	low, high := a.Min(b), a.Max(b)
	low = low.Min(low.ToBits().ReshapeToUint64s().ShiftAllRight(32).ReshapeToUint8s().BitsToInt8())
	high = high.Max(high.ToBits().ReshapeToUint64s().ShiftAllRight(32).ReshapeToUint8s().BitsToInt8())
	low = low.Min(low.ToBits().ReshapeToUint64s().ShiftAllRight(16).ReshapeToUint8s().BitsToInt8())
	high = high.Max(high.ToBits().ReshapeToUint64s().ShiftAllRight(16).ReshapeToUint8s().BitsToInt8())
	low = low.Min(low.ToBits().ReshapeToUint64s().ShiftAllRight(8).ReshapeToUint8s().BitsToInt8())
	high = high.Max(high.ToBits().ReshapeToUint64s().ShiftAllRight(8).ReshapeToUint8s().BitsToInt8())
	index := low.ToBits().ReshapeToUint64s().And(BroadcastUint64x4(0xFF)).Or(high.ToBits().ReshapeToUint64s().ShiftAllLeft(8).And(BroadcastUint64x4(0xFF00)))
	return index.Xor(BroadcastUint64x4(0x8080))
}

// chooseCodes returns the header bytes for the left two and the right two groups of v0 and v1.
func chooseCodes(codes *codeTable, v0, v1 Uint8x32) (left, right uint8) {
	var index [4]uint64
	ranges(v0, v1).StoreArray(&index)
	left = codes[uint16(index[0])] | codes[uint16(index[1])]<<4
	right = codes[uint16(index[2])] | codes[uint16(index[3])]<<4
	return left, right
}

func packAVX2(t *groupTables, codes *codeTable, headers, payload, residuals []byte, chunks int) int {
	m7, m14, m28 := BroadcastUint64x4(0x00AA00AA00AA00AA), BroadcastUint64x4(0x0000CCCC0000CCCC), BroadcastUint64x4(0x00000000F0F0F0F0)
	s7, s14, s28 := BroadcastUint64x4(7), BroadcastUint64x4(14), BroadcastUint64x4(28)
	spread := LoadInt8x32Array(&spreadBias)
	src, out, head := start(residuals), start(payload), start(headers)
	var rows [8]uint64
	taken := uint(0)
	for rest := 3 * chunks; ; src, head = unsafe.Add(src, 2*chunkColumns), unsafe.Add(head, 2) {
		v0, v1 := load32(src), load32(unsafe.Add(src, chunkColumns))
		left, right := chooseCodes(codes, v0, v1)
		*(*[2]uint8)(head) = [2]uint8{left, right}
		bias := BroadcastUint64x4(t.maskBias[left] | t.maskBias[right]<<16).ReshapeToUint8s().PermuteOrZeroGrouped(spread)
		store32(transpose8x4(v0.Add(bias), m7, m14, m28, s7, s14, s28), unsafe.Pointer(&rows[0]))
		store32(transpose8x4(v1.Add(bias), m7, m14, m28, s7, s14, s28), unsafe.Pointer(&rows[4]))
		w0, w1 := uint(t.width[left&15]), uint(t.width[left>>4])
		w2, w3 := uint(t.width[right&15]), uint(t.width[right>>4])
		for i := 0; i < 8; i += 4 {
			*(*uint64)(unsafe.Add(out, taken)) = rows[i]
			taken += w0
			*(*uint64)(unsafe.Add(out, taken)) = rows[i+1]
			taken += w1
			*(*uint64)(unsafe.Add(out, taken)) = rows[i+2]
			taken += w2
			*(*uint64)(unsafe.Add(out, taken)) = rows[i+3]
			taken += w3
		}
		if rest--; rest == 0 {
			return int(taken)
		}
	}
}

// packAVX512 transposes both rows of a plane by VGF2P8AFFINEQB and gathers the planes that are needed by VPCOMPRESSB.
func packAVX512(t *groupTables, codes *codeTable, headers, payload, residuals []byte, chunks int) int {
	reverse, unit, spread := LoadInt8x64Array(&constants512.reverse8), LoadUint8x64Array(&constants512.identity), LoadInt8x64Array(&constants512.spreadBias)
	src, out, head := start(residuals), start(payload), start(headers)
	taken := uint(0)
	for rest := 3 * chunks; ; src, head = unsafe.Add(src, 2*chunkColumns), unsafe.Add(head, 2) {
		v := load64(src)
		left, right := chooseCodes(codes, v.GetLo(), v.GetHi())
		*(*[2]uint8)(head) = [2]uint8{left, right}
		maskBias := t.maskBias[left] | t.maskBias[right]<<16
		present := uint64(uint32(maskBias))
		present |= present << 32
		bias := BroadcastUint64x8(maskBias).ReshapeToUint8s().PermuteOrZeroGrouped(spread)
		matrix := v.Add(bias).PermuteOrZeroGrouped(reverse)
		planes := unit.GaloisFieldAffineTransform(matrix.ReshapeToUint64s(), 0)
		store64(planes.Compress(Mask8x64FromBits(present)), unsafe.Add(out, taken))
		taken += 2 * (uint(t.pairWidth[left]) + uint(t.pairWidth[right]))
		if rest--; rest == 0 {
			return int(taken)
		}
	}
}

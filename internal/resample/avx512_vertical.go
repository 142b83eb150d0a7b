//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package resample

import (
	"simd/archsimd"
	"unsafe"
)

// verticalAVX512 makes output row y, 16·vectors bytes, from row pairs of the ring.
func verticalAVX512(r *Resampler, p *bandPlan, dst unsafe.Pointer, y, firstPair, pairs int) {
	k := r.verticalWeights(p, y)
	row0 := r.ringRow(p, firstPair)
	switch {
	case pairs == 1 && !r.vertical.signed:
		vertical1AVX512(dst, row0, p.vectors, (*[2]int32)(k))
	case pairs == 2 && !r.vertical.signed:
		vertical2AVX512(dst, row0, r.ringRow(p, firstPair+1), p.vectors, (*[4]int32)(k))
	case pairs <= 3 && r.vertical.signed:
		vertical3SignedAVX512(dst, row0, r.ringRow(p, firstPair+1), r.ringRow(p, firstPair+2), p.vectors, (*[6]int32)(k))
	case pairs == 4 && r.vertical.signed:
		vertical4SignedAVX512(dst, row0, r.ringRow(p, firstPair+1), r.ringRow(p, firstPair+2), r.ringRow(p, firstPair+3),
			p.vectors, (*[8]int32)(k))
	default:
		verticalAnyAVX512(dst, unsafe.Pointer(&r.simd.ring[0]), firstPair, p, k[:2*pairs], r.vertical.signed)
	}
}

func weights512(k int32) archsimd.Int16x32 {
	return archsimd.BroadcastInt32x16(k).ToBits().ReshapeToUint16s().BitsToInt16()
}

func rowWords512(row unsafe.Pointer, offset int) archsimd.Int16x32 {
	return archsimd.LoadInt16x32Array((*[32]int16)(unsafe.Add(row, offset)))
}

// packTop512 puts the top bytes of four vectors' dwords side by side.
func packTop512(a, b, c, d, pack archsimd.Uint8x64, lower archsimd.Mask8x64) archsimd.Uint8x64 {
	return a.ConcatPermute(b, pack).Merge(c.ConcatPermute(d, pack), lower)
}

// vertical1AVX512 works on four vectors at a time; the last four overlap the ones before unless their number is even.
func vertical1AVX512(dst, row0 unsafe.Pointer, vectors int, k *[2]int32) {
	round, shift := archsimd.BroadcastInt32x16(splitHalf), archsimd.BroadcastUint32x16(splitBits+2)
	pack, lower := archsimd.LoadUint8x64Array(&topPack512), archsimd.Mask8x64FromBits(1<<32-1)
	high, low := weights512(k[0]), weights512(k[1])
	for v := 0; v < vectors; v += 4 {
		at := 64 * min(v, vectors-4)
		a, b := rowWords512(row0, at), rowWords512(row0, at+64)
		c, d := rowWords512(row0, at+128), rowWords512(row0, at+192)
		packTop512(
			total512(a.DotProductPairs(high), a.DotProductPairs(low), round, shift),
			total512(b.DotProductPairs(high), b.DotProductPairs(low), round, shift),
			total512(c.DotProductPairs(high), c.DotProductPairs(low), round, shift),
			total512(d.DotProductPairs(high), d.DotProductPairs(low), round, shift),
			pack, lower).StoreArray((*[64]uint8)(unsafe.Add(dst, at>>2)))
	}
}

func vertical2AVX512(dst, row0, row1 unsafe.Pointer, vectors int, k *[4]int32) {
	round, shift := archsimd.BroadcastInt32x16(splitHalf), archsimd.BroadcastUint32x16(splitBits+2)
	pack, lower := archsimd.LoadUint8x64Array(&topPack512), archsimd.Mask8x64FromBits(1<<32-1)
	high0, low0, high1, low1 := weights512(k[0]), weights512(k[1]), weights512(k[2]), weights512(k[3])
	for v := 0; v < vectors; v += 4 {
		at := 64 * min(v, vectors-4)
		a, e := rowWords512(row0, at), rowWords512(row1, at)
		x0 := total512(a.DotProductPairs(high0).Add(e.DotProductPairs(high1)), a.DotProductPairs(low0).Add(e.DotProductPairs(low1)), round, shift)
		a, e = rowWords512(row0, at+64), rowWords512(row1, at+64)
		x1 := total512(a.DotProductPairs(high0).Add(e.DotProductPairs(high1)), a.DotProductPairs(low0).Add(e.DotProductPairs(low1)), round, shift)
		a, e = rowWords512(row0, at+128), rowWords512(row1, at+128)
		x2 := total512(a.DotProductPairs(high0).Add(e.DotProductPairs(high1)), a.DotProductPairs(low0).Add(e.DotProductPairs(low1)), round, shift)
		a, e = rowWords512(row0, at+192), rowWords512(row1, at+192)
		x3 := total512(a.DotProductPairs(high0).Add(e.DotProductPairs(high1)), a.DotProductPairs(low0).Add(e.DotProductPairs(low1)), round, shift)
		packTop512(x0, x1, x2, x3, pack, lower).StoreArray((*[64]uint8)(unsafe.Add(dst, at>>2)))
	}
}

// clipped512 finishes two vectors' signed sums: 32 bytes of output.
func clipped512(x, y archsimd.Uint8x64) archsimd.Uint8x32 {
	words := x.ConcatPermute(y, archsimd.LoadUint8x64Array(&highPack512)).ReshapeToUint16s().BitsToInt16().ShiftAllRight(weightBits - 16)
	return words.Max(archsimd.BroadcastInt16x32(0)).ToBits().SaturateToUint8()
}

// verticalAnyAVX512 serves any number of pairs, k holding two entries for each; four vectors at a time.
func verticalAnyAVX512(dst, ring unsafe.Pointer, firstPair int, p *bandPlan, k []int32, signed bool) {
	round, zero := archsimd.BroadcastInt32x16(splitHalf), archsimd.BroadcastInt32x16(0)
	shift := archsimd.BroadcastUint32x16(splitBits + 2)
	if signed {
		shift = archsimd.BroadcastUint32x16(splitBits)
	}
	for v := 0; v < p.vectors; v += 4 {
		at := 64 * min(v, p.vectors-4)
		aHigh, aLow, bHigh, bLow, cHigh, cLow, dHigh, dLow := round, zero, round, zero, round, zero, round, zero
		pair := firstPair
		for i := 0; i+1 < len(k); i += 2 {
			row := unsafe.Add(ring, (pair&p.ringMask)*p.ringStride+at)
			high, low := weights512(k[i]), weights512(k[i+1])
			w := rowWords512(row, 0)
			aHigh, aLow = aHigh.Add(w.DotProductPairs(high)), aLow.Add(w.DotProductPairs(low))
			w = rowWords512(row, 64)
			bHigh, bLow = bHigh.Add(w.DotProductPairs(high)), bLow.Add(w.DotProductPairs(low))
			w = rowWords512(row, 128)
			cHigh, cLow = cHigh.Add(w.DotProductPairs(high)), cLow.Add(w.DotProductPairs(low))
			w = rowWords512(row, 192)
			dHigh, dLow = dHigh.Add(w.DotProductPairs(high)), dLow.Add(w.DotProductPairs(low))
			pair++
		}
		a, b := total512(aHigh, aLow, zero, shift), total512(bHigh, bLow, zero, shift)
		c, d := total512(cHigh, cLow, zero, shift), total512(dHigh, dLow, zero, shift)
		to := unsafe.Add(dst, at>>2)
		if signed {
			clipped512(a, b).StoreArray((*[32]uint8)(to))
			clipped512(c, d).StoreArray((*[32]uint8)(unsafe.Add(to, 32)))
			continue
		}
		packTop512(a, b, c, d, archsimd.LoadUint8x64Array(&topPack512), archsimd.Mask8x64FromBits(1<<32-1)).StoreArray((*[64]uint8)(to))
	}
}

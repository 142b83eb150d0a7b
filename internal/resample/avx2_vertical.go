//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package resample

import (
	"simd/archsimd"
	"unsafe"
)

// verticalAVX2 makes output row y, 16·vectors bytes, from row pairs of the ring.
func verticalAVX2(r *Resampler, p *bandPlan, dst unsafe.Pointer, y, firstPair, pairs int) {
	k := r.verticalWeights(p, y)
	row0 := r.ringRow(p, firstPair)
	switch {
	case pairs == 1 && !r.vertical.signed:
		vertical1AVX2(dst, row0, p.vectors, (*[2]int32)(k))
	case pairs == 2 && !r.vertical.signed:
		vertical2AVX2(dst, row0, r.ringRow(p, firstPair+1), p.vectors, (*[4]int32)(k))
	default:
		verticalAnyAVX2(dst, unsafe.Pointer(&r.simd.ring[0]), firstPair, p, k[:2*pairs], r.vertical.signed)
	}
}

func weights256(k int32) archsimd.Int16x16 {
	return archsimd.BroadcastInt32x8(k).ToBits().ReshapeToUint16s().BitsToInt16()
}

func rowWords256(row unsafe.Pointer, offset int) archsimd.Int16x16 {
	return archsimd.LoadInt16x16Array((*[16]int16)(unsafe.Add(row, offset)))
}

// packWords256 packs two vectors' dwords, all within 0..65535, to words; within lanes.
func packWords256(a, b archsimd.Uint32x8) archsimd.Uint16x16 {
	return a.BitsToInt32().SaturateToUint16ConcatGrouped(b.BitsToInt32())
}

// packBytes makes 32 bytes of two vectors of words within 0..255, made by packWords256.
func packBytes(ab, cd archsimd.Uint16x16, by8 archsimd.Uint32x8, bytes archsimd.Int8x32, dwords archsimd.Uint32x8) archsimd.Uint8x32 {
	return ab.ReshapeToUint32s().Or(cd.ReshapeToUint32s().ShiftLeft(by8)).ReshapeToUint8s().
		PermuteOrZeroGrouped(bytes).ReshapeToUint32s().Permute(dwords).ReshapeToUint8s()
}

// vertical1AVX2 makes 32 bytes at a time; the last ones overlap those before when the number of vectors is odd.
func vertical1AVX2(dst, row0 unsafe.Pointer, vectors int, k *[2]int32) {
	round, shift := archsimd.BroadcastInt32x8(splitHalf), archsimd.BroadcastUint32x8(splitBits+2)
	by24, by8 := archsimd.BroadcastUint32x8(24), archsimd.BroadcastUint32x8(8)
	bytes, dwords := archsimd.LoadInt8x32Array(&packBytes256), archsimd.LoadUint32x8Array(&packDwords256)
	high, low := weights256(k[0]), weights256(k[1])
	for v := 0; v < vectors; v += 2 {
		at := 64 * min(v, vectors-2)
		w := rowWords256(row0, at)
		a := total256(w.DotProductPairs(high), w.DotProductPairs(low), round, shift).ShiftRight(by24)
		w = rowWords256(row0, at+32)
		b := total256(w.DotProductPairs(high), w.DotProductPairs(low), round, shift).ShiftRight(by24)
		w = rowWords256(row0, at+64)
		c := total256(w.DotProductPairs(high), w.DotProductPairs(low), round, shift).ShiftRight(by24)
		w = rowWords256(row0, at+96)
		d := total256(w.DotProductPairs(high), w.DotProductPairs(low), round, shift).ShiftRight(by24)
		packBytes(packWords256(a, b), packWords256(c, d), by8, bytes, dwords).StoreArray((*[32]uint8)(unsafe.Add(dst, at>>2)))
	}
}

func vertical2AVX2(dst, row0, row1 unsafe.Pointer, vectors int, k *[4]int32) {
	round, shift := archsimd.BroadcastInt32x8(splitHalf), archsimd.BroadcastUint32x8(splitBits+2)
	by24, by8 := archsimd.BroadcastUint32x8(24), archsimd.BroadcastUint32x8(8)
	bytes, dwords := archsimd.LoadInt8x32Array(&packBytes256), archsimd.LoadUint32x8Array(&packDwords256)
	high0, low0, high1, low1 := weights256(k[0]), weights256(k[1]), weights256(k[2]), weights256(k[3])
	for v := 0; v < vectors; v += 2 {
		at := 64 * min(v, vectors-2)
		w, z := rowWords256(row0, at), rowWords256(row1, at)
		a := total256(w.DotProductPairs(high0).Add(z.DotProductPairs(high1)), w.DotProductPairs(low0).Add(z.DotProductPairs(low1)), round, shift)
		w, z = rowWords256(row0, at+32), rowWords256(row1, at+32)
		b := total256(w.DotProductPairs(high0).Add(z.DotProductPairs(high1)), w.DotProductPairs(low0).Add(z.DotProductPairs(low1)), round, shift)
		ab := packWords256(a.ShiftRight(by24), b.ShiftRight(by24))
		w, z = rowWords256(row0, at+64), rowWords256(row1, at+64)
		c := total256(w.DotProductPairs(high0).Add(z.DotProductPairs(high1)), w.DotProductPairs(low0).Add(z.DotProductPairs(low1)), round, shift)
		w, z = rowWords256(row0, at+96), rowWords256(row1, at+96)
		d := total256(w.DotProductPairs(high0).Add(z.DotProductPairs(high1)), w.DotProductPairs(low0).Add(z.DotProductPairs(low1)), round, shift)
		cd := packWords256(c.ShiftRight(by24), d.ShiftRight(by24))
		packBytes(ab, cd, by8, bytes, dwords).StoreArray((*[32]uint8)(unsafe.Add(dst, at>>2)))
	}
}

// words256 finishes two vectors' sums as words within 0..255.
func words256(x, y archsimd.Int32x8, signed bool) archsimd.Uint16x16 {
	if !signed {
		by24 := archsimd.BroadcastUint32x8(24)
		return packWords256(x.ToBits().ShiftRight(by24), y.ToBits().ShiftRight(by24))
	}
	by22 := archsimd.BroadcastUint32x8(weightBits)
	return x.ShiftRight(by22).SaturateToUint16ConcatGrouped(y.ShiftRight(by22)).Min(archsimd.BroadcastUint16x16(255))
}

// verticalAnyAVX2 serves any number of pairs, k holding two entries for each.
func verticalAnyAVX2(dst, ring unsafe.Pointer, firstPair int, p *bandPlan, k []int32, signed bool) {
	round, zero := archsimd.BroadcastInt32x8(splitHalf), archsimd.BroadcastInt32x8(0)
	shift := archsimd.BroadcastUint32x8(splitBits + 2)
	if signed {
		shift = archsimd.BroadcastUint32x8(splitBits)
	}
	for v := 0; v < p.vectors; v += 2 {
		at := 64 * min(v, p.vectors-2)
		aHigh, aLow, bHigh, bLow, cHigh, cLow, dHigh, dLow := round, zero, round, zero, round, zero, round, zero
		pair := firstPair
		for i := 0; i+1 < len(k); i += 2 {
			row := unsafe.Add(ring, (pair&p.ringMask)*p.ringStride+at)
			high, low := weights256(k[i]), weights256(k[i+1])
			w := rowWords256(row, 0)
			aHigh, aLow = aHigh.Add(w.DotProductPairs(high)), aLow.Add(w.DotProductPairs(low))
			w = rowWords256(row, 32)
			bHigh, bLow = bHigh.Add(w.DotProductPairs(high)), bLow.Add(w.DotProductPairs(low))
			w = rowWords256(row, 64)
			cHigh, cLow = cHigh.Add(w.DotProductPairs(high)), cLow.Add(w.DotProductPairs(low))
			w = rowWords256(row, 96)
			dHigh, dLow = dHigh.Add(w.DotProductPairs(high)), dLow.Add(w.DotProductPairs(low))
			pair++
		}
		ab := words256(aHigh.ShiftLeft(shift).Add(aLow), bHigh.ShiftLeft(shift).Add(bLow), signed)
		cd := words256(cHigh.ShiftLeft(shift).Add(cLow), dHigh.ShiftLeft(shift).Add(dLow), signed)
		packBytes(ab, cd, archsimd.BroadcastUint32x8(8), archsimd.LoadInt8x32Array(&packBytes256),
			archsimd.LoadUint32x8Array(&packDwords256)).StoreArray((*[32]uint8)(unsafe.Add(dst, at>>2)))
	}
}

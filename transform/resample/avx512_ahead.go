//go:build goexperiment.simd && amd64

package resample

import (
	"simd/archsimd"
	"unsafe"
)

// rowPair512 interleaves 32 bytes of two rows as pairs of words: those of bytes 0..3 of each 8, and the others.
func rowPair512(row, below unsafe.Pointer) (a, b archsimd.Int16x32) {
	x := archsimd.LoadUint8x32((*[32]uint8)(row)).ExtendToUint16().AsInt16x32()
	y := archsimd.LoadUint8x32((*[32]uint8)(below)).ExtendToUint16().AsInt16x32()
	return x.InterleaveLoGrouped(y), x.InterleaveHiGrouped(y)
}

// bytes512 finishes the sums of rowPair512's two halves: 32 bytes in order.
func bytes512(x, y archsimd.Int32x16, signed bool) archsimd.Uint8x32 {
	if !signed {
		by24 := archsimd.BroadcastUint32x16(24)
		x, y = x.AsUint32x16().ShiftRight(by24).AsInt32x16(), y.AsUint32x16().ShiftRight(by24).AsInt32x16()
		return x.SaturateToUint16ConcatGrouped(y).TruncateToUint8()
	}
	by22 := archsimd.BroadcastInt32x16(weightBits)
	return x.ShiftRight(by22).SaturateToUint16ConcatGrouped(y.ShiftRight(by22)).SaturateToUint8()
}

// aheadAVX512 takes 64 bytes at a time, the last ones overlapping those before.
func aheadAVX512(dst, src unsafe.Pointer, stride, rowBytes int, k []int32, oddAt int, signed bool) {
	round, zero := archsimd.BroadcastInt32x16(splitHalf), archsimd.BroadcastInt32x16(0)
	shift := archsimd.BroadcastInt32x16(splitBits + 2)
	if signed {
		shift = archsimd.BroadcastInt32x16(splitBits)
	}
	for x := 0; x < rowBytes; x += aheadBytesAVX512 {
		x := min(x, rowBytes-aheadBytesAVX512)
		row := unsafe.Add(src, x)
		aHigh, aLow, bHigh, bLow, cHigh, cLow, dHigh, dLow := round, zero, round, zero, round, zero, round, zero
		for i := 0; ; row = unsafe.Add(row, 2*stride) {
			step := stride
			if i == oddAt {
				step = 0
			}
			below := unsafe.Add(row, step)
			high, low := weights512(k[i]), weights512(k[i+1])
			w, z := rowPair512(row, below)
			aHigh, aLow = aHigh.Add(w.DotProductPairs(high)), aLow.Add(w.DotProductPairs(low))
			bHigh, bLow = bHigh.Add(z.DotProductPairs(high)), bLow.Add(z.DotProductPairs(low))
			w, z = rowPair512(unsafe.Add(row, 32), unsafe.Add(below, 32))
			cHigh, cLow = cHigh.Add(w.DotProductPairs(high)), cLow.Add(w.DotProductPairs(low))
			dHigh, dLow = dHigh.Add(z.DotProductPairs(high)), dLow.Add(z.DotProductPairs(low))
			if i += 2; i >= len(k) {
				break
			}
		}
		to := unsafe.Add(dst, x)
		bytes512(aHigh.ShiftLeft(shift).Add(aLow), bHigh.ShiftLeft(shift).Add(bLow), signed).Store((*[32]uint8)(to))
		bytes512(cHigh.ShiftLeft(shift).Add(cLow), dHigh.ShiftLeft(shift).Add(dLow), signed).Store((*[32]uint8)(unsafe.Add(to, 32)))
	}
}

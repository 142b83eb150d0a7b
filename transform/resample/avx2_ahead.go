//go:build goexperiment.simd && amd64

package resample

import (
	"simd/archsimd"
	"unsafe"
)

var (
	// evenOdd256 puts the even bytes of each lane in front of the odd ones.
	evenOdd256 [32]int8
	// laneQuads256 then puts the lanes' parts side by side.
	laneQuads256 = [8]uint32{0, 1, 4, 5, 2, 3, 6, 7}
)

func init() {
	for lane := 0; lane < 32; lane += 16 {
		for i := range 8 {
			evenOdd256[lane+i], evenOdd256[lane+8+i] = int8(2*i), int8(2*i+1)
		}
	}
}

// rowPair256 interleaves 16 bytes of two rows as pairs of words: those of bytes 0..3 and 8..11, and the others.
func rowPair256(row, below unsafe.Pointer) (a, b archsimd.Int16x16) {
	x := archsimd.LoadUint8x16((*[16]uint8)(row)).ExtendToUint16().AsInt16x16()
	y := archsimd.LoadUint8x16((*[16]uint8)(below)).ExtendToUint16().AsInt16x16()
	return x.InterleaveLoGrouped(y), x.InterleaveHiGrouped(y)
}

// aheadAVX2 takes 32 bytes at a time, the last ones overlapping those before.
func aheadAVX2(dst, src unsafe.Pointer, stride, rowBytes int, k []int32, oddAt int, signed bool) {
	round, zero := archsimd.BroadcastInt32x8(splitHalf), archsimd.BroadcastInt32x8(0)
	shift := archsimd.BroadcastInt32x8(splitBits + 2)
	if signed {
		shift = archsimd.BroadcastInt32x8(splitBits)
	}
	by8 := archsimd.BroadcastUint32x8(8)
	for x := 0; x < rowBytes; x += aheadBytesAVX2 {
		x := min(x, rowBytes-aheadBytesAVX2)
		row := unsafe.Add(src, x)
		aHigh, aLow, bHigh, bLow, cHigh, cLow, dHigh, dLow := round, zero, round, zero, round, zero, round, zero
		for i := 0; ; row = unsafe.Add(row, 2*stride) {
			step := stride
			if i == oddAt {
				step = 0
			}
			below := unsafe.Add(row, step)
			high, low := weights256(k[i]), weights256(k[i+1])
			w, z := rowPair256(row, below)
			aHigh, aLow = aHigh.Add(w.DotProductPairs(high)), aLow.Add(w.DotProductPairs(low))
			bHigh, bLow = bHigh.Add(z.DotProductPairs(high)), bLow.Add(z.DotProductPairs(low))
			w, z = rowPair256(unsafe.Add(row, 16), unsafe.Add(below, 16))
			cHigh, cLow = cHigh.Add(w.DotProductPairs(high)), cLow.Add(w.DotProductPairs(low))
			dHigh, dLow = dHigh.Add(z.DotProductPairs(high)), dLow.Add(z.DotProductPairs(low))
			if i += 2; i >= len(k) {
				break
			}
		}
		ab := words256(aHigh.ShiftLeft(shift).Add(aLow), bHigh.ShiftLeft(shift).Add(bLow), signed)
		cd := words256(cHigh.ShiftLeft(shift).Add(cLow), dHigh.ShiftLeft(shift).Add(dLow), signed)
		ab.AsUint32x8().Or(cd.AsUint32x8().ShiftLeft(by8)).AsUint8x32().PermuteOrZeroGrouped(archsimd.LoadInt8x32(&evenOdd256)).
			AsUint32x8().Permute(archsimd.LoadUint32x8(&laneQuads256)).AsUint8x32().Store((*[32]uint8)(unsafe.Add(dst, x)))
	}
}

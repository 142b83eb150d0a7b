//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package resample

import (
	"simd/archsimd"
	"unsafe"
)

// Tables of the pass over 64 bytes at a time. A vector of row pairs has 16 outputs: of each lane's first or last 8 bytes,
// the even or the odd ones. Constants are loaded in the loops that use them seldom, for lack of registers in the others.
var (
	oddBytes512 [64]int8     // the odd bytes of each lane, as words
	topJoin512  [64]uint8    // top bytes of even and odd outputs in turn, in either half of each lane
	start512    [2][16]int32 // rounding: half of 1 << 22, and of 1 << 24 for filters that do not clip
	takePack512 [2][64]uint8 // the bytes of the ring's first rows or second ones out of two vectors: a's 16 and b's 16, in each half
)

const firstHalves = 0x00ff00ff00ff00ff // of the lanes

func init() {
	for i := range 64 {
		oddBytes512[i] = -1
		if i&1 == 0 {
			oddBytes512[i] = int8(i&15 + 1)
		}
		topJoin512[i] = uint8(i&1*64 + i&48 + i&6*2 + 3)
		takePack512[0][i], takePack512[1][i] = uint8(4*(i&31)), uint8(4*(i&31)+2)
	}
	for i := range start512[0] {
		start512[0][i], start512[1][i] = splitHalf<<splitBits, splitHalf<<(splitBits+2)
	}
}

// clipBytes512 finishes the sums of a filter that clips: 64 bytes in order.
func clipBytes512(even0, odd0, even1, odd1 archsimd.Int32x16) archsimd.Uint8x64 {
	by22, most := archsimd.BroadcastUint32x16(weightBits), archsimd.BroadcastUint16x32(255)
	even := even0.ShiftRight(by22).SaturateToUint16ConcatGrouped(even1.ShiftRight(by22)).Min(most)
	odd := odd0.ShiftRight(by22).SaturateToUint16ConcatGrouped(odd1.ShiftRight(by22)).Min(most)
	return even.Or(odd.ShiftAllLeft(8)).ReshapeToUint8s()
}

// joinTops512 finishes the sums of one that does not.
func joinTops512(even0, odd0, even1, odd1 archsimd.Int32x16) archsimd.Uint8x64 {
	join := archsimd.LoadUint8x64Array(&topJoin512)
	return even0.ToBits().ReshapeToUint8s().ConcatPermute(odd0.ToBits().ReshapeToUint8s(), join).
		Merge(even1.ToBits().ReshapeToUint8s().ConcatPermute(odd1.ToBits().ReshapeToUint8s(), join), archsimd.Mask8x64FromBits(firstHalves))
}

func rowWords(row unsafe.Pointer) archsimd.Uint16x32 {
	return archsimd.LoadUint16x32Array((*[32]uint16)(row))
}

// aheadAVX512 takes 64 bytes at a time, the last ones overlapping those before.
func aheadAVX512(dst, src unsafe.Pointer, stride, rowBytes int, k []int32, oddAt int, signed bool) {
	low, odds := archsimd.BroadcastUint16x32(255), archsimd.LoadInt8x64Array(&oddBytes512)
	start, shift := &start512[1], archsimd.BroadcastUint32x16(splitBits+2)
	if signed {
		start, shift = &start512[0], archsimd.BroadcastUint32x16(splitBits)
	}
	for x := 0; x < rowBytes; x += aheadBytesAVX512 {
		x := min(x, rowBytes-aheadBytesAVX512)
		row := unsafe.Add(src, x)
		even0 := archsimd.LoadInt32x16Array(start)
		odd0, even1, odd1 := even0, even0, even0
		for i := 0; ; row = unsafe.Add(row, 2*stride) {
			step := stride
			if i == oddAt {
				step = 0
			}
			kHigh, kLow := weights512(k[i]), weights512(k[i+1])
			x, y := rowWords(row), rowWords(unsafe.Add(row, step))
			w := x.InterleaveLoGrouped(y)
			pairs := w.And(low).BitsToInt16()
			even0 = even0.Add(pairs.DotProductPairs(kHigh).ShiftLeft(shift)).Add(pairs.DotProductPairs(kLow))
			pairs = w.ReshapeToUint8s().BitsToInt8().PermuteOrZeroGrouped(odds).ToBits().ReshapeToUint16s().BitsToInt16()
			odd0 = odd0.Add(pairs.DotProductPairs(kHigh).ShiftLeft(shift)).Add(pairs.DotProductPairs(kLow))
			w = x.InterleaveHiGrouped(y)
			pairs = w.And(low).BitsToInt16()
			even1 = even1.Add(pairs.DotProductPairs(kHigh).ShiftLeft(shift)).Add(pairs.DotProductPairs(kLow))
			pairs = w.ReshapeToUint8s().BitsToInt8().PermuteOrZeroGrouped(odds).ToBits().ReshapeToUint16s().BitsToInt16()
			odd1 = odd1.Add(pairs.DotProductPairs(kHigh).ShiftLeft(shift)).Add(pairs.DotProductPairs(kLow))
			if i += 2; i >= len(k) {
				break
			}
		}
		to := (*[64]uint8)(unsafe.Add(dst, x))
		if signed {
			clipBytes512(even0, odd0, even1, odd1).StoreArray(to)
		} else {
			joinTops512(even0, odd0, even1, odd1).StoreArray(to)
		}
	}
}

// ahead2AVX512 serves 3 or 4 taps of a filter without negative weights: bilinear up to a scale of 2.
func ahead2AVX512(dst, src unsafe.Pointer, stride, rowBytes int, k *[4]int32, last int) {
	low, odds := archsimd.BroadcastUint16x32(255), archsimd.LoadInt8x64Array(&oddBytes512)
	round, shift := archsimd.BroadcastInt32x16(splitHalf), archsimd.BroadcastUint32x16(splitBits+2)
	high0, low0, high1, low1 := weights512(k[0]), weights512(k[1]), weights512(k[2]), weights512(k[3])
	sum := func(w, z archsimd.Int16x32) archsimd.Int32x16 {
		return w.DotProductPairs(high0).Add(z.DotProductPairs(high1)).Add(round).ShiftLeft(shift).
			Add(w.DotProductPairs(low0).Add(z.DotProductPairs(low1)))
	}
	for x := 0; x < rowBytes; x += aheadBytesAVX512 {
		x := min(x, rowBytes-aheadBytesAVX512)
		row := unsafe.Add(src, x)
		third := unsafe.Add(row, 2*stride)
		a, b := rowWords(row), rowWords(unsafe.Add(row, stride))
		c, d := rowWords(third), rowWords(unsafe.Add(third, last))
		w, z := a.InterleaveLoGrouped(b), c.InterleaveLoGrouped(d)
		even0 := sum(w.And(low).BitsToInt16(), z.And(low).BitsToInt16())
		odd0 := sum(w.ReshapeToUint8s().BitsToInt8().PermuteOrZeroGrouped(odds).ToBits().ReshapeToUint16s().BitsToInt16(), z.ReshapeToUint8s().BitsToInt8().PermuteOrZeroGrouped(odds).ToBits().ReshapeToUint16s().BitsToInt16())
		w, z = a.InterleaveHiGrouped(b), c.InterleaveHiGrouped(d)
		even1 := sum(w.And(low).BitsToInt16(), z.And(low).BitsToInt16())
		odd1 := sum(w.ReshapeToUint8s().BitsToInt8().PermuteOrZeroGrouped(odds).ToBits().ReshapeToUint16s().BitsToInt16(), z.ReshapeToUint8s().BitsToInt8().PermuteOrZeroGrouped(odds).ToBits().ReshapeToUint16s().BitsToInt16())
		joinTops512(even0, odd0, even1, odd1).StoreArray((*[64]uint8)(unsafe.Add(dst, x)))
	}
}

// takeAVX512 makes output row y, 16·vectors bytes, of the bytes of a row pair of the ring that are the row's.
func takeAVX512(r *Resampler, p *bandPlan, dst unsafe.Pointer, y, pair, _ int) {
	row := r.ringRow(p, pair)
	pack, lower := archsimd.LoadUint8x64Array(&takePack512[y&1]), archsimd.Mask8x64FromBits(1<<32-1)
	for v := 0; v < p.vectors; v += 4 {
		at := 64 * min(v, p.vectors-4)
		packTop512(rowWords512(row, at).ToBits().ReshapeToUint8s(), rowWords512(row, at+64).ToBits().ReshapeToUint8s(), rowWords512(row, at+128).ToBits().ReshapeToUint8s(),
			rowWords512(row, at+192).ToBits().ReshapeToUint8s(), pack, lower).StoreArray((*[64]uint8)(unsafe.Add(dst, at>>2)))
	}
}

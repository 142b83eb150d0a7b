//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package resample

import (
	"simd/archsimd"
	"unsafe"
)

// As for AVX-512, 32 bytes at a time.
var (
	oddBytes256 [32]int8    // the odd bytes of each lane, as words
	topPart256  [4][32]int8 // top bytes of even outputs and of odd ones, to where they belong in the lane's first half; then in the other
	start256    [2][8]int32 // rounding: half of 1 << 22, and of 1 << 24 for filters that do not clip
)

func init() {
	for i := range 32 {
		oddBytes256[i] = -1
		if i&1 == 0 {
			oddBytes256[i] = int8(i&15 + 1)
		}
		for part := range topPart256 {
			topPart256[part][i] = -1
		}
		topPart256[i&8/8*2+i&1][i] = int8(i&6*2 + 3)
	}
	for i := range start256[0] {
		start256[0][i], start256[1][i] = splitHalf<<splitBits, splitHalf<<(splitBits+2)
	}
}

// clipBytes256 finishes the sums of a filter that clips: 32 bytes in order.
func clipBytes256(even0, odd0, even1, odd1 archsimd.Int32x8) archsimd.Uint8x32 {
	return words256(even0, even1, true).Or(words256(odd0, odd1, true).ShiftAllLeft(8)).ReshapeToUint8s()
}

// joinTops256 finishes the sums of one that does not.
func joinTops256(even0, odd0, even1, odd1 archsimd.Int32x8) archsimd.Uint8x32 {
	return even0.ToBits().ReshapeToUint8s().PermuteOrZeroGrouped(archsimd.LoadInt8x32Array(&topPart256[0])).
		Or(odd0.ToBits().ReshapeToUint8s().PermuteOrZeroGrouped(archsimd.LoadInt8x32Array(&topPart256[1]))).
		Or(even1.ToBits().ReshapeToUint8s().PermuteOrZeroGrouped(archsimd.LoadInt8x32Array(&topPart256[2]))).
		Or(odd1.ToBits().ReshapeToUint8s().PermuteOrZeroGrouped(archsimd.LoadInt8x32Array(&topPart256[3])))
}

func halfRowWords(row unsafe.Pointer) archsimd.Uint16x16 {
	return archsimd.LoadUint16x16Array((*[16]uint16)(row))
}

// aheadAVX2 takes 32 bytes at a time, the last ones overlapping those before.
func aheadAVX2(dst, src unsafe.Pointer, stride, rowBytes int, k []int32, oddAt int, signed bool) {
	low, odds := archsimd.BroadcastUint16x16(255), archsimd.LoadInt8x32Array(&oddBytes256)
	start, shift := &start256[1], archsimd.BroadcastUint32x8(splitBits+2)
	if signed {
		start, shift = &start256[0], archsimd.BroadcastUint32x8(splitBits)
	}
	for x := 0; x < rowBytes; x += aheadBytesAVX2 {
		x := min(x, rowBytes-aheadBytesAVX2)
		row := unsafe.Add(src, x)
		even0 := archsimd.LoadInt32x8Array(start)
		odd0, even1, odd1 := even0, even0, even0
		for i := 0; ; row = unsafe.Add(row, 2*stride) {
			step := stride
			if i == oddAt {
				step = 0
			}
			kHigh, kLow := weights256(k[i]), weights256(k[i+1])
			x, y := halfRowWords(row), halfRowWords(unsafe.Add(row, step))
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
		to := (*[32]uint8)(unsafe.Add(dst, x))
		if signed {
			clipBytes256(even0, odd0, even1, odd1).StoreArray(to)
		} else {
			joinTops256(even0, odd0, even1, odd1).StoreArray(to)
		}
	}
}

// ahead2AVX2 serves 3 or 4 taps of a filter without negative weights: bilinear up to a scale of 2.
func ahead2AVX2(dst, src unsafe.Pointer, stride, rowBytes int, k *[4]int32, last int) {
	low, odds := archsimd.BroadcastUint16x16(255), archsimd.LoadInt8x32Array(&oddBytes256)
	round, shift := archsimd.BroadcastInt32x8(splitHalf), archsimd.BroadcastUint32x8(splitBits+2)
	high0, low0, high1, low1 := weights256(k[0]), weights256(k[1]), weights256(k[2]), weights256(k[3])
	sum := func(w, z archsimd.Int16x16) archsimd.Int32x8 {
		return w.DotProductPairs(high0).Add(z.DotProductPairs(high1)).Add(round).ShiftLeft(shift).
			Add(w.DotProductPairs(low0).Add(z.DotProductPairs(low1)))
	}
	for x := 0; x < rowBytes; x += aheadBytesAVX2 {
		x := min(x, rowBytes-aheadBytesAVX2)
		row := unsafe.Add(src, x)
		third := unsafe.Add(row, 2*stride)
		a, b := halfRowWords(row), halfRowWords(unsafe.Add(row, stride))
		c, d := halfRowWords(third), halfRowWords(unsafe.Add(third, last))
		w, z := a.InterleaveLoGrouped(b), c.InterleaveLoGrouped(d)
		even0 := sum(w.And(low).BitsToInt16(), z.And(low).BitsToInt16())
		odd0 := sum(w.ReshapeToUint8s().BitsToInt8().PermuteOrZeroGrouped(odds).ToBits().ReshapeToUint16s().BitsToInt16(), z.ReshapeToUint8s().BitsToInt8().PermuteOrZeroGrouped(odds).ToBits().ReshapeToUint16s().BitsToInt16())
		w, z = a.InterleaveHiGrouped(b), c.InterleaveHiGrouped(d)
		even1 := sum(w.And(low).BitsToInt16(), z.And(low).BitsToInt16())
		odd1 := sum(w.ReshapeToUint8s().BitsToInt8().PermuteOrZeroGrouped(odds).ToBits().ReshapeToUint16s().BitsToInt16(), z.ReshapeToUint8s().BitsToInt8().PermuteOrZeroGrouped(odds).ToBits().ReshapeToUint16s().BitsToInt16())
		joinTops256(even0, odd0, even1, odd1).StoreArray((*[32]uint8)(unsafe.Add(dst, x)))
	}
}

// takeAVX2 makes output row y, 16·vectors bytes, of the bytes of a row pair of the ring that are the row's.
func takeAVX2(r *Resampler, p *bandPlan, dst unsafe.Pointer, y, pair, _ int) {
	row := r.ringRow(p, pair)
	byRow := archsimd.BroadcastUint32x8(uint32(y&1) * 16)
	low, by8 := archsimd.BroadcastUint32x8(255), archsimd.BroadcastUint32x8(8)
	bytes, dwords := archsimd.LoadInt8x32Array(&packBytes256), archsimd.LoadUint32x8Array(&packDwords256)
	for v := 0; v < p.vectors; v += 2 {
		at := 64 * min(v, p.vectors-2)
		a := rowWords256(row, at).ToBits().ReshapeToUint32s().ShiftRight(byRow).And(low)
		b := rowWords256(row, at+32).ToBits().ReshapeToUint32s().ShiftRight(byRow).And(low)
		c := rowWords256(row, at+64).ToBits().ReshapeToUint32s().ShiftRight(byRow).And(low)
		d := rowWords256(row, at+96).ToBits().ReshapeToUint32s().ShiftRight(byRow).And(low)
		packBytes(packWords256(a, b), packWords256(c, d), by8, bytes, dwords).StoreArray((*[32]uint8)(unsafe.Add(dst, at>>2)))
	}
}

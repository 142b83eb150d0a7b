//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package resample

import (
	"simd/archsimd"
	"unsafe"
)

// Kernels for the filters that clip (bicubic, and lanczos when it enlarges) with 3 or 4 pairs of taps, whose tables fit
// the registers: a quarter less time for bicubic than with the kernels for any number of taps.

// horizontal3SignedAVX512 serves bicubic up to a scale of 1.5 or so: up to 6 taps, clipped.
func horizontal3SignedAVX512(dst, src unsafe.Pointer, stride, ringStride, pairs int, taps []tapPair512, bases []int32) {
	round, shift := archsimd.BroadcastInt32x16(splitHalf), archsimd.BroadcastUint32x16(splitBits)
	even := archsimd.Mask8x64FromBits(evenBytes)
	for v, base := range bases {
		t := taps[3*v:][:3]
		index := archsimd.LoadUint8x64Array(&t[0].index)
		high0, low0 := archsimd.LoadInt16x32Array(&t[0].high), archsimd.LoadInt16x32Array(&t[0].low)
		high1, low1 := archsimd.LoadInt16x32Array(&t[1].high), archsimd.LoadInt16x32Array(&t[1].low)
		high2, low2 := archsimd.LoadInt16x32Array(&t[2].high), archsimd.LoadInt16x32Array(&t[2].low)
		from, to := unsafe.Add(src, int(base)), unsafe.Add(dst, 64*v)
		for left := pairs; ; from, to = unsafe.Add(from, 2*stride), unsafe.Add(to, ringStride) {
			w := loadWords(from, index, even)
			high, low := w.DotProductPairs(high0), w.DotProductPairs(low0)
			w = loadWords(unsafe.Add(from, 6), index, even)
			high, low = high.Add(w.DotProductPairs(high1)), low.Add(w.DotProductPairs(low1))
			w = loadWords(unsafe.Add(from, 12), index, even)
			high, low = high.Add(w.DotProductPairs(high2)), low.Add(w.DotProductPairs(low2))
			x := total512(high, low, round, shift)
			w = loadWords(unsafe.Add(from, stride), index, even)
			high, low = w.DotProductPairs(high0), w.DotProductPairs(low0)
			w = loadWords(unsafe.Add(from, stride+6), index, even)
			high, low = high.Add(w.DotProductPairs(high1)), low.Add(w.DotProductPairs(low1))
			w = loadWords(unsafe.Add(from, stride+12), index, even)
			high, low = high.Add(w.DotProductPairs(high2)), low.Add(w.DotProductPairs(low2))
			storePairs512(to, x, total512(high, low, round, shift), true)
			if left--; left == 0 {
				break
			}
		}
	}
}

// horizontal4SignedAVX512 serves bicubic up to a scale of 2: up to 8 taps, clipped.
func horizontal4SignedAVX512(dst, src unsafe.Pointer, stride, ringStride, pairs int, taps []tapPair512, bases []int32) {
	round, shift := archsimd.BroadcastInt32x16(splitHalf), archsimd.BroadcastUint32x16(splitBits)
	even := archsimd.Mask8x64FromBits(evenBytes)
	for v, base := range bases {
		t := taps[4*v:][:4]
		index := archsimd.LoadUint8x64Array(&t[0].index)
		high0, low0 := archsimd.LoadInt16x32Array(&t[0].high), archsimd.LoadInt16x32Array(&t[0].low)
		high1, low1 := archsimd.LoadInt16x32Array(&t[1].high), archsimd.LoadInt16x32Array(&t[1].low)
		high2, low2 := archsimd.LoadInt16x32Array(&t[2].high), archsimd.LoadInt16x32Array(&t[2].low)
		high3, low3 := archsimd.LoadInt16x32Array(&t[3].high), archsimd.LoadInt16x32Array(&t[3].low)
		from, to := unsafe.Add(src, int(base)), unsafe.Add(dst, 64*v)
		for left := pairs; ; from, to = unsafe.Add(from, 2*stride), unsafe.Add(to, ringStride) {
			w := loadWords(from, index, even)
			high, low := w.DotProductPairs(high0), w.DotProductPairs(low0)
			w = loadWords(unsafe.Add(from, 6), index, even)
			high, low = high.Add(w.DotProductPairs(high1)), low.Add(w.DotProductPairs(low1))
			w = loadWords(unsafe.Add(from, 12), index, even)
			high, low = high.Add(w.DotProductPairs(high2)), low.Add(w.DotProductPairs(low2))
			w = loadWords(unsafe.Add(from, 18), index, even)
			high, low = high.Add(w.DotProductPairs(high3)), low.Add(w.DotProductPairs(low3))
			x := total512(high, low, round, shift)
			w = loadWords(unsafe.Add(from, stride), index, even)
			high, low = w.DotProductPairs(high0), w.DotProductPairs(low0)
			w = loadWords(unsafe.Add(from, stride+6), index, even)
			high, low = high.Add(w.DotProductPairs(high1)), low.Add(w.DotProductPairs(low1))
			w = loadWords(unsafe.Add(from, stride+12), index, even)
			high, low = high.Add(w.DotProductPairs(high2)), low.Add(w.DotProductPairs(low2))
			w = loadWords(unsafe.Add(from, stride+18), index, even)
			high, low = high.Add(w.DotProductPairs(high3)), low.Add(w.DotProductPairs(low3))
			storePairs512(to, x, total512(high, low, round, shift), true)
			if left--; left == 0 {
				break
			}
		}
	}
}

// vertical3SignedAVX512 makes two vectors at a time.
func vertical3SignedAVX512(dst, row0, row1, row2 unsafe.Pointer, vectors int, k *[6]int32) {
	round, shift := archsimd.BroadcastInt32x16(splitHalf), archsimd.BroadcastUint32x16(splitBits)
	high0, low0, high1, low1 := weights512(k[0]), weights512(k[1]), weights512(k[2]), weights512(k[3])
	high2, low2 := weights512(k[4]), weights512(k[5])
	for v := 0; v < vectors; v += 2 {
		at := 64 * min(v, vectors-2)
		w := rowWords512(row0, at)
		high, low := w.DotProductPairs(high0), w.DotProductPairs(low0)
		w = rowWords512(row1, at)
		high, low = high.Add(w.DotProductPairs(high1)), low.Add(w.DotProductPairs(low1))
		w = rowWords512(row2, at)
		high, low = high.Add(w.DotProductPairs(high2)), low.Add(w.DotProductPairs(low2))
		x := total512(high, low, round, shift)
		w = rowWords512(row0, at+64)
		high, low = w.DotProductPairs(high0), w.DotProductPairs(low0)
		w = rowWords512(row1, at+64)
		high, low = high.Add(w.DotProductPairs(high1)), low.Add(w.DotProductPairs(low1))
		w = rowWords512(row2, at+64)
		high, low = high.Add(w.DotProductPairs(high2)), low.Add(w.DotProductPairs(low2))
		clipped512(x, total512(high, low, round, shift)).StoreArray((*[32]uint8)(unsafe.Add(dst, at>>2)))
	}
}

// vertical4SignedAVX512 makes two vectors at a time.
func vertical4SignedAVX512(dst, row0, row1, row2, row3 unsafe.Pointer, vectors int, k *[8]int32) {
	round, shift := archsimd.BroadcastInt32x16(splitHalf), archsimd.BroadcastUint32x16(splitBits)
	high0, low0, high1, low1 := weights512(k[0]), weights512(k[1]), weights512(k[2]), weights512(k[3])
	high2, low2, high3, low3 := weights512(k[4]), weights512(k[5]), weights512(k[6]), weights512(k[7])
	for v := 0; v < vectors; v += 2 {
		at := 64 * min(v, vectors-2)
		w := rowWords512(row0, at)
		high, low := w.DotProductPairs(high0), w.DotProductPairs(low0)
		w = rowWords512(row1, at)
		high, low = high.Add(w.DotProductPairs(high1)), low.Add(w.DotProductPairs(low1))
		w = rowWords512(row2, at)
		high, low = high.Add(w.DotProductPairs(high2)), low.Add(w.DotProductPairs(low2))
		w = rowWords512(row3, at)
		high, low = high.Add(w.DotProductPairs(high3)), low.Add(w.DotProductPairs(low3))
		x := total512(high, low, round, shift)
		w = rowWords512(row0, at+64)
		high, low = w.DotProductPairs(high0), w.DotProductPairs(low0)
		w = rowWords512(row1, at+64)
		high, low = high.Add(w.DotProductPairs(high1)), low.Add(w.DotProductPairs(low1))
		w = rowWords512(row2, at+64)
		high, low = high.Add(w.DotProductPairs(high2)), low.Add(w.DotProductPairs(low2))
		w = rowWords512(row3, at+64)
		high, low = high.Add(w.DotProductPairs(high3)), low.Add(w.DotProductPairs(low3))
		clipped512(x, total512(high, low, round, shift)).StoreArray((*[32]uint8)(unsafe.Add(dst, at>>2)))
	}
}

//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package resample

import (
	"simd/archsimd"
	"unsafe"
)

// A tapPair512 is what the horizontal pass needs for 16 bytes of output (5⅓ pixels) and two neighbouring taps.
type tapPair512 struct {
	index [64]uint8 // for VPERMB: bytes 4i and 4i+2 take the two source bytes of output byte i out of the window
	high  [32]int16 // words 2i and 2i+1 hold the weights' high parts
	low   [32]int16
}

// Tables of the patterns in which 16 bytes cover pixels: a vector begins with channel 0, 1 or 2 in turn.
var (
	pixelOfLane   [3][16]uint32 // pixel, counted from the vector's first
	channelOfLane [3][16]uint32
)

// Byte shuffles. top takes byte 3 of each dword.
var (
	topPairs512  [64]uint8 // of two vectors: bytes 4i and 4i+2, so that dword i is the pair of words (a[i], b[i])
	topPack512   [64]uint8 // of two vectors: a's 16 bytes and b's 16 bytes, in each half
	highPairs512 [64]uint8 // upper words of two vectors, side by side
	highPack512  [64]uint8 // upper words of a, then those of b
)

func init() {
	for phase := range 3 {
		first := 16 * phase % 3
		for lane := range 16 {
			pixelOfLane[phase][lane] = uint32((first + lane) / 3)
			channelOfLane[phase][lane] = uint32((first + lane) % 3)
		}
	}
	for i := range 16 {
		a, b := uint8(4*i), uint8(64+4*i)
		topPairs512[4*i], topPairs512[4*i+2] = a+3, b+3
		highPairs512[4*i], highPairs512[4*i+1], highPairs512[4*i+2], highPairs512[4*i+3] = a+2, a+3, b+2, b+3
		highPack512[2*i], highPack512[2*i+1], highPack512[32+2*i], highPack512[32+2*i+1] = a+2, a+3, b+2, b+3
		topPack512[i], topPack512[16+i], topPack512[32+i], topPack512[48+i] = a+3, b+3, a+3, b+3
	}
}

const evenBytes = 0x5555555555555555

// prepareAVX512 builds the horizontal tables; false if a window of source bytes exceeds two registers (a scale above
// 7.6 or so).
func (r *Resampler) prepareAVX512(p *bandPlan) bool {
	h, s := &r.horizontal, &r.simd
	pairs := (h.taps + 1) / 2
	s.bases = grown(s.bases, p.vectors)
	span := 0
	for v := range p.vectors {
		a, b := h.low[16*v/3], h.low[(16*v+15)/3] // the other way round when mirrored
		s.bases[v] = 3 * (min(a, b) - int32(h.first))
		span = max(span, 3*int(max(a, b)-min(a, b))+6)
		p.reach = max(p.reach, int(s.bases[v])+6*(max(pairs, 3)-1))
	}
	if span > 128 {
		return false
	}
	s.window128 = span > 64
	p.reach += 64
	if s.window128 {
		p.reach += 64
	}
	p.tapPairs = pairs
	if h.signed {
		p.tapPairs = max(pairs, 3) // zeros for horizontal3SignedAVX512
	}
	s.taps512 = grown(s.taps512, p.tapPairs*p.vectors)
	half, bits, word := archsimd.BroadcastInt32x16(splitHalf), archsimd.BroadcastUint32x16(splitBits), archsimd.BroadcastInt32x16(0xffff)
	upper, scale := archsimd.BroadcastUint32x16(16), archsimd.BroadcastUint32x16(uint32(h.lowScale()))
	three, twice, next := archsimd.BroadcastInt32x16(3), archsimd.BroadcastInt32x16(0x00010001), archsimd.BroadcastInt32x16(0x00030000)
	first := archsimd.BroadcastInt32x16(int32(h.first))
	for v := range p.vectors {
		pixel := 16 * v / 3
		lane := archsimd.LoadUint32x16Array(&pixelOfLane[v%3])
		channel := archsimd.LoadUint32x16Array(&channelOfLane[v%3]).BitsToInt32()
		base := archsimd.BroadcastInt32x16(s.bases[v])
		low := archsimd.LoadInt32x16Array((*[16]int32)(h.low[pixel:])).Permute(lane)
		// Byte offset in the window, for the first tap in byte 0 and for the second in byte 2.
		index := low.Sub(first).Mul(three).Sub(base).Add(channel).Mul(twice).Add(next).ToBits().ReshapeToUint8s()
		for t := range pairs {
			k0 := archsimd.LoadInt32x16Array((*[16]int32)(h.weight[2*t*h.pitch+pixel:])).Permute(lane)
			k1 := archsimd.LoadInt32x16Array((*[16]int32)(h.weight[(2*t+1)*h.pitch+pixel:])).Permute(lane)
			high0, high1 := k0.Add(half).ShiftRight(bits), k1.Add(half).ShiftRight(bits)
			low0 := k0.Sub(high0.ShiftLeft(bits)).ShiftLeft(scale)
			low1 := k1.Sub(high1.ShiftLeft(bits)).ShiftLeft(scale)
			to := &s.taps512[v*p.tapPairs+t]
			index.StoreArray(&to.index)
			high0.And(word).Or(high1.ShiftLeft(upper)).ToBits().ReshapeToUint16s().BitsToInt16().StoreArray(&to.high)
			low0.And(word).Or(low1.ShiftLeft(upper)).ToBits().ReshapeToUint16s().BitsToInt16().StoreArray(&to.low)
		}
		clear(s.taps512[v*p.tapPairs+pairs : (v+1)*p.tapPairs])
	}
	return true
}

func horizontalAVX512(r *Resampler, p *bandPlan, dst, src unsafe.Pointer, stride, pairs int) {
	h, s := &r.horizontal, &r.simd
	taps := p.tapPairs
	switch {
	case taps == 3 && !s.window128 && h.signed:
		horizontal3SignedAVX512(dst, src, stride, p.ringStride, pairs, s.taps512, s.bases)
	case taps == 4 && !s.window128 && h.signed:
		horizontal4SignedAVX512(dst, src, stride, p.ringStride, pairs, s.taps512, s.bases)
	case taps == 1 && !s.window128 && !h.signed:
		horizontal1AVX512(dst, src, stride, p.ringStride, pairs, s.taps512, s.bases)
	case taps == 2 && !s.window128 && !h.signed:
		horizontal2AVX512(dst, src, stride, p.ringStride, pairs, s.taps512, s.bases)
	case s.window128:
		horizontalWideAVX512(dst, src, stride, p.ringStride, pairs, taps, h.signed, s.taps512, s.bases)
	default:
		horizontalAnyAVX512(dst, src, stride, p.ringStride, pairs, taps, h.signed, s.taps512, s.bases)
	}
}

// loadWords takes the bytes of a tap pair out of a window, each as a word.
func loadWords(window unsafe.Pointer, index archsimd.Uint8x64, even archsimd.Mask8x64) archsimd.Int16x32 {
	return archsimd.LoadUint8x64Array((*[64]uint8)(window)).Permute(index).Masked(even).ReshapeToUint16s().BitsToInt16()
}

// total combines the sums of the weights' two parts; round is 1024, shift 11 or 13.
func total512(high, low, round archsimd.Int32x16, shift archsimd.Uint32x16) archsimd.Uint8x64 {
	return high.Add(round).ShiftLeft(shift).Add(low).ToBits().ReshapeToUint8s()
}

func horizontal1AVX512(dst, src unsafe.Pointer, stride, ringStride, pairs int, taps []tapPair512, bases []int32) {
	round, shift := archsimd.BroadcastInt32x16(splitHalf), archsimd.BroadcastUint32x16(splitBits+2)
	top, even := archsimd.LoadUint8x64Array(&topPairs512), archsimd.Mask8x64FromBits(evenBytes)
	for v, base := range bases {
		t := &taps[v]
		index := archsimd.LoadUint8x64Array(&t.index)
		high, low := archsimd.LoadInt16x32Array(&t.high), archsimd.LoadInt16x32Array(&t.low)
		from, to := unsafe.Add(src, int(base)), unsafe.Add(dst, 64*v)
		for left := pairs; ; from, to = unsafe.Add(from, 2*stride), unsafe.Add(to, ringStride) {
			a := loadWords(from, index, even)
			b := loadWords(unsafe.Add(from, stride), index, even)
			x := total512(a.DotProductPairs(high), a.DotProductPairs(low), round, shift)
			y := total512(b.DotProductPairs(high), b.DotProductPairs(low), round, shift)
			x.ConcatPermute(y, top).Masked(even).StoreArray((*[64]uint8)(to))
			if left--; left == 0 {
				break
			}
		}
	}
}

func horizontal2AVX512(dst, src unsafe.Pointer, stride, ringStride, pairs int, taps []tapPair512, bases []int32) {
	round, shift := archsimd.BroadcastInt32x16(splitHalf), archsimd.BroadcastUint32x16(splitBits+2)
	top, even := archsimd.LoadUint8x64Array(&topPairs512), archsimd.Mask8x64FromBits(evenBytes)
	for v, base := range bases {
		t := taps[2*v:][:2]
		index := archsimd.LoadUint8x64Array(&t[0].index)
		high0, low0 := archsimd.LoadInt16x32Array(&t[0].high), archsimd.LoadInt16x32Array(&t[0].low)
		high1, low1 := archsimd.LoadInt16x32Array(&t[1].high), archsimd.LoadInt16x32Array(&t[1].low)
		from, to := unsafe.Add(src, int(base)), unsafe.Add(dst, 64*v)
		for left := pairs; ; from, to = unsafe.Add(from, 2*stride), unsafe.Add(to, ringStride) {
			a0, a1 := loadWords(from, index, even), loadWords(unsafe.Add(from, 6), index, even)
			x := total512(a0.DotProductPairs(high0).Add(a1.DotProductPairs(high1)),
				a0.DotProductPairs(low0).Add(a1.DotProductPairs(low1)), round, shift)
			b0, b1 := loadWords(unsafe.Add(from, stride), index, even), loadWords(unsafe.Add(from, stride+6), index, even)
			y := total512(b0.DotProductPairs(high0).Add(b1.DotProductPairs(high1)),
				b0.DotProductPairs(low0).Add(b1.DotProductPairs(low1)), round, shift)
			x.ConcatPermute(y, top).Masked(even).StoreArray((*[64]uint8)(to))
			if left--; left == 0 {
				break
			}
		}
	}
}

// storePairs512 finishes two rows' sums and stores them as pairs of words.
func storePairs512(to unsafe.Pointer, x, y archsimd.Uint8x64, signed bool) {
	if !signed {
		even := archsimd.Mask8x64FromBits(evenBytes)
		x.ConcatPermute(y, archsimd.LoadUint8x64Array(&topPairs512)).Masked(even).StoreArray((*[64]uint8)(to))
		return
	}
	words := x.ConcatPermute(y, archsimd.LoadUint8x64Array(&highPairs512)).ReshapeToUint16s().BitsToInt16().ShiftAllRight(weightBits - 16)
	words.Max(archsimd.BroadcastInt16x32(0)).Min(archsimd.BroadcastInt16x32(255)).StoreArray((*[32]int16)(to))
}

// horizontalAnyAVX512 serves any number of taps whose window fits one register.
func horizontalAnyAVX512(dst, src unsafe.Pointer, stride, ringStride, pairs, tapPairs int, signed bool, taps []tapPair512, bases []int32) {
	round, zero := archsimd.BroadcastInt32x16(splitHalf), archsimd.BroadcastInt32x16(0)
	shift := archsimd.BroadcastUint32x16(splitBits + 2)
	if signed {
		shift = archsimd.BroadcastUint32x16(splitBits)
	}
	even := archsimd.Mask8x64FromBits(evenBytes)
	for v, base := range bases {
		table := taps[v*tapPairs:][:tapPairs]
		index := archsimd.LoadUint8x64Array(&table[0].index)
		row, to := unsafe.Add(src, int(base)), unsafe.Add(dst, 64*v)
		for left := pairs; ; row, to = unsafe.Add(row, 2*stride), unsafe.Add(to, ringStride) {
			xHigh, xLow, yHigh, yLow := round, zero, round, zero
			from := row
			for t := range table {
				high, low := archsimd.LoadInt16x32Array(&table[t].high), archsimd.LoadInt16x32Array(&table[t].low)
				a, b := loadWords(from, index, even), loadWords(unsafe.Add(from, stride), index, even)
				xHigh, xLow = xHigh.Add(a.DotProductPairs(high)), xLow.Add(a.DotProductPairs(low))
				yHigh, yLow = yHigh.Add(b.DotProductPairs(high)), yLow.Add(b.DotProductPairs(low))
				from = unsafe.Add(from, 6)
			}
			storePairs512(to, total512(xHigh, xLow, zero, shift), total512(yHigh, yLow, zero, shift), signed)
			if left--; left == 0 {
				break
			}
		}
	}
}

// loadWideWords is loadWords for a window of two registers.
func loadWideWords(window unsafe.Pointer, index archsimd.Uint8x64, even archsimd.Mask8x64) archsimd.Int16x32 {
	a, b := archsimd.LoadUint8x64Array((*[64]uint8)(window)), archsimd.LoadUint8x64Array((*[64]uint8)(unsafe.Add(window, 64)))
	return a.ConcatPermute(b, index).Masked(even).ReshapeToUint16s().BitsToInt16()
}

// horizontalWideAVX512 serves any number of taps whose window fits two registers.
func horizontalWideAVX512(dst, src unsafe.Pointer, stride, ringStride, pairs, tapPairs int, signed bool, taps []tapPair512, bases []int32) {
	round, zero := archsimd.BroadcastInt32x16(splitHalf), archsimd.BroadcastInt32x16(0)
	shift := archsimd.BroadcastUint32x16(splitBits + 2)
	if signed {
		shift = archsimd.BroadcastUint32x16(splitBits)
	}
	even := archsimd.Mask8x64FromBits(evenBytes)
	for v, base := range bases {
		table := taps[v*tapPairs:][:tapPairs]
		index := archsimd.LoadUint8x64Array(&table[0].index)
		row, to := unsafe.Add(src, int(base)), unsafe.Add(dst, 64*v)
		for left := pairs; ; row, to = unsafe.Add(row, 2*stride), unsafe.Add(to, ringStride) {
			xHigh, xLow, yHigh, yLow := round, zero, round, zero
			from := row
			for t := range table {
				high, low := archsimd.LoadInt16x32Array(&table[t].high), archsimd.LoadInt16x32Array(&table[t].low)
				a, b := loadWideWords(from, index, even), loadWideWords(unsafe.Add(from, stride), index, even)
				xHigh, xLow = xHigh.Add(a.DotProductPairs(high)), xLow.Add(a.DotProductPairs(low))
				yHigh, yLow = yHigh.Add(b.DotProductPairs(high)), yLow.Add(b.DotProductPairs(low))
				from = unsafe.Add(from, 6)
			}
			storePairs512(to, total512(xHigh, xLow, zero, shift), total512(yHigh, yLow, zero, shift), signed)
			if left--; left == 0 {
				break
			}
		}
	}
}

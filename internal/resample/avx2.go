//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package resample

import (
	"simd/archsimd"
	"unsafe"
)

// A tapPair256 is what the horizontal pass needs for two output pixels, one in each 128-bit lane, and two neighbouring
// taps. A lane's four dwords are R, G, B and nothing; a dword holds the two taps' words.
type tapPair256 struct {
	high, low [16]int16
}

var (
	// Byte shuffles within lanes: the RGB bytes of pixels 0 and 1 (or 2 and 3) into pairs of words.
	pixels01, pixels23 [32]int8
	// pairWords256 brings words x0..x3 y0..y3 of each lane into pairs x0 y0 x1 y1 ...
	pairWords256 [32]int8
	// packBytes256 orders a lane's bytes a0 c0 a1 c1 .. b0 d0 b1 d1 .. as a0..a3 b0..b3 c0..c3 d0..d3, and
	// packDwords256 then puts the lanes' parts side by side.
	packBytes256  [32]int8
	packDwords256 = [8]uint32{0, 4, 1, 5, 2, 6, 3, 7}
	// The top byte of each dword, into its first word or its second.
	topFirst256, topSecond256 [32]int8
	// bothTriples256 puts three dwords of each lane side by side.
	bothTriples256 = [8]uint32{0, 1, 2, 4, 5, 6, 7, 7}
	// bothPixels256 spreads the weights of outputs 2j and 2j+1, out of eight, over their lanes.
	bothPixels256 = [4][8]uint32{{0, 0, 0, 0, 1, 1, 1, 1}, {2, 2, 2, 2, 3, 3, 3, 3}, {4, 4, 4, 4, 5, 5, 5, 5}, {6, 6, 6, 6, 7, 7, 7, 7}}
)

func init() {
	for lane := 0; lane < 32; lane += 16 {
		for i := range 16 {
			pixels01[lane+i], pixels23[lane+i] = -1, -1
			topFirst256[lane+i], topSecond256[lane+i] = -1, -1
		}
		for c := range 3 {
			pixels01[lane+4*c], pixels01[lane+4*c+2] = int8(c), int8(c+3)
			pixels23[lane+4*c], pixels23[lane+4*c+2] = int8(c+6), int8(c+9)
		}
		for i := range 4 {
			topFirst256[lane+4*i], topSecond256[lane+4*i+2] = int8(4*i+3), int8(4*i+3)
			x, y := int8(2*i), int8(8+2*i)
			packBytes256[lane+i], packBytes256[lane+8+i] = x, x+1
			packBytes256[lane+4+i], packBytes256[lane+12+i] = y, y+1
			pairWords256[lane+4*i], pairWords256[lane+4*i+1] = x, x+1
			pairWords256[lane+4*i+2], pairWords256[lane+4*i+3] = y, y+1
		}
	}
}

// prepareAVX2 builds the horizontal tables. There is no limit to the scale: each pixel has a window of its own.
func (r *Resampler) prepareAVX2(p *bandPlan) {
	h, s := &r.horizontal, &r.simd
	pairs := (h.taps + 1) / 2
	pixels := (h.n + 1) &^ 1
	s.bases = grown(s.bases, pixels)
	p.tapPairs, p.reach = pairs, 0
	for i := range s.bases {
		s.bases[i] = 3 * (h.low[i] - int32(h.first))
		p.reach = max(p.reach, int(s.bases[i])+6*(pairs-1)+32)
	}
	s.taps256 = grown(s.taps256, pairs*(pixels+6)/2)
	half, bits, word := archsimd.BroadcastInt32x8(splitHalf), archsimd.BroadcastUint32x8(splitBits), archsimd.BroadcastInt32x8(0xffff)
	upper, scale := archsimd.BroadcastUint32x8(16), archsimd.BroadcastUint32x8(uint32(h.lowScale()))
	for i := 0; i < pixels; i += 8 {
		for t := range pairs {
			k0 := archsimd.LoadInt32x8Array((*[8]int32)(h.weight[2*t*h.pitch+i:]))
			k1 := archsimd.LoadInt32x8Array((*[8]int32)(h.weight[(2*t+1)*h.pitch+i:]))
			high0, high1 := k0.Add(half).ShiftRight(bits), k1.Add(half).ShiftRight(bits)
			low0 := k0.Sub(high0.ShiftLeft(bits)).ShiftLeft(scale)
			low1 := k1.Sub(high1.ShiftLeft(bits)).ShiftLeft(scale)
			high := high0.And(word).Or(high1.ShiftLeft(upper))
			low := low0.And(word).Or(low1.ShiftLeft(upper))
			for j := range bothPixels256 {
				spread := archsimd.LoadUint32x8Array(&bothPixels256[j])
				to := &s.taps256[(i/2+j)*pairs+t]
				high.Permute(spread).ToBits().ReshapeToUint16s().BitsToInt16().StoreArray(&to.high)
				low.Permute(spread).ToBits().ReshapeToUint16s().BitsToInt16().StoreArray(&to.low)
			}
		}
	}
}

func horizontalAVX2(r *Resampler, p *bandPlan, dst, src unsafe.Pointer, stride, pairs int) {
	h, s := &r.horizontal, &r.simd
	taps := p.tapPairs
	switch {
	case taps == 1 && !h.signed:
		horizontal1AVX2(dst, src, stride, p.ringStride, pairs, s.taps256, s.bases)
	case taps == 2 && !h.signed:
		horizontal2AVX2(dst, src, stride, p.ringStride, pairs, s.taps256, s.bases)
	default:
		horizontalAnyAVX2(dst, src, stride, p.ringStride, pairs, taps, h.signed, s.taps256, s.bases)
	}
}

// loadPixels loads 16 bytes for each of two output pixels. It reads 32 for the first: that saves an instruction.
func loadPixels(a, b unsafe.Pointer) archsimd.Uint8x32 {
	return archsimd.LoadUint8x32Array((*[32]uint8)(a)).SetHi(archsimd.LoadUint8x16Array((*[16]uint8)(b)))
}

func total256(high, low, round archsimd.Int32x8, shift archsimd.Uint32x8) archsimd.Uint32x8 {
	return high.Add(round).ShiftLeft(shift).Add(low).ToBits()
}

// storePixels stores two lanes' three pairs of words, 24 bytes, and 8 bytes that the next pixels overwrite.
func storePixels(to unsafe.Pointer, pairs archsimd.Int32x8, pixels archsimd.Uint32x8) {
	pairs.Permute(pixels).StoreArray((*[8]int32)(to))
}

// topPairs256 makes pairs of words of two rows' top bytes.
func topPairs256(x, y archsimd.Uint32x8, first, second archsimd.Int8x32) archsimd.Int32x8 {
	return x.ReshapeToUint8s().PermuteOrZeroGrouped(first).Or(y.ReshapeToUint8s().PermuteOrZeroGrouped(second)).ReshapeToUint32s().BitsToInt32()
}

func horizontal1AVX2(dst, src unsafe.Pointer, stride, ringStride, pairs int, taps []tapPair256, bases []int32) {
	round, shift := archsimd.BroadcastInt32x8(splitHalf), archsimd.BroadcastUint32x8(splitBits+2)
	first, second, pixels := archsimd.LoadInt8x32Array(&topFirst256), archsimd.LoadInt8x32Array(&topSecond256), archsimd.LoadUint32x8Array(&bothTriples256)
	spread := archsimd.LoadInt8x32Array(&pixels01)
	for i := 0; i+1 < len(bases); i += 2 {
		t := &taps[i/2]
		high, low := archsimd.LoadInt16x16Array(&t.high), archsimd.LoadInt16x16Array(&t.low)
		from0, from1 := unsafe.Add(src, int(bases[i])), unsafe.Add(src, int(bases[i+1]))
		to := unsafe.Add(dst, 12*i)
		for left := pairs; ; from0, from1, to = unsafe.Add(from0, 2*stride), unsafe.Add(from1, 2*stride), unsafe.Add(to, ringStride) {
			a := loadPixels(from0, from1).PermuteOrZeroGrouped(spread).ReshapeToUint16s().BitsToInt16()
			b := loadPixels(unsafe.Add(from0, stride), unsafe.Add(from1, stride)).PermuteOrZeroGrouped(spread).ReshapeToUint16s().BitsToInt16()
			storePixels(to, topPairs256(total256(a.DotProductPairs(high), a.DotProductPairs(low), round, shift),
				total256(b.DotProductPairs(high), b.DotProductPairs(low), round, shift), first, second), pixels)
			if left--; left == 0 {
				break
			}
		}
	}
}

func horizontal2AVX2(dst, src unsafe.Pointer, stride, ringStride, pairs int, taps []tapPair256, bases []int32) {
	round, shift := archsimd.BroadcastInt32x8(splitHalf), archsimd.BroadcastUint32x8(splitBits+2)
	first, second, pixels := archsimd.LoadInt8x32Array(&topFirst256), archsimd.LoadInt8x32Array(&topSecond256), archsimd.LoadUint32x8Array(&bothTriples256)
	spread0, spread1 := archsimd.LoadInt8x32Array(&pixels01), archsimd.LoadInt8x32Array(&pixels23)
	for i := 0; i+1 < len(bases); i += 2 {
		t := taps[i:][:2]
		high0, low0 := archsimd.LoadInt16x16Array(&t[0].high), archsimd.LoadInt16x16Array(&t[0].low)
		high1, low1 := archsimd.LoadInt16x16Array(&t[1].high), archsimd.LoadInt16x16Array(&t[1].low)
		from0, from1 := unsafe.Add(src, int(bases[i])), unsafe.Add(src, int(bases[i+1]))
		to := unsafe.Add(dst, 12*i)
		for left := pairs; ; from0, from1, to = unsafe.Add(from0, 2*stride), unsafe.Add(from1, 2*stride), unsafe.Add(to, ringStride) {
			w := loadPixels(from0, from1)
			a, b := w.PermuteOrZeroGrouped(spread0).ReshapeToUint16s().BitsToInt16(), w.PermuteOrZeroGrouped(spread1).ReshapeToUint16s().BitsToInt16()
			x := total256(a.DotProductPairs(high0).Add(b.DotProductPairs(high1)),
				a.DotProductPairs(low0).Add(b.DotProductPairs(low1)), round, shift)
			w = loadPixels(unsafe.Add(from0, stride), unsafe.Add(from1, stride))
			a, b = w.PermuteOrZeroGrouped(spread0).ReshapeToUint16s().BitsToInt16(), w.PermuteOrZeroGrouped(spread1).ReshapeToUint16s().BitsToInt16()
			y := total256(a.DotProductPairs(high0).Add(b.DotProductPairs(high1)),
				a.DotProductPairs(low0).Add(b.DotProductPairs(low1)), round, shift)
			storePixels(to, topPairs256(x, y, first, second), pixels)
			if left--; left == 0 {
				break
			}
		}
	}
}

// storeSums256 finishes two rows' sums and stores them as pairs of words.
func storeSums256(to unsafe.Pointer, x, y archsimd.Int32x8, signed bool) {
	pixels := archsimd.LoadUint32x8Array(&bothTriples256)
	if !signed {
		storePixels(to, topPairs256(x.ToBits(), y.ToBits(), archsimd.LoadInt8x32Array(&topFirst256),
			archsimd.LoadInt8x32Array(&topSecond256)), pixels)
		return
	}
	by22 := archsimd.BroadcastUint32x8(weightBits)
	words := x.ShiftRight(by22).SaturateToUint16ConcatGrouped(y.ShiftRight(by22)).Min(archsimd.BroadcastUint16x16(255))
	storePixels(to, words.ReshapeToUint8s().PermuteOrZeroGrouped(archsimd.LoadInt8x32Array(&pairWords256)).ReshapeToUint32s().BitsToInt32(), pixels)
}

// horizontalAnyAVX2 serves any number of taps, four at a time while there are.
func horizontalAnyAVX2(dst, src unsafe.Pointer, stride, ringStride, pairs, tapPairs int, signed bool, taps []tapPair256, bases []int32) {
	round, zero := archsimd.BroadcastInt32x8(splitHalf), archsimd.BroadcastInt32x8(0)
	shift := archsimd.BroadcastUint32x8(splitBits + 2)
	if signed {
		shift = archsimd.BroadcastUint32x8(splitBits)
	}
	spread0, spread1 := archsimd.LoadInt8x32Array(&pixels01), archsimd.LoadInt8x32Array(&pixels23)
	for i := 0; i+1 < len(bases); i += 2 {
		table := taps[i/2*tapPairs:][:tapPairs]
		row, to := src, unsafe.Add(dst, 12*i)
		for left := pairs; ; row, to = unsafe.Add(row, 2*stride), unsafe.Add(to, ringStride) {
			from0, from1 := unsafe.Add(row, int(bases[i])), unsafe.Add(row, int(bases[i+1]))
			xHigh, xLow, yHigh, yLow := round, zero, round, zero
			t := 0
			for ; t+1 < len(table); t += 2 {
				w := loadPixels(from0, from1)
				a, b := w.PermuteOrZeroGrouped(spread0).ReshapeToUint16s().BitsToInt16(), w.PermuteOrZeroGrouped(spread1).ReshapeToUint16s().BitsToInt16()
				w = loadPixels(unsafe.Add(from0, stride), unsafe.Add(from1, stride))
				c, d := w.PermuteOrZeroGrouped(spread0).ReshapeToUint16s().BitsToInt16(), w.PermuteOrZeroGrouped(spread1).ReshapeToUint16s().BitsToInt16()
				high, low := archsimd.LoadInt16x16Array(&table[t].high), archsimd.LoadInt16x16Array(&table[t].low)
				xHigh, xLow = xHigh.Add(a.DotProductPairs(high)), xLow.Add(a.DotProductPairs(low))
				yHigh, yLow = yHigh.Add(c.DotProductPairs(high)), yLow.Add(c.DotProductPairs(low))
				high, low = archsimd.LoadInt16x16Array(&table[t+1].high), archsimd.LoadInt16x16Array(&table[t+1].low)
				xHigh, xLow = xHigh.Add(b.DotProductPairs(high)), xLow.Add(b.DotProductPairs(low))
				yHigh, yLow = yHigh.Add(d.DotProductPairs(high)), yLow.Add(d.DotProductPairs(low))
				from0, from1 = unsafe.Add(from0, 12), unsafe.Add(from1, 12)
			}
			if t < len(table) {
				a := loadPixels(from0, from1).PermuteOrZeroGrouped(spread0).ReshapeToUint16s().BitsToInt16()
				c := loadPixels(unsafe.Add(from0, stride), unsafe.Add(from1, stride)).PermuteOrZeroGrouped(spread0).ReshapeToUint16s().BitsToInt16()
				high, low := archsimd.LoadInt16x16Array(&table[t].high), archsimd.LoadInt16x16Array(&table[t].low)
				xHigh, xLow = xHigh.Add(a.DotProductPairs(high)), xLow.Add(a.DotProductPairs(low))
				yHigh, yLow = yHigh.Add(c.DotProductPairs(high)), yLow.Add(c.DotProductPairs(low))
			}
			storeSums256(to, xHigh.ShiftLeft(shift).Add(xLow), yHigh.ShiftLeft(shift).Add(yLow), signed)
			if left--; left == 0 {
				break
			}
		}
	}
}

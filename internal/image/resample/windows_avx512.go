//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package resample

import (
	"simd/archsimd"
	"unsafe"

	. "github.com/imgfeed/imgfeed/internal/lanes/avx512"
)

// The horizontal pass of AVX-512. Other levels lack VPERMB, which takes 16 bytes of output (5⅓ pixels) at a time from a
// window of 64 source bytes.

// A windowTaps has the horizontal pass's tables for 16 bytes of output and two adjacent taps.
type windowTaps struct {
	index     [64]uint8 // VPERMB's indices: bytes 4i and 4i+2 take the two source bytes of output byte i from the window
	high, low [32]int16 // parts of the weights of byte i, in words 2i and 2i+1
}

// windowPairs is the number of row pairs per call: tables in registers serve twice as many rows as in the other kernels.
const windowPairs = 16

var (
	// pixelOfByte and channelOfByte are the three patterns of 16 bytes of pixels: a vector begins with channel 0, 1 or
	// 2 in turn. Pixels count from the vector's first.
	pixelOfByte, channelOfByte [3][16]uint32
	windows                    = horizontalKernels{
		{
			windowsAVX512[one, clipped], windowsAVX512[two, clipped], windowsAVX512[three, clipped], windowsAVX512[four, clipped],
			windowsAnyAVX512[clipped, one],
		},
		{
			windowsAVX512[one, topByte], windowsAVX512[two, topByte], windowsAVX512[three, topByte], windowsAVX512[four, topByte],
			windowsAnyAVX512[topByte, one],
		},
	}
)

func init() {
	for phase := range 3 {
		for i := range 16 {
			pixelOfByte[phase][i], channelOfByte[phase][i] = uint32((phase+i)/3), uint32((phase+i)%3)
		}
	}
}

func mirrorAVX512(dst, src []byte) { mirrorAVX2(dst, src) }

// prepareAVX512 builds the tables. If a window exceeds two registers (a scale above about 7.6), it uses the kernels
// with a pixel in each lane.
func prepareAVX512(r *Resampler, p *bandPlan) {
	h, s := &r.horizontal, &r.simd
	pairs := (h.taps + 1) / 2
	s.bases = grown(s.bases, p.vectors)
	span := 0
	for v := range p.vectors {
		a, b := h.low[16*v/3], h.low[(16*v+15)/3] // the other way round when mirrored
		s.bases[v] = 3 * (min(a, b) - int32(h.first))
		span = max(span, 3*int(max(a, b)-min(a, b))+6)
		p.reach = max(p.reach, int(s.bases[v])+6*(pairs-1)+128)
	}
	if span > 128 {
		prepareAVX2(r, p)
		return
	}
	p.tapPairs, p.batch = pairs, windowPairs
	switch {
	case span <= 64:
		p.horizontal = windows.choose(h.signed, pairs)
		p.reach -= 64
	case h.signed:
		p.horizontal = windowsAnyAVX512[clipped, two]
	default:
		p.horizontal = windowsAnyAVX512[topByte, two]
	}
	const entry = int(unsafe.Sizeof(windowTaps{}))
	s.taps = grown(s.taps, entry/4*pairs*p.vectors)
	p.bases, p.taps = s.bases, unsafe.Pointer(&s.taps[0])
	three, twice, next := BroadcastDwords(3), BroadcastDwords(0x00010001), BroadcastDwords(0x00030000)
	first := BroadcastDwords(int32(h.first))
	for v := range p.vectors {
		pixel := 16 * v / 3
		lane := archsimd.LoadUint32x16Array(&pixelOfByte[v%3])
		channel := archsimd.LoadUint32x16Array(&channelOfByte[v%3]).BitsToInt32()
		low := LoadDwords(unsafe.Pointer(&h.low[pixel])).Permute(lane)
		// Byte offset in the window, for the first tap in byte 0 and for the second in byte 2.
		index := low.Sub(first).Mul(three).Sub(BroadcastDwords(s.bases[v])).Add(channel).Mul(twice).Add(next)
		for t := range pairs {
			k0 := LoadDwords(unsafe.Pointer(&h.weight[2*t*h.pitch+pixel])).Permute(lane)
			k1 := LoadDwords(unsafe.Pointer(&h.weight[(2*t+1)*h.pitch+pixel])).Permute(lane)
			high, low := SplitWeights(k0, k1, !h.signed)
			to := unsafe.Add(p.taps, (v*pairs+t)*entry)
			StoreDwords(index, to)
			StoreDwords(high, unsafe.Add(to, unsafe.Offsetof(windowTaps{}.high)))
			StoreDwords(low, unsafe.Add(to, unsafe.Offsetof(windowTaps{}.low)))
		}
	}
	Leave()
}

// windowsAVX512 is for windows of one register, and as many pairs of taps as N has elements. Their weights stay in registers.
func windowsAVX512[N few, E ending](p *bandPlan, dst, src unsafe.Pointer, stride, pairs int) {
	n, top := len(*new(N)), len(*new(E)) == 1
	start, ringStride := SumStart(top), p.ringStride
	top0, top1, clip := PairTables()
	even := archsimd.Mask8x64FromBits(evenBytes)
	for v, base := range p.bases {
		k := unsafe.Slice((*windowTaps)(p.taps), len(p.bases)*n)[v*n:][:n]
		index := archsimd.LoadUint8x64Array(&k[0].index)
		high0, low0 := archsimd.LoadInt16x32Array(&k[0].high), archsimd.LoadInt16x32Array(&k[0].low)
		high1, low1, high2, low2, high3, low3 := high0, low0, high0, low0, high0, low0
		if n > 1 {
			high1, low1 = archsimd.LoadInt16x32Array(&k[1].high), archsimd.LoadInt16x32Array(&k[1].low)
		}
		if n > 2 {
			high2, low2 = archsimd.LoadInt16x32Array(&k[2].high), archsimd.LoadInt16x32Array(&k[2].low)
		}
		if n > 3 {
			high3, low3 = archsimd.LoadInt16x32Array(&k[3].high), archsimd.LoadInt16x32Array(&k[3].low)
		}
		sums := func(from unsafe.Pointer) (high, low Dwords) {
			high, low = MulPairs(start, ToWords(Load(from).Permute(index).Masked(even)), high0, low0)
			if n > 1 {
				high, low = MulAddPairs(high, low, ToWords(Load(unsafe.Add(from, 6)).Permute(index).Masked(even)), high1, low1)
			}
			if n > 2 {
				high, low = MulAddPairs(high, low, ToWords(Load(unsafe.Add(from, 12)).Permute(index).Masked(even)), high2, low2)
			}
			if n > 3 {
				high, low = MulAddPairs(high, low, ToWords(Load(unsafe.Add(from, 18)).Permute(index).Masked(even)), high3, low3)
			}
			return high, low
		}
		from, to := unsafe.Add(src, int(base)), unsafe.Add(dst, 64*v)
		for remaining := pairs; ; from, to = unsafe.Add(from, 2*stride), unsafe.Add(to, ringStride) {
			high, low := sums(from)
			x := low.Add(Raise(high, top))
			high, low = sums(unsafe.Add(from, stride))
			if top {
				StoreWords(TopPairs(x, low.Add(Raise(high, top)), top0, top1), to)
			} else {
				StoreWords(ClipPairs(x, low.Add(Raise(high, top)), clip), to)
			}
			if remaining--; remaining == 0 {
				break
			}
		}
	}
	Leave()
}

const evenBytes = 0x5555555555555555

// fromWindow extracts the bytes of a pair of taps from a window, each as a word.
func fromWindow(window unsafe.Pointer, index Bytes, even archsimd.Mask8x64) Words {
	return ToWords(Load(window).Permute(index).Masked(even))
}

// fromWideWindow is fromWindow for a window of two registers.
func fromWideWindow(window unsafe.Pointer, index Bytes, even archsimd.Mask8x64) Words {
	return ToWords(Load(window).ConcatPermute(Load(unsafe.Add(window, 64)), index).Masked(even))
}

// windowsAnyAVX512 is for any number of taps, and windows of as many registers as R has elements.
func windowsAnyAVX512[E ending, R one | two](p *bandPlan, dst, src unsafe.Pointer, stride, pairs int) {
	top := len(*new(E)) == 1
	start, ringStride := SumStart(top), p.ringStride
	top0, top1, clip := PairTables()
	even := archsimd.Mask8x64FromBits(evenBytes)
	for v, base := range p.bases {
		table := unsafe.Slice((*windowTaps)(p.taps), len(p.bases)*p.tapPairs)[v*p.tapPairs:][:p.tapPairs]
		index := archsimd.LoadUint8x64Array(&table[0].index)
		row, to := unsafe.Add(src, int(base)), unsafe.Add(dst, 64*v)
		for remaining := pairs; ; row, to = unsafe.Add(row, 2*stride), unsafe.Add(to, ringStride) {
			xHigh, yHigh := start, start
			var xLow, yLow Dwords
			from := row
			for t := range table {
				high, low := archsimd.LoadInt16x32Array(&table[t].high), archsimd.LoadInt16x32Array(&table[t].low)
				var a, b Words
				if len(*new(R)) == 2 {
					a, b = fromWideWindow(from, index, even), fromWideWindow(unsafe.Add(from, stride), index, even)
				} else {
					a, b = fromWindow(from, index, even), fromWindow(unsafe.Add(from, stride), index, even)
				}
				xHigh, xLow = MulAddPairs(xHigh, xLow, a, high, low)
				yHigh, yLow = MulAddPairs(yHigh, yLow, b, high, low)
				from = unsafe.Add(from, 6)
			}
			x, y := xLow.Add(Raise(xHigh, top)), yLow.Add(Raise(yHigh, top))
			if top {
				StoreWords(TopPairs(x, y, top0, top1), to)
			} else {
				StoreWords(ClipPairs(x, y, clip), to)
			}
			if remaining--; remaining == 0 {
				break
			}
		}
	}
	Leave()
}

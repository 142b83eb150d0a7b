//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package resample

import (
	"unsafe"

	. "github.com/imgfeed/imgfeed/internal/lanes/avx2"
)

// The horizontal pass with a pixel in each lane: dwords R, G, B and an unused one.

// pixelsAVX2 read rows of the source and write row pairs to the ring.
var pixelsAVX2 = horizontalKernels{
	{
		horizontalAVX2[one, clipped], horizontalAVX2[two, clipped], horizontalAVX2[three, clipped], horizontalAVX2[four, clipped],
		horizontalAnyAVX2[clipped],
	},
	{
		horizontalAVX2[one, topByte], horizontalAVX2[two, topByte], horizontalAVX2[three, topByte], horizontalAVX2[four, topByte],
		horizontalAnyAVX2[topByte],
	},
}

// prepareAVX2 builds the tables. The scale is unlimited, because each pixel has its own window.
func prepareAVX2(r *Resampler, p *bandPlan) {
	h, s := &r.horizontal, &r.simd
	pairs := (h.taps + 1) / 2
	pixels := (h.n + Count - 1) / Count * Count
	s.bases = grown(s.bases, pixels)
	p.tapPairs, p.reach = pairs, 0
	for i := range s.bases {
		s.bases[i] = 3 * (h.low[i] - int32(h.first))
		p.reach = max(p.reach, int(s.bases[i])+(pairs-1)/2*12+16*Count)
	}
	s.taps = grown(s.taps, 8*pairs*(pixels+4*Count))
	p.bases, p.taps = s.bases, unsafe.Pointer(&s.taps[0])
	p.horizontal, p.batch = pixelsAVX2.choose(h.signed, pairs), 4
	for i := 0; i < pixels; i += 4 * Count {
		for t := range pairs {
			k0, k1 := LoadDwords(unsafe.Pointer(&h.weight[2*t*h.pitch+i])), LoadDwords(unsafe.Pointer(&h.weight[(2*t+1)*h.pitch+i]))
			high, low := SplitWeights(k0, k1, !h.signed)
			for j := range 4 {
				to := unsafe.Pointer(&s.taps[8*((i+j*Count)*pairs+t*Count)])
				StoreDwords(Spread(high, j), to)
				StoreDwords(Spread(low, j), unsafe.Add(to, 16*Count))
			}
		}
	}
	Leave()
}

// horizontalAVX2 is for as many pairs of taps as N has elements. Their weights stay in registers.
func horizontalAVX2[N few, E ending](p *bandPlan, dst, src unsafe.Pointer, stride, pairs int) {
	n, top := len(*new(N)), len(*new(E)) == 1
	start, ringStride := SumStart(top), p.ringStride
	top0, top1, clip := PairTables()
	first, second, triples := LoadRepeated(unsafe.Pointer(&pixels01)), LoadRepeated(unsafe.Pointer(&pixels23)), TripleTable()
	for i := 0; i+Count <= len(p.bases); i += Count {
		k := unsafe.Add(p.taps, 32*n*i)
		high0, low0 := LoadWords(k), LoadWords(unsafe.Add(k, 16*Count))
		high1, low1, high2, low2, high3, low3 := high0, low0, high0, low0, high0, low0
		if n > 1 {
			high1, low1 = LoadWords(unsafe.Add(k, 32*Count)), LoadWords(unsafe.Add(k, 48*Count))
		}
		if n > 2 {
			high2, low2 = LoadWords(unsafe.Add(k, 64*Count)), LoadWords(unsafe.Add(k, 80*Count))
		}
		if n > 3 {
			high3, low3 = LoadWords(unsafe.Add(k, 96*Count)), LoadWords(unsafe.Add(k, 112*Count))
		}
		o0, o1 := Offsets(&p.bases[i])
		sums := func(row unsafe.Pointer) (high, low Dwords) {
			v := LoadApart(unsafe.Add(row, o0), unsafe.Add(row, o1))
			high, low = MulPairs(start, ToWords(Take(v, first)), high0, low0)
			if n > 1 {
				high, low = MulAddPairs(high, low, ToWords(Take(v, second)), high1, low1)
			}
			if n > 2 {
				v = LoadApart(unsafe.Add(row, o0+12), unsafe.Add(row, o1+12))
				high, low = MulAddPairs(high, low, ToWords(Take(v, first)), high2, low2)
			}
			if n > 3 {
				high, low = MulAddPairs(high, low, ToWords(Take(v, second)), high3, low3)
			}
			return high, low
		}
		row, to := src, unsafe.Add(dst, 12*i)
		for remaining := pairs; ; row, to = unsafe.Add(row, 2*stride), unsafe.Add(to, ringStride) {
			high, low := sums(row)
			x := low.Add(Raise(high, top))
			high, low = sums(unsafe.Add(row, stride))
			if top {
				StoreTriples(TopPairs(x, low.Add(Raise(high, top)), top0, top1), to, triples)
			} else {
				StoreTriples(ClipPairs(x, low.Add(Raise(high, top)), clip), to, triples)
			}
			if remaining--; remaining == 0 {
				break
			}
		}
	}
	Leave()
}

// horizontalAnyAVX2 is for any number of taps, four at a time as far as possible.
func horizontalAnyAVX2[E ending](p *bandPlan, dst, src unsafe.Pointer, stride, pairs int) {
	top := len(*new(E)) == 1
	start, ringStride := SumStart(top), p.ringStride
	top0, top1, clip := PairTables()
	first, second, triples := LoadRepeated(unsafe.Pointer(&pixels01)), LoadRepeated(unsafe.Pointer(&pixels23)), TripleTable()
	for i := 0; i+Count <= len(p.bases); i += Count {
		o0, o1 := Offsets(&p.bases[i])
		row, to := src, unsafe.Add(dst, 12*i)
		for remaining := pairs; ; row, to = unsafe.Add(row, 2*stride), unsafe.Add(to, ringStride) {
			xHigh, yHigh := start, start
			var xLow, yLow Dwords
			k := unsafe.Add(p.taps, 32*p.tapPairs*i)
			t, from := p.tapPairs, row
			for ; ; from, k = unsafe.Add(from, 12), unsafe.Add(k, 64*Count) {
				v := LoadApart(unsafe.Add(from, o0), unsafe.Add(from, o1))
				w := LoadApart(unsafe.Add(from, stride+o0), unsafe.Add(from, stride+o1))
				high, low := LoadWords(k), LoadWords(unsafe.Add(k, 16*Count))
				xHigh, xLow = MulAddPairs(xHigh, xLow, ToWords(Take(v, first)), high, low)
				yHigh, yLow = MulAddPairs(yHigh, yLow, ToWords(Take(w, first)), high, low)
				if t == 1 {
					break
				}
				high, low = LoadWords(unsafe.Add(k, 32*Count)), LoadWords(unsafe.Add(k, 48*Count))
				xHigh, xLow = MulAddPairs(xHigh, xLow, ToWords(Take(v, second)), high, low)
				yHigh, yLow = MulAddPairs(yHigh, yLow, ToWords(Take(w, second)), high, low)
				if t -= 2; t == 0 {
					break
				}
			}
			if top {
				StoreTriples(TopPairs(xLow.Add(Raise(xHigh, top)), yLow.Add(Raise(yHigh, top)), top0, top1), to, triples)
			} else {
				StoreTriples(ClipPairs(xLow.Add(Raise(xHigh, top)), yLow.Add(Raise(yHigh, top)), clip), to, triples)
			}
			if remaining--; remaining == 0 {
				break
			}
		}
	}
	Leave()
}

// mirrorAVX2 takes 15 bytes at a time while 16 can be read, then single pixels.
func mirrorAVX2(dst, src []byte) {
	index, pixels, x := LoadLane(unsafe.Pointer(&mirrorIndex)), len(src)/3, 0
	for ; x+mirrorPixels < pixels; x += mirrorPixels {
		v := TakeLane(LoadLane(unsafe.Pointer(&src[3*x:][:16][0])), index)
		StoreLane(v, unsafe.Pointer(&dst[3*(pixels-mirrorPixels-x)-1:][:16][0]))
	}
	mirror(dst[:3*(pixels-x)], src[3*x:3*pixels])
}

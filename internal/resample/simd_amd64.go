//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package resample

import (
	"simd/archsimd"
	"unsafe"

	"github.com/imgfeed/imgfeed/internal/kernel"
)

// How the kernels of both levels work.
//
// A weight k of 22 fractional bits does not fit the 16-bit multiplier of VPMADDWD, which takes pairs of words and adds
// the two products. So k = high·2¹¹ + low with low in -1024..1023, and two VPMADDWD for a pair of taps give
//
//	sum = ((Σ high·pixel + 1024) << 11) + Σ low·pixel      (1024 << 11 is the rounding, half of 1 << 22)
//
// exactly, modulo 2³². Filters without negative weights never leave 0..255, and need no clipping: low is stored four
// times as large and the shift is 13, so that the result is the top byte of the sum. The others shift by 22 and clip.
//
// The horizontal pass takes two source rows at a time and leaves their bytes as the two words of a pair, in a ring of
// such row pairs: the shape in which VPMADDWD wants them for the vertical pass. Output vectors are in its outer loop
// and rows in the inner one, so that a vector's tables stay in registers. That inner loop leaves before it steps behind
// the last row pair, and there is one at least: a pointer that has left the source, even if nothing reads by it, could
// make the garbage collector end the process.

const (
	splitBits  = 11                   // of a weight, in its low part
	splitHalf  = 1 << (splitBits - 1) // 1024
	tapsMax    = 4096                 // more taps go to the generic code: far beyond 1/20 of any photo, and sums stay in range
	vectorsMin = 4                    // of 16 bytes in a row of the ring: vertical kernels work on four at a time

	pairsBatchAVX512 = 16 // row pairs that the horizontal pass makes at a time
	pairsBatchAVX2   = 4
)

// simdState is the memory of the accelerated kernels.
type simdState struct {
	taps512   []tapPair512
	taps256   []tapPair256
	bases     []int32 // of each vector's window (AVX-512) or of each pixel (AVX2): bytes from the source row's begin
	vertical  []int32 // for each output row and pair of taps: two high words, two low words
	ring      []byte
	tail      []byte // copies of source rows that lie too close to the end of the buffer to be read with slack, or rows of a vertical pass that comes first
	line      []byte // one output row, and what vectors write behind it
	window128 bool   // AVX-512: windows take two registers
	plan      bandPlan
}

// A bandPlan is what the row loop needs to know about the shape of its data.
type bandPlan struct {
	vectors    int // of 16 bytes in an output row
	ringStride int // bytes between row pairs in the ring
	ringMask   int // number of row pairs in the ring, less 1
	reach      int // bytes behind the begin of a source row up to which kernels read
	batch      int // row pairs that are made at a time
	tapPairs   int // of the horizontal pass, for each vector (AVX-512) or two pixels (AVX2)
	rowPairs   int // of the vertical pass: entries of its table for each output row
	tailStride int // bytes between the rows of a vertical pass that comes first
	horizontal func(r *Resampler, p *bandPlan, dst, src unsafe.Pointer, stride, pairs int)
	vertical   func(r *Resampler, p *bandPlan, dst unsafe.Pointer, y, firstPair, pairs int)
}

// resizeSIMD does what resizeGeneric and resizeGenericVerticalFirst do, with the kernels of r.level; false if there are
// none for the case.
func (r *Resampler) resizeSIMD(dst Output, src []byte, stride int, verticalFirst bool) bool {
	h, v := &r.horizontal, &r.vertical
	if r.level < kernel.AVX2 || h.taps > tapsMax || v.taps > tapsMax {
		return false
	}
	p := &r.simd.plan // kept there because it is passed to functions by way of variables, and would escape
	*p = bandPlan{}
	p.vectors = max(vectorsMin, (3*h.n+15)/16)
	p.ringStride = 64*p.vectors + 64
	if r.level >= kernel.AVX512 && r.prepareAVX512(p) {
		p.horizontal, p.batch = horizontalAVX512, pairsBatchAVX512
	} else {
		r.prepareAVX2(p)
		p.horizontal, p.batch = horizontalAVX2, pairsBatchAVX2
	}
	p.vertical = verticalAVX2
	if r.level >= kernel.AVX512 {
		p.vertical = verticalAVX512
	}
	if verticalFirst {
		r.prepareAhead(p)
	} else {
		r.prepareVertical(p)
	}
	slots := 8
	for slots < p.rowPairs+p.batch {
		slots *= 2
	}
	p.ringMask = slots - 1
	r.simd.ring = grown(r.simd.ring, slots*p.ringStride)
	r.simd.line = grown(r.simd.line, 16*p.vectors)
	if verticalFirst {
		r.runAhead(dst, src, stride, p)
	} else {
		r.runBands(dst, src, stride, p)
	}
	archsimd.ClearAVXUpperBits()
	return true
}

// prepareVertical splits the vertical weights for the ring's row pairs. Pair 0 holds the rows v.first and v.first+1; a
// window that begins on an odd row has weight 0 on its first. Filters that clip get three pairs at least: with weight 0
// it does not matter what the ring holds there.
func (r *Resampler) prepareVertical(p *bandPlan) {
	v := &r.vertical
	pairs := v.taps/2 + 1
	if v.signed {
		pairs = max(pairs, 3)
	}
	p.rowPairs = pairs
	r.simd.vertical = grown(r.simd.vertical, 2*pairs*v.n)
	scale := v.lowScale()
	for y := range v.n {
		odd := (int(v.low[y]) - v.first) & 1
		count := int(v.count[y])
		row := r.simd.vertical[2*pairs*y:][:2*pairs]
		for i := range pairs {
			var k0, k1 int32
			if t := 2*i - odd; t >= 0 && t < count {
				k0 = v.weight[t*v.pitch+y]
			}
			if t := 2*i + 1 - odd; t < count {
				k1 = v.weight[t*v.pitch+y]
			}
			row[2*i], row[2*i+1] = splitWeights(k0, k1, scale)
		}
	}
}

// splitWeights splits the weights of two taps: their high parts as two words, and their low parts, shifted by scale.
func splitWeights(k0, k1 int32, scale uint) (high, low int32) {
	high0, high1 := (k0+splitHalf)>>splitBits, (k1+splitHalf)>>splitBits
	low0, low1 := (k0-high0<<splitBits)<<scale, (k1-high1<<splitBits)<<scale
	return high0&0xffff | high1<<16, low0&0xffff | low1<<16
}

// lowScale returns by how much the low part of a weight is shifted to make the result the sum's top byte.
func (a *axis) lowScale() uint {
	if a.signed {
		return 0
	}
	return 2
}

// runBands makes the output's rows one by one, and row pairs of the ring as they are needed.
func (r *Resampler) runBands(dst Output, src []byte, stride int, p *bandPlan) {
	v := &r.vertical
	rows := v.end - v.first
	done := 0
	for y := range v.n {
		top := int(v.low[y]) - v.first
		firstPair, endPair := top>>1, (top+int(v.count[y])+1)>>1
		for done < endPair {
			done += r.fillRing(src, stride, rows, done, p)
		}
		r.putRowSIMD(dst, y, firstPair, endPair-firstPair, p)
	}
}

// fillRing runs the horizontal pass for some row pairs from pair done on and returns how many. Rows whose vectors would
// read behind the source's end are copied to a buffer with slack first; so is the last one of an odd number, twice.
func (r *Resampler) fillRing(src []byte, stride, rows, done int, p *bandPlan) int {
	pairs := min(p.batch, (rows+1)/2-done, p.ringMask+1-done&p.ringMask)
	to := unsafe.Pointer(&r.simd.ring[(done&p.ringMask)*p.ringStride])
	safe := 0 // pairs of rows that have p.reach readable bytes
	if room := len(src) - p.reach; room >= 0 {
		safe = min(rows, room/stride+1)/2 - done
	}
	if safe > 0 {
		pairs = min(pairs, safe)
		p.horizontal(r, p, to, unsafe.Pointer(&src[2*done*stride]), stride, pairs)
		return pairs
	}
	rowBytes := 3 * (r.horizontal.end - r.horizontal.first)
	r.simd.tail = grown(r.simd.tail, 2*pairs*p.reach)
	for i := range 2 * pairs {
		y := min(2*done+i, rows-1)
		copy(r.simd.tail[i*p.reach:][:p.reach], src[y*stride:][:rowBytes])
	}
	p.horizontal(r, p, to, unsafe.Pointer(&r.simd.tail[0]), p.reach, pairs)
	return pairs
}

// putRowSIMD runs the vertical pass for row y. It writes 16·vectors bytes: into dst where the next rows will overwrite
// what is too much, and by way of a line elsewhere.
func (r *Resampler) putRowSIMD(dst Output, y, firstPair, pairs int, p *bandPlan) {
	rowBytes := 3 * dst.Width
	at := y * rowBytes
	if dst.Layout == NHWC && at+16*p.vectors <= rowBytes*dst.Height {
		p.vertical(r, p, unsafe.Pointer(&dst.Pix[at]), y, firstPair, pairs)
		return
	}
	p.vertical(r, p, unsafe.Pointer(&r.simd.line[0]), y, firstPair, pairs)
	r.putRow(dst, y, r.simd.line[:rowBytes])
}

// ringRow returns where row pair i begins in the ring.
func (r *Resampler) ringRow(p *bandPlan, i int) unsafe.Pointer {
	return unsafe.Pointer(&r.simd.ring[(i&p.ringMask)*p.ringStride])
}

// verticalWeights returns row y's table of split weights, two entries for each pair.
func (r *Resampler) verticalWeights(p *bandPlan, y int) []int32 {
	return r.simd.vertical[2*p.rowPairs*y:][:2*p.rowPairs]
}

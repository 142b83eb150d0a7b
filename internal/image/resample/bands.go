package resample

import "unsafe"

// How the kernels work.
//
// The horizontal pass takes two source rows at a time and stores their bytes as the two words of a pair, in a ring of
// row pairs. In this form the kernels multiply them in the vertical pass (see internal/lanes). Its outer loop is over
// output vectors and the inner one over rows, so that a vector's tables stay in registers. The inner loop exits before
// the step after the last row pair, and there is at least one. A pointer outside the source, even an unused one, could
// make the garbage collector end the process.
//
// A vertical pass that comes first is a resize of its own: its horizontal pass keeps the pixels.

const (
	tapsMax    = 4096 // the generic code does more taps, which reduce any photograph to less than 1/20; sums stay in range
	vectorsMin = 4    // 16-byte vectors in a row of the ring: vertical kernels work on four vectors of the processor at a time
)

// pixels01 and pixels23 move the RGB bytes of pixels 0 and 1, or 2 and 3, to pairs of words.
var (
	pixels01 = [16]uint8{0, 128, 3, 128, 1, 128, 4, 128, 2, 128, 5, 128, 128, 128, 128, 128}
	pixels23 = [16]uint8{6, 128, 9, 128, 7, 128, 10, 128, 8, 128, 11, 128, 128, 128, 128, 128}
)

// simdState is the memory of the accelerated kernels.
type simdState struct {
	taps     []int32 // taps of the horizontal pass, in its kernels' format
	bases    []int32 // offset of each window in the source row, in bytes
	vertical []int32 // two entries of kernels.split for each output row and pair of taps
	ring     []byte
	tail     []byte // copies of source rows without slack after them
	line     []byte // one output row, and room for whole vectors
	plan     bandPlan
}

// A bandPlan describes the shape of the data for the row loop and the kernels.
type bandPlan struct {
	*kernels
	vectors    int // 16-byte vectors in an output row
	ring       unsafe.Pointer
	ringStride int // bytes between row pairs in the ring
	ringMask   int // number of row pairs in the ring, less 1
	reach      int // bytes of a source row that kernels may read
	batch      int // row pairs per call
	bases      []int32
	taps       unsafe.Pointer
	tapPairs   int // pairs of taps in each window of the horizontal pass
	rowPairs   int // pairs of entries per output row in the vertical pass's table
	horizontal horizontalKernel
}

// resizeSIMD is resizeGeneric with the kernels of r.level. It returns false if the kernels do not support the case.
func (r *Resampler) resizeSIMD(dst Output, src []byte, stride int) bool {
	h, v := &r.horizontal, &r.vertical
	k := byLevel[r.level]
	if k == nil || h.taps > tapsMax || v.taps > tapsMax {
		return false
	}
	p := &r.simd.plan // a local variable would escape, because it is passed to function variables
	*p = bandPlan{kernels: k}
	p.vectors = max(vectorsMin, (3*h.n+15)/16)
	p.ringStride = 64*p.vectors + 64
	if h.copies {
		p.horizontal, p.batch, p.reach = k.pairRows, 4, 16*p.vectors+12
	} else {
		p.prepare(r, p)
	}
	r.prepareVertical(p)
	slots := 8
	for slots < p.rowPairs+p.batch {
		slots *= 2
	}
	p.ringMask = slots - 1
	r.simd.ring = grown(r.simd.ring, slots*p.ringStride)
	p.ring = unsafe.Pointer(&r.simd.ring[0])
	r.simd.line = grown(r.simd.line, 16*p.vectors)
	r.runBands(dst, src, stride, p)
	return true
}

// prepareVertical splits the vertical weights for the ring's row pairs. Pair 0 holds the rows v.first and v.first+1.
// The first row's weight is 0 if a window begins on an odd row.
func (r *Resampler) prepareVertical(p *bandPlan) {
	v := &r.vertical
	pairs := v.taps/2 + 1
	p.rowPairs = pairs
	r.simd.vertical = grown(r.simd.vertical, 2*pairs*v.n)
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
			row[2*i], row[2*i+1] = p.split(k0, k1, !v.signed)
		}
	}
}

// runBands makes the output's rows one by one, and row pairs of the ring when needed.
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
		pairs := endPair - firstPair
		// Kernels write 16·vectors bytes: to dst if later rows will overwrite the excess.
		to, at := unsafe.Pointer(&r.simd.line[0]), 3*dst.Width*y
		direct := dst.Layout == NHWC && at+16*p.vectors <= 3*dst.Width*dst.Height
		if direct {
			to = unsafe.Pointer(&dst.Pix[at])
		}
		p.vertical.choose(v.signed, pairs)(p, to, firstPair, r.simd.vertical[2*p.rowPairs*y:][:2*pairs])
		if !direct {
			r.putRow(dst, y, r.simd.line[:3*dst.Width])
		}
	}
}

// fillRing runs the horizontal pass for some row pairs from pair done on and returns their number. It first copies rows
// near the source's end to a buffer with slack, because vectors would read beyond them. It copies the last one of an
// odd number twice.
func (r *Resampler) fillRing(src []byte, stride, rows, done int, p *bandPlan) int {
	pairs := min(p.batch, (rows+1)/2-done, p.ringMask+1-done&p.ringMask)
	to := unsafe.Pointer(&r.simd.ring[(done&p.ringMask)*p.ringStride])
	safe := 0 // number of row pairs with p.reach readable bytes
	if room := len(src) - p.reach; room >= 0 {
		safe = min(rows, room/stride+1)/2 - done
	}
	if safe > 0 {
		pairs = min(pairs, safe)
		p.horizontal(p, to, unsafe.Pointer(&src[2*done*stride]), stride, pairs)
		return pairs
	}
	rowBytes := 3 * (r.horizontal.end - r.horizontal.first)
	r.simd.tail = grown(r.simd.tail, 2*pairs*p.reach)
	for i := range 2 * pairs {
		y := min(2*done+i, rows-1)
		copy(r.simd.tail[i*p.reach:][:p.reach], src[y*stride:][:rowBytes])
	}
	p.horizontal(p, to, unsafe.Pointer(&r.simd.tail[0]), p.reach, pairs)
	return pairs
}

// ringRow returns the address of row pair i in the ring.
func (p *bandPlan) ringRow(i int) unsafe.Pointer {
	return unsafe.Add(p.ring, (i&p.ringMask)*p.ringStride)
}

package resample

import "unsafe"

// How the kernels work.
//
// The horizontal pass takes two source rows at a time and stores their bytes as the two words of a pair, in a ring of row pairs. In this
// form the kernels multiply them in the vertical pass (see internal/lanes). Its outer loop is over output vectors and the inner one over
// rows, so that a vector's tables stay in registers. The inner loop exits before the step after the last row pair, and there is at least
// one. A pointer outside the source, even an unused one, could make the garbage collector end the process.

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
	tail     []byte // copies of source rows without slack after them, or rows of a vertical pass that comes first
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
	rowPairs   int // row pairs in each window of the vertical pass
	tailStride int // bytes between the rows of a vertical pass that comes first
	horizontal horizontalKernel
}

// resizeSIMD is resizeGeneric and resizeGenericVerticalFirst with the kernels of r.level. It returns false if the
// kernels do not support the case.
func (r *Resampler) resizeSIMD(dst Output, src []byte, stride int, verticalFirst bool) bool {
	h, v := &r.horizontal, &r.vertical
	k := byLevel[r.level]
	if k == nil || h.taps > tapsMax || v.taps > tapsMax {
		return false
	}
	p := &r.simd.plan // a local variable would escape, because it is passed to function variables
	*p = bandPlan{kernels: k}
	p.vectors = max(vectorsMin, (3*h.n+15)/16)
	p.ringStride = 64*p.vectors + 64
	p.prepare(r, p)
	if verticalFirst {
		r.prepareVerticalFirst(p)
	} else {
		r.prepareVertical(p)
	}
	slots := 8
	for slots < p.rowPairs+p.batch {
		slots *= 2
	}
	p.ringMask = slots - 1
	r.simd.ring = grown(r.simd.ring, slots*p.ringStride)
	p.ring = unsafe.Pointer(&r.simd.ring[0])
	r.simd.line = grown(r.simd.line, 16*p.vectors)
	if verticalFirst {
		r.runVerticalFirst(dst, src, stride, p)
	} else {
		r.runBands(dst, src, stride, p)
	}
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
		to, direct := r.rowTarget(dst, y, p)
		p.vertical.choose(v.signed, pairs)(p, to, firstPair, r.verticalWeights(p, y)[:2*pairs])
		r.finishRow(dst, y, direct)
	}
}

// fillRing runs the horizontal pass for some row pairs from pair done on and returns their number. It first copies rows near the source's
// end to a buffer with slack, because vectors would read beyond them. It copies the last one of an odd number twice.
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

// rowTarget returns the memory for output row y. Kernels write 16·vectors bytes: to dst if later rows will overwrite the
// excess, otherwise to a line, which finishRow copies.
func (r *Resampler) rowTarget(dst Output, y int, p *bandPlan) (to unsafe.Pointer, direct bool) {
	at, size := dst.stride()*y, 3*dst.Width*dst.Height
	if dst.Stride > 0 {
		size = len(dst.Pix)
	}
	if dst.Layout == NHWC && at+16*p.vectors <= size {
		return unsafe.Pointer(&dst.Pix[at]), true
	}
	return unsafe.Pointer(&r.simd.line[0]), false
}

func (r *Resampler) finishRow(dst Output, y int, direct bool) {
	if !direct {
		r.putRow(dst, y, r.simd.line[:3*dst.Width])
	}
}

func (p *bandPlan) ringRow(i int) unsafe.Pointer {
	return unsafe.Add(p.ring, (i&p.ringMask)*p.ringStride)
}

// verticalWeights returns row y's table of split weights, two entries for each pair.
func (r *Resampler) verticalWeights(p *bandPlan, y int) []int32 {
	return r.simd.vertical[2*p.rowPairs*y:][:2*p.rowPairs]
}

// The vertical pass before the horizontal one. It makes whole rows, of all columns that the horizontal pass will read, from the source's
// bytes: two rows are interleaved as pairs of words in registers. The rows of one batch go to the tail, which the horizontal pass then
// reads instead of the source. Its results in the ring are final, and only need to be extracted from the pairs.

// prepareVerticalFirst splits the vertical weights, two taps together from the first one on.
func (r *Resampler) prepareVerticalFirst(p *bandPlan) {
	v := &r.vertical
	pairs := (v.taps + 1) / 2
	p.rowPairs = pairs
	r.simd.vertical = grown(r.simd.vertical, 2*pairs*v.n)
	for y := range v.n {
		row := r.verticalWeights(p, y)
		for i := range pairs {
			// Taps after the output's window are zero, and so is the one after the table's last.
			k0, k1 := v.weight[2*i*v.pitch+y], int32(0)
			if 2*i+1 < v.taps {
				k1 = v.weight[(2*i+1)*v.pitch+y]
			}
			row[2*i], row[2*i+1] = p.split(k0, k1, !v.signed)
		}
	}
	p.tailStride = (max(p.reach, 3*(r.horizontal.end-r.horizontal.first)) + 63) &^ 63
	r.simd.tail = grown(r.simd.tail, 2*p.batch*p.tailStride)
}

// runVerticalFirst makes the output's rows a batch at a time: the vertical pass to the tail, and the horizontal one to the ring.
func (r *Resampler) runVerticalFirst(dst Output, src []byte, stride int, p *bandPlan) {
	rowBytes := 3 * (r.horizontal.end - r.horizontal.first)
	for y := 0; y < dst.Height; y += 2 * p.batch {
		rows := min(2*p.batch, dst.Height-y)
		for i := range rows {
			r.verticalFirstRow(r.simd.tail[i*p.tailStride:][:rowBytes], src, stride, y+i, p)
		}
		// The second row of a last pair is arbitrary.
		p.horizontal(p, p.ring, unsafe.Pointer(&r.simd.tail[0]), p.tailStride, (rows+1)/2)
		for i := range rows {
			to, direct := r.rowTarget(dst, y+i, p)
			p.take(p, to, i/2, i&1)
			r.finishRow(dst, y+i, direct)
		}
	}
}

// verticalFirstRow makes row y of the vertical pass from source rows that begin at the first needed column.
func (r *Resampler) verticalFirstRow(dst, src []byte, stride, y int, p *bandPlan) {
	v := &r.vertical
	k := p.forRow(len(dst))
	if k == nil {
		r.scratch.sums = grown(r.scratch.sums, len(dst))
		verticalGeneric(dst, src, stride, v, y, r.scratch.sums)
		return
	}
	count := int(v.count[y])
	weights := r.verticalWeights(p, y)[:(count+1)&^1]
	last := stride
	if count&1 == 1 {
		last = 0 // an odd number of taps: the last row is read twice, the second time with weight 0
	}
	rows := src[(int(v.low[y])-v.first)*stride:][:(count-1)*stride+len(dst)]
	kernel := k.verticalFirst[0]
	if !v.signed {
		kernel = k.verticalFirst[1]
		if len(weights) == 4 {
			kernel = k.verticalFirst[2]
		}
	}
	kernel(unsafe.Pointer(&dst[0]), unsafe.Pointer(&rows[0]), stride, len(dst), weights, last)
}

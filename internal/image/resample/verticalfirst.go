package resample

import "unsafe"

// The vertical pass before the horizontal one. It makes whole rows, of all columns that the horizontal pass will read,
// straight from the source's bytes: two rows are interleaved as pairs of words in registers. The rows of one batch are made
// into the tail, which the horizontal pass then takes in place of the source. What it leaves in the ring is finished, and has
// but to be taken out of the pairs.

// prepareVerticalFirst splits the vertical weights, two taps together from the first one on.
func (r *Resampler) prepareVerticalFirst(p *bandPlan) {
	v := &r.vertical
	pairs := (v.taps + 1) / 2
	p.rowPairs = pairs
	r.simd.vertical = grown(r.simd.vertical, 2*pairs*v.n)
	for y := range v.n {
		row := r.verticalWeights(p, y)
		for i := range pairs {
			// Taps after the output's own are zero, and so is the one after the table's last.
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

// runVerticalFirst makes the output's rows a batch at a time: the vertical pass to the tail, and the horizontal one to the
// ring.
func (r *Resampler) runVerticalFirst(dst Output, src []byte, stride int, p *bandPlan) {
	rowBytes := 3 * (r.horizontal.end - r.horizontal.first)
	for y := 0; y < dst.Height; y += 2 * p.batch {
		rows := min(2*p.batch, dst.Height-y)
		for i := range rows {
			r.verticalFirstRow(r.simd.tail[i*p.tailStride:][:rowBytes], src, stride, y+i, p)
		}
		// The second row of a last pair may be anything.
		p.horizontal(p, p.ring, unsafe.Pointer(&r.simd.tail[0]), p.tailStride, (rows+1)/2)
		for i := range rows {
			to, direct := r.rowPlace(dst, y+i, p)
			p.take(p, to, i/2, i&1)
			r.putPlaced(dst, y+i, direct)
		}
	}
}

// verticalFirstRow makes row y of the vertical pass from source rows that begin at the first column that is needed.
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
		last = 0 // a last tap without a second one: its row is read twice, the second time with weight 0
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

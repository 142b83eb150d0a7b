//go:build goexperiment.simd && amd64

package resample

import (
	"unsafe"

	"github.com/imgfeed/imgfeed/transform/kernel"
)

// The vertical pass ahead of the horizontal one. It makes whole rows, of all columns that the horizontal pass will read,
// straight from the source's bytes: two rows are interleaved as pairs of words in registers, for VPMADDWD. The rows of one
// batch are made into the tail, which the horizontal pass then takes in place of the source. What comes behind is as it is
// in the other order, with a table of weights 1 for the vertical pass that is done already.

const (
	aheadBytesAVX512 = 64 // of a row, that a step takes; narrower rows go to the next kernel
	aheadBytesAVX2   = 32
)

// prepareAhead splits the vertical weights, two taps together from the first one on: a high and a low entry for each two.
// It leaves the ring's vertical pass nothing to do.
func (r *Resampler) prepareAhead(p *bandPlan) {
	v := &r.vertical
	pairs := (v.taps + 1) / 2
	p.aheadPairs = pairs
	r.simd.ahead = grown(r.simd.ahead, 2*pairs*v.n)
	scale := v.lowScale()
	for y := range v.n {
		row := r.simd.ahead[2*pairs*y:][:2*pairs]
		for i := range pairs {
			// Taps behind the output's own are zero, and so is the one behind the table's last.
			k0, k1 := v.weight[2*i*v.pitch+y], int32(0)
			if 2*i+1 < v.taps {
				k1 = v.weight[(2*i+1)*v.pitch+y]
			}
			row[2*i], row[2*i+1] = splitWeights(k0, k1, scale)
		}
	}
	r.done.compute(axisSpec{in: v.n, out: v.n, n: v.n}, r.level)
	p.final = &r.done
	p.tailStride = (max(p.reach, 3*(r.horizontal.end-r.horizontal.first)) + 63) &^ 63
}

// fillTail makes the rows from .. from+n-1 of the vertical pass; behind the last row, that one again.
func (r *Resampler) fillTail(src []byte, stride, from, n int, p *bandPlan) {
	rowBytes := 3 * (r.horizontal.end - r.horizontal.first)
	r.simd.tail = grown(r.simd.tail, n*p.tailStride)
	for i := range n {
		y := min(from+i, r.vertical.n-1)
		r.aheadRow(r.simd.tail[i*p.tailStride:][:rowBytes], src, stride, y, p)
	}
}

// aheadRow makes row y of the vertical pass from source rows that begin at the first column that is needed.
func (r *Resampler) aheadRow(dst, src []byte, stride, y int, p *bandPlan) {
	v := &r.vertical
	if len(dst) < aheadBytesAVX2 {
		r.scratch.sums = grown(r.scratch.sums, len(dst))
		verticalGeneric(dst, src, stride, v, y, r.scratch.sums)
		return
	}
	count := int(v.count[y])
	k := r.simd.ahead[2*p.aheadPairs*y:][:(count+1)&^1]
	oddAt := -1 // where in k stands a last tap without a second one: its row is read twice, the second time with weight 0
	if count&1 == 1 {
		oddAt = len(k) - 2
	}
	rows := src[(int(v.low[y])-v.first)*stride:][:(count-1)*stride+len(dst)]
	if r.level >= kernel.AVX512 && len(dst) >= aheadBytesAVX512 {
		aheadAVX512(unsafe.Pointer(&dst[0]), unsafe.Pointer(&rows[0]), stride, len(dst), k, oddAt, v.signed)
		return
	}
	aheadAVX2(unsafe.Pointer(&dst[0]), unsafe.Pointer(&rows[0]), stride, len(dst), k, oddAt, v.signed)
}

//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package resample

import (
	"unsafe"

	"github.com/imgfeed/imgfeed/internal/kernel"
)

// The vertical pass ahead of the horizontal one. It makes whole rows, of all columns that the horizontal pass will read,
// straight from the source's bytes: two rows are interleaved as pairs of words in registers, for VPMADDWD. The rows of one
// batch are made into the tail, which the horizontal pass then takes in place of the source. What it leaves in the ring is
// finished, and has but to be taken out of the pairs.

const (
	aheadBytesAVX512 = 64 // of a row, that a step takes; narrower rows go to the next kernel
	aheadBytesAVX2   = 32
)

// prepareAhead splits the vertical weights, two taps together from the first one on: a high and a low entry for each two.
func (r *Resampler) prepareAhead(p *bandPlan) {
	v := &r.vertical
	pairs := (v.taps + 1) / 2
	p.rowPairs = pairs
	r.simd.vertical = grown(r.simd.vertical, 2*pairs*v.n)
	scale := v.lowScale()
	for y := range v.n {
		row := r.verticalWeights(p, y)
		for i := range pairs {
			// Taps behind the output's own are zero, and so is the one behind the table's last.
			k0, k1 := v.weight[2*i*v.pitch+y], int32(0)
			if 2*i+1 < v.taps {
				k1 = v.weight[(2*i+1)*v.pitch+y]
			}
			row[2*i], row[2*i+1] = splitWeights(k0, k1, scale)
		}
	}
	p.vertical = takeAVX2
	if r.level >= kernel.AVX512 {
		p.vertical = takeAVX512
	}
	p.tailStride = (max(p.reach, 3*(r.horizontal.end-r.horizontal.first)) + 63) &^ 63
	r.simd.tail = grown(r.simd.tail, 2*p.batch*p.tailStride)
}

// runAhead makes the output's rows a batch at a time: the vertical pass to the tail, and the horizontal one to the ring.
func (r *Resampler) runAhead(dst Output, src []byte, stride int, p *bandPlan) {
	rowBytes := 3 * (r.horizontal.end - r.horizontal.first)
	tail, ring := unsafe.Pointer(&r.simd.tail[0]), unsafe.Pointer(&r.simd.ring[0])
	for y := 0; y < dst.Height; y += 2 * p.batch {
		rows := min(2*p.batch, dst.Height-y)
		for i := range rows {
			r.aheadRow(r.simd.tail[i*p.tailStride:][:rowBytes], src, stride, y+i, p)
		}
		// The second row of a last pair may be anything.
		p.horizontal(r, p, ring, tail, p.tailStride, (rows+1)/2)
		for i := range rows {
			r.putRowSIMD(dst, y+i, i/2, 1, p)
		}
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
	k := r.verticalWeights(p, y)[:(count+1)&^1]
	oddAt, last := -1, stride // a last tap without a second one: its row is read twice, the second time with weight 0
	if count&1 == 1 {
		oddAt, last = len(k)-2, 0
	}
	rows := src[(int(v.low[y])-v.first)*stride:][:(count-1)*stride+len(dst)]
	to, from := unsafe.Pointer(&dst[0]), unsafe.Pointer(&rows[0])
	two := len(k) == 4 && !v.signed
	switch wide := r.level >= kernel.AVX512 && len(dst) >= aheadBytesAVX512; {
	case wide && two:
		ahead2AVX512(to, from, stride, len(dst), (*[4]int32)(k), last)
	case wide:
		aheadAVX512(to, from, stride, len(dst), k, oddAt, v.signed)
	case two:
		ahead2AVX2(to, from, stride, len(dst), (*[4]int32)(k), last)
	default:
		aheadAVX2(to, from, stride, len(dst), k, oddAt, v.signed)
	}
}

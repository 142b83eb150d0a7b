package plan

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"iter"
	"math/bits"
)

// Alternatives gives the samples that may replace one that cannot be read, in the order to try them. They are the samples
// that the plan chooses from and can draw, in the sample's own partition. That partition is within reach wherever the sample is
// served, so they are the same on any rank of any world. The caller takes those of the right class.
//
// They follow the order of the list, or of the set, from a position drawn for the sample, and wrap around. The position is the high word of
// x · M for M samples to choose from.
//
//	x = mix(mix(key + index·γ) + repetition·γ)
//
// Here mix and γ are SplitMix64's. The key is the first 8 bytes, big-endian, of SHA-256("imgfeed substitutes v1\0" fingerprint "\0"
// seed "\0" epoch), the numbers in decimal.
func (p *Plan) Alternatives(index, repetition int) iter.Seq[int] {
	c := &p.cfg
	sum := sha256.Sum256(fmt.Appendf(nil, "imgfeed substitutes v1\x00%s\x00%d\x00%d", c.Fingerprint, c.Seed, c.Epoch))
	x := mix64(mix64(binary.BigEndian.Uint64(sum[:])+uint64(index)*goldenGamma) + uint64(repetition)*goldenGamma)
	n := c.Samples
	if c.Selection != nil {
		n = c.Selection.choices()
	}
	high, _ := bits.Mul64(x, uint64(n))
	first := int(high)
	return func(yield func(int) bool) {
		for k := range n {
			candidate, position := 0, (first+k)%n
			if c.Selection == nil {
				candidate = position
			} else if candidate = c.Selection.candidate(position); !c.Selection.drawn(position) {
				continue
			}
			if candidate != index && candidate%c.Partitions == index%c.Partitions && !yield(candidate) {
				return
			}
		}
	}
}

// choices returns how many samples there are to choose from, an index that the list has twice counted twice.
func (s *Selection) choices() int {
	if s.list == nil {
		return s.samples
	}
	return len(s.list)
}

// drawn reports whether the sample at a position of the list has a weight above 0, if there are weights.
func (s *Selection) drawn(position int) bool {
	return s.alias == nil || s.alias.threshold[position] > 0 || int(s.alias.alias[position]) == position
}

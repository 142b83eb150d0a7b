package plan

import (
	"cmp"
	"math"
	"slices"
)

// A mixture says how many positions of an epoch joined sets get, by weight: sets of n₀, n₁, … samples, one after the other.
//
// An epoch of P positions has P·w/Σw samples of a set with weight w. The numbers are rounded so that they add up to P: those with the
// largest remainders are rounded up, the first of equals first.
//
// The samples are in a keyed permutation of all positions (see [permutation]) with the number of sets as its partition. Its first
// values stand for the first set's samples, the next for the second's, and so on. Sample k of a set's share is the one at position k mod
// n of the set's own keyed permutation, with the set's number as partition; its repetition is k div n.
type mixture struct {
	lengths []int // number of samples in each set
	counts  []int // positions of each in an epoch
}

// newMixture returns the mixture of an epoch.
func newMixture(lengths []int, weights []float64, positions int) (*mixture, error) {
	if len(weights) != len(lengths) {
		return nil, configError("%d weights for %d joined sets", len(weights), len(lengths))
	}
	sum := 0.0
	for i, w := range weights {
		if !(w >= 0) || math.IsInf(w, 1) {
			return nil, configError("the weight of set %d is %v, want a finite number, 0 or more", i, w)
		}
		if w > 0 && lengths[i] == 0 {
			return nil, configError("set %d has a weight and no samples", i)
		}
		sum += w
	}
	if sum == 0 || math.IsInf(sum, 1) {
		return nil, configError("the weights of the sets add up to %v", sum)
	}
	if positions < 1 {
		return nil, configError("a mixture needs the number of its samples in an epoch")
	}
	m := &mixture{lengths: lengths, counts: make([]int, len(lengths))}
	order, rests, left := make([]int, len(lengths)), make([]float64, len(lengths)), positions
	for i, w := range weights {
		share := float64(float64(w/sum) * float64(positions))
		m.counts[i] = min(int(share), left)
		order[i], rests[i] = i, float64(share-float64(m.counts[i]))
		left -= m.counts[i]
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rests[b], rests[a]) })
	for ; left > 0; left-- {
		m.counts[order[0]]++
		order = append(order[1:], order[0])
	}
	return m, nil
}

// pickMixed returns the sample at position q of an epoch of joined sets, and which repetition of it that is.
func (p *Plan) pickMixed(m *mixture, q int) (index, repetition int) {
	k, start := p.order.at(q), 0
	for i, count := range m.counts {
		n := m.lengths[i]
		if k < count {
			return start + p.perms[i].at(k%n), k / n
		}
		k -= count
		start += n
	}
	panic("plan: a position outside of its mixture")
}

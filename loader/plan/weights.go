package plan

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// An aliasTable draws from n columns in proportion to weights, in constant time (Walker 1977, as built by Vose 1991). It chooses a
// column evenly. The column stands for itself with its own probability, else for its alias.
//
// The draw for b takes two outputs of SplitMix64: x = mix(key₀ + (2b+1)·γ) and y = mix(key₁ + (2b+2)·γ). The column is the high word
// of x · n; it stands for itself if y is below its threshold. The keys are the first 16 bytes of
// SHA-256("imgfeed weights v1\0" fingerprint "\0" seed "\0" epoch), the numbers in decimal, as big-endian words.
type aliasTable struct {
	threshold []uint64 // the probability of a column for itself, in units of 2^-64
	alias     []uint32
}

// drawKeys key the draws of an epoch.
type drawKeys [2]uint64

func newDrawKeys(fingerprint string, seed int64, epoch int) drawKeys {
	sum := sha256.Sum256(fmt.Appendf(nil, "imgfeed weights v1\x00%s\x00%d\x00%d", fingerprint, seed, epoch))
	return drawKeys{binary.BigEndian.Uint64(sum[:]), binary.BigEndian.Uint64(sum[8:])}
}

// newAliasTable takes the weights of the columns. Every product and quotient is rounded separately, so the table is the same on every
// platform.
func newAliasTable(weights []float64) (*aliasTable, error) {
	largest, heaviest := 0.0, 0
	for i, w := range weights {
		if !(w >= 0) || math.IsInf(w, 1) {
			return nil, configError("weight %d is %v, want a finite number, 0 or more", i, w)
		}
		if w > largest {
			largest, heaviest = w, i
		}
	}
	if largest == 0 {
		return nil, configError("all weights are 0: nothing could be drawn")
	}
	n, sum := len(weights), 0.0
	shares := make([]float64, n) // multiples of the mean: 1 fills a column
	for i, w := range weights {
		shares[i] = w / largest // so that no sum overflows
		sum += shares[i]
	}
	mean := sum / float64(n)
	// Two stacks that grow towards each other: those that don't fill a column, waiting[:low], and the others, waiting[high:].
	waiting, low, high := make([]uint32, n), 0, n
	for i := range shares {
		shares[i] /= mean
		if shares[i] < 1 {
			waiting[low] = uint32(i)
			low++
		} else {
			high--
			waiting[high] = uint32(i)
		}
	}
	t := &aliasTable{threshold: make([]uint64, n), alias: make([]uint32, n)}
	for low > 0 && high < n {
		l, h := waiting[low-1], waiting[high]
		low--
		t.threshold[l], t.alias[l] = uint64(float64(shares[l]*0x1p64)), h
		if shares[h] -= 1 - shares[l]; shares[h] < 1 {
			high++
			waiting[low] = h
			low++
		}
	}
	// Remaining columns are full up to rounding; columns of weight 0 stay empty.
	for _, rest := range [][]uint32{waiting[:low], waiting[high:]} {
		for _, i := range rest {
			t.alias[i] = i
			if weights[i] == 0 {
				t.alias[i] = uint32(heaviest)
			}
		}
	}
	return t, nil
}

// draw returns the column drawn for b.
func (t *aliasTable) draw(keys drawKeys, b int) int {
	x := mix64(keys[0] + (2*uint64(b)+1)*goldenGamma)
	y := mix64(keys[1] + (2*uint64(b)+2)*goldenGamma)
	column, _ := bits.Mul64(x, uint64(len(t.threshold)))
	if y < t.threshold[column] {
		return int(column)
	}
	return int(t.alias[column])
}

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

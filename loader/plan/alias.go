package plan

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
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

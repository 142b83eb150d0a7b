package transform

import (
	"math"
	"math/bits"
	"math/rand/v2"
)

// RNG is the source of one sample's random parameters: PCG-DXSM (math/rand/v2) seeded from (seed, epoch, index, repetition, view).
// The same numbers give the same draws on every platform, in every process.
//
// The generator's two seeds are key = mix(mix(mix(s) + epoch·γ) + index·γ) for s = seed and s = seed + γ, where mix is the
// finaliser of SplitMix64 and γ = 0x9E3779B97F4A7C15. For a repetition other than 0 it is mix(key + repetition·γ), and for a view other
// than 0 mix(that + 2^63 + view·γ). A real number in [0, 1) is the upper 53 bits of an output; an integer below n is the high word
// of output · n. Operations draw in their order in the list, each as docs/transforms.md says.
type RNG struct {
	pcg rand.PCG
}

const goldenGamma = 0x9E3779B97F4A7C15

// NewRNG returns the source for sample index in an epoch.
func NewRNG(seed int64, epoch, index int) RNG { return NewViewRNG(seed, epoch, index, 0, 0) }

// NewViewRNG returns the source for one view of a sample that may come several times in an epoch. repetition and view, 0 or
// more, tell these apart; those of 0 and 0 are [NewRNG].
func NewViewRNG(seed int64, epoch, index, repetition, view int) RNG {
	var d RNG
	d.pcg.Seed(mixKey(uint64(seed), epoch, index, repetition, view), mixKey(uint64(seed)+goldenGamma, epoch, index, repetition, view))
	return d
}

func mixKey(seed uint64, epoch, index, repetition, view int) uint64 {
	z := mix64(seed)
	z = mix64(z + uint64(epoch)*goldenGamma)
	z = mix64(z + uint64(index)*goldenGamma)
	if repetition != 0 {
		z = mix64(z + uint64(repetition)*goldenGamma)
	}
	if view != 0 {
		z = mix64(z + 1<<63 + uint64(view)*goldenGamma)
	}
	return z
}

func mix64(z uint64) uint64 {
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

// unit returns a real number in [0, 1), a multiple of 2^-53.
func (d *RNG) unit() float64 { return float64(d.pcg.Uint64()>>11) * 0x1p-53 }

// uniform returns a real number in [low, high).
func (d *RNG) uniform(low, high float64) float64 {
	return low + float64(d.unit()*(high-low))
}

// below returns an integer in [0, n), n ≥ 1. Its bias is at most n · 2^-64.
func (d *RNG) below(n int) int {
	high, _ := bits.Mul64(d.pcg.Uint64(), uint64(n))
	return int(high)
}

// shuffle puts list in a random order, every order as likely: from its end on, each element changes places with one that is not
// behind it.
func (d *RNG) shuffle(list []int) {
	for i := len(list) - 1; i > 0; i-- {
		j := d.below(i + 1)
		list[i], list[j] = list[j], list[i]
	}
}

// weighted returns an index of weights, each as likely as its weight says. One at least is above 0.
func (d *RNG) weighted(weights []float64) int {
	sum := 0.0
	for _, w := range weights {
		sum += w
	}
	at, chosen := float64(d.unit()*sum), 0
	for i, w := range weights {
		if w > 0 {
			if chosen = i; at < w {
				break
			}
		}
		at -= w
	}
	return chosen
}

// roundToInt is Python's int(round(x)): half to even.
func roundToInt(x float64) int { return int(math.RoundToEven(x)) }

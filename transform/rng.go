package transform

import (
	"math"
	"math/bits"
	"math/rand/v2"

	"github.com/imgfeed/imgfeed/internal/libm"
)

// RNG is the source of one sample's random parameters: PCG-DXSM (math/rand/v2) seeded from (seed, epoch, index,
// repetition, view). The same numbers give the same draws on every platform, in every process.
//
// docs/transforms.md has the keys, the numbers made of its outputs, and the draws of each operation in their order.
type RNG struct {
	pcg rand.PCG
}

const goldenGamma = 0x9E3779B97F4A7C15

// NewRNG returns the source for sample index in an epoch.
func NewRNG(seed int64, epoch, index int) RNG { return NewViewRNG(seed, epoch, index, 0, 0) }

// NewViewRNG returns the source for one view of a sample that may come several times in an epoch. repetition and view
// are 0 or more; with 0 and 0 it is [NewRNG].
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

// shuffle puts list in a random order, all orders equally likely: from the end, each element is swapped with itself or an earlier one.
func (d *RNG) shuffle(list []int) {
	for i := len(list) - 1; i > 0; i-- {
		j := d.below(i + 1)
		list[i], list[j] = list[j], list[i]
	}
}

// weighted returns an index of weights with a probability proportional to its weight. At least one weight is above 0.
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

// Non-uniform distributions, made from uniform draws by additions, products and roots, which every platform rounds alike.

// normal returns a number of the normal distribution with mean 0 and deviation 1: Marsaglia's polar method without its second number.
func (d *RNG) normal() float64 {
	for {
		x, y := d.uniform(-1, 1), d.uniform(-1, 1)
		if s := float64(x*x) + float64(y*y); 0 < s && s < 1 {
			return float64(x * math.Sqrt(float64(-2*libm.Log(s))/s))
		}
	}
}

// gamma returns a number of the gamma distribution of shape alpha > 0 and scale 1: Marsaglia and Tsang, "A simple method for generating
// gamma variables" (2000). For a shape below 1 it multiplies a draw of shape alpha + 1 by a power of a uniform number.
func (d *RNG) gamma(alpha float64) float64 {
	boost := 1.0
	if alpha < 1 {
		boost = libm.Exp(max(libm.Log(1-d.unit())/alpha, -690))
		alpha++
	}
	a := alpha - 1./3
	b := 1 / math.Sqrt(9*a)
	for {
		x := d.normal()
		v := 1 + float64(b*x)
		if v <= 0 {
			continue
		}
		v = float64(float64(v*v) * v)
		if libm.Log(1-d.unit()) < float64(float64(x*x)/2)+float64(a*(1-v+libm.Log(v))) {
			return float64(float64(a*v) * boost)
		}
	}
}

// dirichlet fills weights from the symmetric Dirichlet distribution with parameter alpha; their sum is 1.
func (d *RNG) dirichlet(alpha float64, weights []float32) {
	var drawn [mixWidthMax]float64
	sum := 0.0
	for i := range weights {
		drawn[i] = d.gamma(alpha)
		sum += drawn[i]
	}
	for i := range weights {
		weights[i] = float32(drawn[i] / sum)
	}
}

package resample

import (
	"math"
	"slices"
)

// computeSIMD does what computeGeneric does; false if there is no kernel for the filter. The trigonometric filters have
// none: their time goes into sines.
func (a *axis) computeSIMD(s axisSpec, k *kernels) bool {
	if k == nil || s.filter == Hamming || s.filter == Lanczos {
		return false
	}
	g := s.geometry()
	taps := min(int(math.Ceil(2*g.support))+1, s.in) // no window is longer, even with a rounding error at each end
	taps = (taps + 1) &^ 1
	a.reserve(s.n, taps)
	a.columns = grown(a.columns, 8*taps)
	a.constants.set(s, g, k.doubles)
	k.weights(a, s.filter, taps)
	a.taps = int(slices.Max(a.count[:a.n]))
	return true
}

// Constants of the kernels, as many as a vector can hold.
var (
	halves, minusHalves      = repeat(0.5), repeat(-0.5)
	threeHalves, fiveHalves  = repeat(1.5), repeat(2.5)
	ones, twos, fours, fives = repeat(1), repeat(2), repeat(4), repeat(5)
	eights, weightOnes       = repeat(8), repeat(weightOne)
)

func repeat(x float64) (v [8]float64) {
	for i := range v {
		v[i] = x
	}
	return v
}

// computeConstants are what a table's weights depend on, eight times each.
type computeConstants struct {
	scale, support, inverse [8]float64
	edge                    [8]float64 // the length of the input
	first                   [8]float64 // the positions of the first outputs
	step                    [8]float64 // from them to those of the next vector
}

func (c *computeConstants) set(s axisSpec, g geometry, vector int) {
	first, step := float64(s.from), 1.0
	if s.reverse {
		first, step = float64(s.from+s.n-1), -1
	}
	for i := range c.first {
		c.scale[i], c.support[i], c.inverse[i], c.edge[i] = g.scale, g.support, g.inverse, float64(s.in)
		c.first[i], c.step[i] = first+step*float64(i), step*float64(vector)
	}
}

package resample

import (
	"math"

	"github.com/imgfeed/imgfeed/internal/libm"
)

// torch's resize of uint8 tensors without antialiasing (UpSampleKernel.cpp of ATen).

// plainCenter returns the input before the centre of output position o, and the centre's distance from that.
func (g geometry) plainCenter(o int) (before int, distance float64) {
	center := g.center(o) - 0.5
	if g.support == 1 { // linear
		center = math.Max(center, 0)
	}
	before = min(int(math.Floor(center)), g.in-1)
	return before, min(max(center-float64(before), 0), 1)
}

// plainWeights sets the weights of output o's window. Those of inputs before the first one add to its own, and those of inputs
// after the last one to that of the last.
func (s axisSpec) plainWeights(weights []float64, g geometry, o int) {
	clear(weights)
	before, distance := g.plainCenter(o)
	reach := int(g.support)
	low := max(before-reach+1, 0)
	for tap := 1 - reach; tap <= reach; tap++ {
		at := min(max(before+tap-low, 0), len(weights)-1)
		weights[at] += s.filter.weight(float64(tap) - distance)
	}
}

// tensorNearest returns the source position of an output of torch's nearest and nearest-exact, which count in float32.
func tensorNearest(in, out, o int, f Filter) int {
	scale := float32(in) / float32(out)
	at := float32(o) * scale
	if f == NearestExact {
		at = max(libm.FMA32(float32(o)+0.5, scale, -0.5), 0) + 0.5
	}
	return min(int(at), in-1)
}

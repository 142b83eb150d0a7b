package resample

import (
	"math"
	"slices"

	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/libm"
)

// Pillow's fixed point: 32 bits minus 8 for the pixel and 2 for sums outside the range of a byte.
const (
	weightBits = 32 - 8 - 2
	weightOne  = 1 << weightBits
	weightHalf = 1 << (weightBits - 1)
)

// tableSlack is the number of entries after the last output of a table, because kernels read beyond its end. A row has
// at least four vectors of 16 bytes, or 22 pixels, and a table is read 16 entries at a time.
const tableSlack = 40

// axisSpec names one direction's table: outputs from .. from+n-1 of a resize from in to out pixels.
type axisSpec struct {
	in, out, from, n int
	filter           Filter
	reverse          bool // list the outputs from the last to the first: flips cost nothing
	mirrored         bool // the input is the mirror image of the one that is resized
}

// An axis is one direction's table of weights. Output i is made from inputs low[i] .. low[i]+count[i]-1 with the weights
// weight[t*pitch+i], t = 0 .. count[i]-1; the remaining taps of the table are zero.
type axis struct {
	n       int
	taps    int // largest number of taps of an output
	first   int // the first input with a weight; low counts from the image's edge, not from here
	end     int // the input after the last one with a weight
	pitch   int // entries between the taps of an output in weight: n and slack
	signed  bool
	low     []int32
	count   []int32
	weight  []int32
	columns []float64 // weights before normalisation

	constants computeConstants // constants for the accelerated kernels
}

// reserve sets the table's shape for at most taps weights an output, with its memory.
func (a *axis) reserve(n, taps int) {
	a.n, a.pitch = n, (n+tableSlack+7)&^7
	a.low = grown(a.low, a.pitch)
	a.count = grown(a.count, a.pitch)
	a.weight = grown(a.weight, a.pitch*(taps+1))
}

// compute fills the table with Pillow's weights: precompute_coeffs and normalize_coeffs_8bpc of libImaging/Resample.c. Those of tensors are
// the same before they are rounded. An axis that keeps its size gets weight 1 on each pixel itself, which equals skipping the pass.
func (a *axis) compute(s axisSpec, level kernel.Level, tensor bool) {
	a.signed = s.filter == Bicubic || s.filter == Lanczos || s.filter == PlainBicubic
	switch bits := weightBits; {
	case s.in == s.out:
		a.computeIdentity(s)
	default:
		if tensor {
			bits = a.tensorBits(s, level)
		}
		a.computeWeights(s, level, bits)
	}
	a.first, a.end = s.span()
	if s.mirrored {
		a.mirror(s.in)
	}
	last := a.low[a.n-1]
	for i := a.n; i < a.pitch; i++ {
		a.low[i], a.count[i] = last, 0
	}
}

// mirror makes the weights of an input those of its mirror image.
func (a *axis) mirror(in int) {
	a.first, a.end = in-a.end, in-a.first
	for i := range a.n {
		count := int(a.count[i])
		a.low[i] = int32(in - int(a.low[i]) - count)
		for t := range count / 2 {
			one, other := &a.weight[t*a.pitch+i], &a.weight[(count-1-t)*a.pitch+i]
			*one, *other = *other, *one
		}
	}
}

func (a *axis) computeIdentity(s axisSpec) {
	a.reserve(s.n, 1)
	a.taps, a.signed = 1, false
	for i := range s.n {
		a.low[i], a.count[i], a.weight[i] = int32(s.output(i)), 1, weightOne
	}
	clear(a.weight[a.n : 2*a.pitch])
}

// output returns the position in the result of entry i of the table.
func (s axisSpec) output(i int) int {
	if s.reverse {
		return s.from + s.n - 1 - i
	}
	return s.from + i
}

// computeWeights fills the table with weights of a number of fractional bits. If they are fewer than weightBits, zeros follow.
func (a *axis) computeWeights(s axisSpec, level kernel.Level, bits int) {
	a.constants.fixed(bits)
	if !a.computeSIMD(s, byLevel[level]) {
		a.computeGeneric(s, bits)
	}
}

// tensorBits returns the number of fractional bits of torch's weights (compute_index_ranges_int16_weights of ATen's UpSampleKernel.cpp): as
// many as keep the largest weight of all outputs within 16 bits, up to 22. The outputs' first half stands for the second, which mirrors it.
func (a *axis) tensorBits(s axisSpec, level kernel.Level) int {
	const fineBits = 30  // finer than any weight of torch's
	const part = 1 << 12 // outputs at a time, to need little memory
	largest := int32(0)
	s.from, s.reverse = 0, false
	for half := (s.out + 1) / 2; s.from < half; s.from += s.n {
		s.n = min(half-s.from, part)
		a.computeWeights(s, level, fineBits)
		for t := range a.taps {
			largest = max(largest, slices.Max(a.weight[t*a.pitch:][:s.n]))
		}
	}
	for bits := range weightBits {
		if int(0.5+math.Ldexp(float64(largest), bits+1-fineBits)) >= 1<<15 {
			return bits
		}
	}
	return weightBits
}

// computeGeneric is the reference. The order of the floating-point operations is Pillow's. float64() around a product
// prevents the compiler from fusing it with the following addition (arm64, and amd64 with GOAMD64=v3): a fused
// operation rounds once instead of twice, and one table in 400 would differ.
func (a *axis) computeGeneric(s axisSpec, bits int) {
	g := s.geometry()
	taps := min(int(math.Ceil(g.support))*2+1, s.in)
	a.reserve(s.n, taps)
	clear(a.weight[:a.pitch*(taps+1)])
	a.columns = grown(a.columns, taps)
	a.taps = 0
	for i := range s.n {
		o := s.output(i)
		low, count := g.window(o)
		weights := a.columns[:count]
		sum := s.unscaledWeights(weights, g, o, low)
		for t, w := range weights {
			if sum != 0 {
				w /= sum
			}
			a.weight[t*a.pitch+i] = fixedPoint(w, bits)
		}
		a.low[i], a.count[i] = int32(low), int32(count)
		a.taps = max(a.taps, count)
	}
}

// unscaledWeights sets the weights of output o's window, which begins at low, and returns their sum.
func (s axisSpec) unscaledWeights(weights []float64, g geometry, o, low int) (sum float64) {
	if g.plain {
		s.plainWeights(weights, g, o)
		return 1
	}
	center := g.center(o)
	for t := range weights {
		w := s.filter.weight(float64((float64(t+low) - center + 0.5) * g.inverse))
		weights[t] = w
		sum += w
	}
	return sum
}

// fixedPoint rounds half away from zero, by truncation of ±0.5 as in C, and appends zeros to fewer than weightBits.
func fixedPoint(w float64, bits int) int32 {
	half := math.Copysign(0.5, w)
	return int32(half+float64(w*float64(uint(1)<<bits))) << max(weightBits-bits, 0)
}

func (f Filter) support() float64 {
	return [...]float64{Nearest: 0, Box: 0.5, Bilinear: 1, Hamming: 1, Bicubic: 2, Lanczos: 3, PlainBilinear: 1, PlainBicubic: 2}[f]
}

// weight evaluates the filter at x, like the functions of the same names in libImaging/Resample.c.
func (f Filter) weight(x float64) float64 {
	switch f {
	case Box:
		if x > -0.5 && x <= 0.5 {
			return 1
		}
	case Bilinear, PlainBilinear:
		if x = math.Abs(x); x < 1 {
			return 1 - x
		}
	case Hamming:
		return hamming(math.Abs(x))
	case Bicubic:
		return bicubic(math.Abs(x))
	case PlainBicubic:
		return plainBicubic(math.Abs(x))
	case Lanczos:
		if -3 <= x && x < 3 {
			return float64(sinc(x) * sinc(x/3))
		}
	}
	return 0
}

func bicubic(x float64) float64 {
	const a = -0.5
	if x < 1 {
		t := float64((a+2.0)*x) - (a + 3.0)
		t = float64(t * x)
		return float64(t*x) + 1
	}
	if x < 2 {
		t := float64((x-5)*x) + 8
		t = float64(t*x) - 4
		return float64(t * a)
	}
	return 0
}

// plainBicubic is ATen's, in its order.
func plainBicubic(x float64) float64 {
	const a = -0.75
	if x < 1 {
		t := float64((a+2.0)*x) - (a + 3.0)
		t = float64(t * x)
		return float64(t*x) + 1
	}
	if x < 2 {
		t := float64(a*x) - 5*a
		t = float64(t*x) + 8*a
		return float64(t*x) - 4*a
	}
	return 0
}

func hamming(x float64) float64 {
	if x == 0 {
		return 1
	}
	if x >= 1 {
		return 0
	}
	x = float64(x * math.Pi)
	// Pillow's constants are float32 literals.
	window := float64(float32(0.54)) + float64(float64(float32(0.46))*libm.Cos(x))
	return float64(libm.Sin(x) / x * window)
}

func sinc(x float64) float64 {
	if x == 0 {
		return 1
	}
	x = float64(x * math.Pi)
	return libm.Sin(x) / x
}

// computeSIMD is computeGeneric with a kernel. It returns false if there is no kernel for the filter: the trigonometric
// filters spend their time on sines.
func (a *axis) computeSIMD(s axisSpec, k *kernels) bool {
	if k == nil || s.filter == Hamming || s.filter == Lanczos || s.filter.plain() {
		return false
	}
	g := s.geometry()
	taps := min(int(math.Ceil(2*g.support))+1, s.in) // longest window, even with a rounding error at each end
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
	eights                   = repeat(8)
)

func repeat(x float64) (v [8]float64) {
	for i := range v {
		v[i] = x
	}
	return v
}

// computeConstants are the inputs of a table's weights, repeated eight times each.
type computeConstants struct {
	scale, support, inverse [8]float64
	edge                    [8]float64 // the length of the input
	first                   [8]float64 // the positions of the first outputs
	step                    [8]float64 // increment to the next vector's outputs
	one, unit               [8]float64 // what a weight of 1 is rounded as, and what the result is multiplied by
}

// fixed sets how weights become whole numbers, as in fixedPoint.
func (c *computeConstants) fixed(bits int) {
	c.one, c.unit = repeat(float64(uint(1)<<bits)), repeat(float64(uint(1)<<max(weightBits-bits, 0)))
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

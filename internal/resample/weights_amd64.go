//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package resample

import (
	"math"
	"simd/archsimd"
	"slices"

	"github.com/imgfeed/imgfeed/internal/kernel"
)

// The floating-point operations and their order are those of computeGeneric, on 4 or 8 outputs at a time: IEEE
// arithmetic then gives the same bits. Taps behind an output's window are masked to zero, which changes no sum.

// computeSIMD does what computeGeneric does; false if there is no kernel for the filter. The trigonometric filters have
// none: their time goes into sines.
func (a *axis) computeSIMD(s axisSpec, level kernel.Level) bool {
	if level < kernel.AVX2 || s.filter == Hamming || s.filter == Lanczos {
		return false
	}
	g := s.geometry()
	taps := min(int(math.Ceil(2*g.support))+1, s.in) // no window is longer, even with a rounding error at each end
	taps = (taps + 1) &^ 1
	a.reserve(s.n, taps)
	a.columns = grown(a.columns, 8*taps)
	a.constants.set(s, g)
	if level >= kernel.AVX512 {
		a.compute512(s.filter, taps)
	} else {
		a.compute256(s.filter, taps)
	}
	a.taps = int(slices.Max(a.count[:a.n]))
	return true
}

// Constants are loaded as vectors: of a scalar float the compiler would make a vector by instructions that some processors
// slow down a hundredfold while the upper halves of the registers are in use.
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

func doubles512(v *[8]float64) archsimd.Float64x8 { return archsimd.LoadFloat64x8Array(v) }
func doubles256(v *[8]float64) archsimd.Float64x4 {
	return archsimd.LoadFloat64x4Array((*[4]float64)(v[:]))
}

// computeConstants are what a table's weights depend on, eight times each.
type computeConstants struct {
	scale, support, inverse [8]float64
	first                   [8]float64 // the positions of the first outputs
	step4, step8            [8]float64 // from them to those of four and of eight outputs further
	edge                    [8]int32   // the length of the input
}

func (c *computeConstants) set(s axisSpec, g geometry) {
	first, step := float64(s.from), 1.0
	if s.reverse {
		first, step = float64(s.from+s.n-1), -1
	}
	for i := range c.first {
		c.scale[i], c.support[i], c.inverse[i] = g.scale, g.support, g.inverse
		c.edge[i] = int32(s.in)
		c.first[i], c.step4[i], c.step8[i] = first+step*float64(i), 4*step, 8*step
	}
}

func (a *axis) compute512(filter Filter, taps int) {
	c := &a.constants
	scale, support, inverse := doubles512(&c.scale), doubles512(&c.support), doubles512(&c.inverse)
	half, one, zero := doubles512(&halves), doubles512(&ones), archsimd.Float64x8{}
	fixed, sign := doubles512(&weightOnes), archsimd.BroadcastInt64x8(math.MinInt64)
	output, step := doubles512(&c.first), doubles512(&c.step8)
	for i := 0; i < a.n; i += 8 {
		center := output.Add(half).Mul(scale)
		output = output.Add(step)
		low := center.Sub(support).Add(half).ConvertToInt32().Max(archsimd.Int32x8{})
		count := center.Add(support).Add(half).ConvertToInt32().Min(archsimd.LoadInt32x8Array((*[8]int32)(c.edge[:]))).Sub(low)
		low.StoreArray((*[8]int32)(a.low[i:]))
		count.StoreArray((*[8]int32)(a.count[i:]))
		length, start := count.ConvertToFloat64(), low.ConvertToFloat64()
		sum, t := zero, zero
		for tap := range taps {
			x := t.Add(start).Sub(center).Add(half).Mul(inverse)
			switch filter {
			case Box:
				x = box512(x, one, half)
			case Bilinear:
				x = bilinear512(x)
			default:
				x = bicubic512(x)
			}
			w := x.Masked(t.Less(length))
			sum = sum.Add(w)
			w.StoreArray((*[8]float64)(a.columns[8*tap:]))
			t = t.Add(one)
		}
		sum = sum.Merge(one, sum.NotEqual(zero))
		for tap := range taps {
			w := archsimd.LoadFloat64x8Array((*[8]float64)(a.columns[8*tap:])).Div(sum)
			rounding := half.ToBits().BitsToInt64().Or(w.ToBits().BitsToInt64().And(sign)).ToBits().BitsToFloat64()
			w.Mul(fixed).Add(rounding).ConvertToInt32().StoreArray((*[8]int32)(a.weight[tap*a.pitch+i:]))
		}
	}
	archsimd.ClearAVXUpperBits()
}

func box512(x, one, half archsimd.Float64x8) archsimd.Float64x8 {
	return one.Masked(x.Greater(doubles512(&minusHalves)).And(x.LessEqual(half)))
}

func bilinear512(x archsimd.Float64x8) archsimd.Float64x8 {
	return doubles512(&ones).Sub(absolute512(x)).Max(archsimd.Float64x8{})
}

func bicubic512(x archsimd.Float64x8) archsimd.Float64x8 {
	x = absolute512(x)
	near := x.Mul(doubles512(&threeHalves)).Sub(doubles512(&fiveHalves)).Mul(x).Mul(x).Add(doubles512(&ones))
	far := x.Sub(doubles512(&fives)).Mul(x).Add(doubles512(&eights)).Mul(x).Sub(doubles512(&fours)).Mul(doubles512(&minusHalves))
	return near.Merge(far.Masked(x.Less(doubles512(&twos))), x.Less(doubles512(&ones)))
}

func absolute512(x archsimd.Float64x8) archsimd.Float64x8 {
	return x.ToBits().BitsToInt64().AndNot(archsimd.BroadcastInt64x8(math.MinInt64)).ToBits().BitsToFloat64()
}

func (a *axis) compute256(filter Filter, taps int) {
	c := &a.constants
	scale, support, inverse := doubles256(&c.scale), doubles256(&c.support), doubles256(&c.inverse)
	half, one, zero := doubles256(&halves), doubles256(&ones), archsimd.Float64x4{}
	fixed, sign := doubles256(&weightOnes), archsimd.BroadcastInt64x4(math.MinInt64)
	output, step := doubles256(&c.first), doubles256(&c.step4)
	for i := 0; i < a.n; i += 4 {
		center := output.Add(half).Mul(scale)
		output = output.Add(step)
		low := center.Sub(support).Add(half).ConvertToInt32().Max(archsimd.Int32x4{})
		count := center.Add(support).Add(half).ConvertToInt32().Min(archsimd.LoadInt32x4Array((*[4]int32)(c.edge[:]))).Sub(low)
		low.StoreArray((*[4]int32)(a.low[i:]))
		count.StoreArray((*[4]int32)(a.count[i:]))
		length, start := count.ConvertToFloat64(), low.ConvertToFloat64()
		sum, t := zero, zero
		for tap := range taps {
			x := t.Add(start).Sub(center).Add(half).Mul(inverse)
			switch filter {
			case Box:
				x = box256(x, one, half)
			case Bilinear:
				x = bilinear256(x)
			default:
				x = bicubic256(x)
			}
			w := x.Masked(t.Less(length))
			sum = sum.Add(w)
			w.StoreArray((*[4]float64)(a.columns[4*tap:]))
			t = t.Add(one)
		}
		sum = sum.Merge(one, sum.NotEqual(zero))
		for tap := range taps {
			w := archsimd.LoadFloat64x4Array((*[4]float64)(a.columns[4*tap:])).Div(sum)
			rounding := half.ToBits().BitsToInt64().Or(w.ToBits().BitsToInt64().And(sign)).ToBits().BitsToFloat64()
			w.Mul(fixed).Add(rounding).ConvertToInt32().StoreArray((*[4]int32)(a.weight[tap*a.pitch+i:]))
		}
	}
	archsimd.ClearAVXUpperBits()
}

func box256(x, one, half archsimd.Float64x4) archsimd.Float64x4 {
	return one.Masked(x.Greater(doubles256(&minusHalves)).And(x.LessEqual(half)))
}

func bilinear256(x archsimd.Float64x4) archsimd.Float64x4 {
	return doubles256(&ones).Sub(absolute256(x)).Max(archsimd.Float64x4{})
}

func bicubic256(x archsimd.Float64x4) archsimd.Float64x4 {
	x = absolute256(x)
	near := x.Mul(doubles256(&threeHalves)).Sub(doubles256(&fiveHalves)).Mul(x).Mul(x).Add(doubles256(&ones))
	far := x.Sub(doubles256(&fives)).Mul(x).Add(doubles256(&eights)).Mul(x).Sub(doubles256(&fours)).Mul(doubles256(&minusHalves))
	return near.Merge(far.Masked(x.Less(doubles256(&twos))), x.Less(doubles256(&ones)))
}

func absolute256(x archsimd.Float64x4) archsimd.Float64x4 {
	return x.ToBits().BitsToInt64().AndNot(archsimd.BroadcastInt64x4(math.MinInt64)).ToBits().BitsToFloat64()
}

//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package resample

import (
	"math"
	"simd/archsimd"

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
	if level >= kernel.AVX512 {
		a.compute512(s, g, taps)
	} else {
		a.compute256(s, g, taps)
	}
	archsimd.ClearAVXUpperBits()
	return true
}

var lanes = [8]float64{0, 1, 2, 3, 4, 5, 6, 7}

// firstAndStep returns the position of the table's first output and ±1, the way to the next.
func (s axisSpec) firstAndStep() (first, step float64) {
	if s.reverse {
		return float64(s.from + s.n - 1), -1
	}
	return float64(s.from), 1
}

func (a *axis) compute512(s axisSpec, g geometry, taps int) {
	first, step := s.firstAndStep()
	scale, support, inverse := archsimd.BroadcastFloat64x8(g.scale), archsimd.BroadcastFloat64x8(g.support), archsimd.BroadcastFloat64x8(g.inverse)
	half, one, zero := archsimd.BroadcastFloat64x8(0.5), archsimd.BroadcastFloat64x8(1), archsimd.BroadcastFloat64x8(0)
	fixed, sign := archsimd.BroadcastFloat64x8(weightOne), archsimd.BroadcastInt64x8(math.MinInt64)
	edge, none := archsimd.BroadcastInt32x8(int32(s.in)), archsimd.BroadcastInt32x8(0)
	offsets := archsimd.LoadFloat64x8Array(&lanes).Mul(archsimd.BroadcastFloat64x8(step))
	most := none
	for i := 0; i < a.n; i += 8 {
		output := offsets.Add(archsimd.BroadcastFloat64x8(first + step*float64(i)))
		center := output.Add(half).Mul(scale)
		low := center.Sub(support).Add(half).ConvertToInt32().Max(none)
		count := center.Add(support).Add(half).ConvertToInt32().Min(edge).Sub(low)
		most = most.Max(count)
		low.StoreArray((*[8]int32)(a.low[i:]))
		count.StoreArray((*[8]int32)(a.count[i:]))
		length, start := count.ConvertToFloat64(), low.ConvertToFloat64()
		sum, t := zero, zero
		for tap := range taps {
			x := t.Add(start).Sub(center).Add(half).Mul(inverse)
			w := weight512(s.filter, x).Masked(t.Less(length))
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
	var counts [8]int32
	most.StoreArray(&counts)
	a.setTaps(counts[:])
}

// setTaps takes the most taps of each lane; the lanes behind the table's end count too, and are as long at most.
func (a *axis) setTaps(counts []int32) {
	a.taps = 0
	for _, c := range counts {
		a.taps = max(a.taps, int(c))
	}
}

func weight512(f Filter, x archsimd.Float64x8) archsimd.Float64x8 {
	one, half := archsimd.BroadcastFloat64x8(1), archsimd.BroadcastFloat64x8(0.5)
	if f == Box {
		return one.Masked(x.Greater(archsimd.BroadcastFloat64x8(-0.5)).And(x.LessEqual(half)))
	}
	x = x.ToBits().BitsToInt64().AndNot(archsimd.BroadcastInt64x8(math.MinInt64)).ToBits().BitsToFloat64()
	if f == Bilinear {
		return one.Sub(x).Max(archsimd.BroadcastFloat64x8(0))
	}
	near := x.Mul(archsimd.BroadcastFloat64x8(1.5)).Sub(archsimd.BroadcastFloat64x8(2.5)).Mul(x).Mul(x).Add(one)
	far := x.Sub(archsimd.BroadcastFloat64x8(5)).Mul(x).Add(archsimd.BroadcastFloat64x8(8)).Mul(x).
		Sub(archsimd.BroadcastFloat64x8(4)).Mul(archsimd.BroadcastFloat64x8(-0.5))
	return near.Merge(far.Masked(x.Less(archsimd.BroadcastFloat64x8(2))), x.Less(one))
}

func (a *axis) compute256(s axisSpec, g geometry, taps int) {
	first, step := s.firstAndStep()
	scale, support, inverse := archsimd.BroadcastFloat64x4(g.scale), archsimd.BroadcastFloat64x4(g.support), archsimd.BroadcastFloat64x4(g.inverse)
	half, one, zero := archsimd.BroadcastFloat64x4(0.5), archsimd.BroadcastFloat64x4(1), archsimd.BroadcastFloat64x4(0)
	fixed, sign := archsimd.BroadcastFloat64x4(weightOne), archsimd.BroadcastInt64x4(math.MinInt64)
	edge, none := archsimd.BroadcastInt32x4(int32(s.in)), archsimd.BroadcastInt32x4(0)
	offsets := archsimd.LoadFloat64x4Array((*[4]float64)(lanes[:])).Mul(archsimd.BroadcastFloat64x4(step))
	most := none
	for i := 0; i < a.n; i += 4 {
		output := offsets.Add(archsimd.BroadcastFloat64x4(first + step*float64(i)))
		center := output.Add(half).Mul(scale)
		low := center.Sub(support).Add(half).ConvertToInt32().Max(none)
		count := center.Add(support).Add(half).ConvertToInt32().Min(edge).Sub(low)
		most = most.Max(count)
		low.StoreArray((*[4]int32)(a.low[i:]))
		count.StoreArray((*[4]int32)(a.count[i:]))
		length, start := count.ConvertToFloat64(), low.ConvertToFloat64()
		sum, t := zero, zero
		for tap := range taps {
			x := t.Add(start).Sub(center).Add(half).Mul(inverse)
			w := weight256(s.filter, x).Masked(t.Less(length))
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
	var counts [4]int32
	most.StoreArray(&counts)
	a.setTaps(counts[:])
}

func weight256(f Filter, x archsimd.Float64x4) archsimd.Float64x4 {
	one, half := archsimd.BroadcastFloat64x4(1), archsimd.BroadcastFloat64x4(0.5)
	if f == Box {
		return one.Masked(x.Greater(archsimd.BroadcastFloat64x4(-0.5)).And(x.LessEqual(half)))
	}
	x = x.ToBits().BitsToInt64().AndNot(archsimd.BroadcastInt64x4(math.MinInt64)).ToBits().BitsToFloat64()
	if f == Bilinear {
		return one.Sub(x).Max(archsimd.BroadcastFloat64x4(0))
	}
	near := x.Mul(archsimd.BroadcastFloat64x4(1.5)).Sub(archsimd.BroadcastFloat64x4(2.5)).Mul(x).Mul(x).Add(one)
	far := x.Sub(archsimd.BroadcastFloat64x4(5)).Mul(x).Add(archsimd.BroadcastFloat64x4(8)).Mul(x).
		Sub(archsimd.BroadcastFloat64x4(4)).Mul(archsimd.BroadcastFloat64x4(-0.5))
	return near.Merge(far.Masked(x.Less(archsimd.BroadcastFloat64x4(2))), x.Less(one))
}

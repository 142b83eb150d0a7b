//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package resample

import (
	"unsafe"

	. "github.com/imgfeed/imgfeed/internal/lanes/avx2"
)

// weightsAVX2 does what computeGeneric does, for outputs that are side by side. The floating-point operations and their order
// are the same: IEEE arithmetic then gives the same bits. Taps after an output's window are masked to zero, which changes no
// sum.
func weightsAVX2(a *axis, filter Filter, taps int) {
	c := &a.constants
	scale, support, inverse, edge := LoadDoubles(&c.scale), LoadDoubles(&c.support), LoadDoubles(&c.inverse), LoadDoubles(&c.edge)
	half, one, zero := LoadDoubles(&halves), LoadDoubles(&ones), Doubles{}
	output, step := LoadDoubles(&c.first), LoadDoubles(&c.step)
	for i := 0; i < a.n; i += 2 * Count {
		center := output.Add(half).Mul(scale)
		output = output.Add(step)
		low := Trunc(center.Sub(support).Add(half).Max(zero))
		length := Trunc(center.Add(support).Add(half).Min(edge)).Sub(low)
		StoreInts(low, unsafe.Pointer(&a.low[i]))
		StoreInts(length, unsafe.Pointer(&a.count[i]))
		sum, t := zero, zero
		for tap := range taps {
			x := t.Add(low).Sub(center).Add(half).Mul(inverse)
			switch filter {
			case Box:
				x = one.Masked(x.Greater(LoadDoubles(&minusHalves)).And(x.LessEqual(half)))
			case Bilinear:
				x = one.Sub(Abs(x)).Max(zero)
			default:
				x = bicubicAVX2(Abs(x))
			}
			w := x.Masked(t.Less(length))
			sum = sum.Add(w)
			StoreDoubles(w, unsafe.Pointer(&a.columns[2*Count*tap]))
			t = t.Add(one)
		}
		sum = sum.IfElse(sum.NotEqual(zero), one)
		for tap := range taps {
			w := LoadDoubles((*[8]float64)(unsafe.Pointer(&a.columns[2*Count*tap]))).Div(sum)
			StoreInts(w.Mul(LoadDoubles(&weightOnes)).Add(CopySigns(half, w)), unsafe.Pointer(&a.weight[tap*a.pitch+i]))
		}
	}
	Leave()
}

func bicubicAVX2(x Doubles) Doubles {
	near := x.Mul(LoadDoubles(&threeHalves)).Sub(LoadDoubles(&fiveHalves)).Mul(x).Mul(x).Add(LoadDoubles(&ones))
	far := x.Sub(LoadDoubles(&fives)).Mul(x).Add(LoadDoubles(&eights)).Mul(x).Sub(LoadDoubles(&fours)).Mul(LoadDoubles(&minusHalves))
	return near.IfElse(x.Less(LoadDoubles(&ones)), far.Masked(x.Less(LoadDoubles(&twos))))
}

//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package resample

import (
	"unsafe"

	"github.com/imgfeed/imgfeed/internal/kernel"
	. "github.com/imgfeed/imgfeed/internal/lanes/avx2"
)

func init() {
	byLevel[kernel.AVX2] = &kernels{
		level: kernel.AVX2, doubles: 2 * Count, weights: weightsAVX2, split: SplitWeight,
		prepare: prepareAVX2, vertical: &verticalsAVX2, take: takeAVX2,
		verticalFirst: [3]verticalFirstKernel{verticalFirstAVX2[clipped], verticalFirstAVX2[topByte], verticalFirst2AVX2},
		splitPlanes:   splitPlanesAVX2, mirror: mirrorAVX2, bytes: 16 * Count,
	}
}

// These kernels read and write only the rows.

// splitPlanesAVX2 takes 16 pixels in each lane.
func splitPlanesAVX2(red, green, blue, row []byte) {
	row = row[:3*len(red)]
	to0, to1, to2 := unsafe.Pointer(&red[0]), unsafe.Pointer(&green[0]), unsafe.Pointer(&blue[0])
	for x := 0; x < len(red); x += 16 * Count {
		x := min(x, len(red)-16*Count)
		a, b, c := LoadPixels(unsafe.Pointer(&row[3*x]))
		Store(Channel(a, b, c, 0), unsafe.Add(to0, x))
		Store(Channel(a, b, c, 1), unsafe.Add(to1, x))
		Store(Channel(a, b, c, 2), unsafe.Add(to2, x))
	}
	Leave()
}

// weightsAVX2 is computeGeneric for adjacent outputs. The floating-point operations and their order are the same, so
// IEEE arithmetic gives the same bits. Taps after an output's window are masked to zero, which does not change sums.
func weightsAVX2(a *axis, filter Filter, taps int) {
	c := &a.constants
	scale, support, inverse, edge := LoadDoubles(&c.scale), LoadDoubles(&c.support), LoadDoubles(&c.inverse), LoadDoubles(&c.edge)
	half, one, zero := LoadDoubles(&halves), LoadDoubles(&ones), Doubles{}
	output, step := LoadDoubles(&c.first), LoadDoubles(&c.step)
	fixedOne, unit := LoadDoubles(&c.one), LoadDoubles(&c.unit)
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
			StoreInts(Trunc(w.Mul(fixedOne).Add(CopySigns(half, w))).Mul(unit), unsafe.Pointer(&a.weight[tap*a.pitch+i]))
		}
	}
	Leave()
}

func bicubicAVX2(x Doubles) Doubles {
	near := x.Mul(LoadDoubles(&threeHalves)).Sub(LoadDoubles(&fiveHalves)).Mul(x).Mul(x).Add(LoadDoubles(&ones))
	far := x.Sub(LoadDoubles(&fives)).Mul(x).Add(LoadDoubles(&eights)).Mul(x).Sub(LoadDoubles(&fours)).Mul(LoadDoubles(&minusHalves))
	return near.IfElse(x.Less(LoadDoubles(&ones)), far.Masked(x.Less(LoadDoubles(&twos))))
}

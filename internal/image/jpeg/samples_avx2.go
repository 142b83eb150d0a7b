//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package jpeg

import (
	"unsafe"

	. "github.com/imgfeed/imgfeed/internal/lanes/avx2"
)

func upsampleH2AVX2(dst, near, far []byte, count, left, right int) {
	const step = 8 * Count
	last := (count - 1) &^ (step - 1)
	_, _, _ = dst[2*last+2*step-1], near[last+step+1], far[last+step+1]
	out := unsafe.Pointer(unsafe.SliceData(dst))
	a, b := unsafe.Pointer(unsafe.SliceData(near)), unsafe.Pointer(unsafe.SliceData(far))
	three, roundLeft, roundRight := BroadcastWords(3), BroadcastWords(int16(left)), BroadcastWords(int16(right))
	for i := 0; i < count; i += step {
		this := MulAdd(LoadBytes(unsafe.Add(a, i+1)), three, LoadBytes(unsafe.Add(b, i+1))).Mul(three)
		left := MulAdd(LoadBytes(unsafe.Add(a, i)), three, LoadBytes(unsafe.Add(b, i))).Add(roundLeft)
		right := MulAdd(LoadBytes(unsafe.Add(a, i+2)), three, LoadBytes(unsafe.Add(b, i+2))).Add(roundRight)
		StoreWords(PairBytes(ShiftRight(this.Add(left), 4), ShiftRight(this.Add(right), 4)), unsafe.Add(out, 2*i))
	}
	Leave()
}

// greenAVX2 are the factors of Cb and Cr in G. It is a pointer for the same reason as factorsAVX2.
var greenAVX2 = &[]Pair{Pairs(greenOfCb, greenOfCr)}[0]

func ycbcrToRGBAVX2(dst, y, cb, cr []byte) {
	const step = 8 * Count
	n := len(dst) / 3
	if n < step {
		ycbcrToRGBGeneric(dst, y, cb, cr)
		return
	}
	_, _, _ = y[n-1], cb[n-1], cr[n-1]
	out, py := unsafe.Pointer(unsafe.SliceData(dst)), unsafe.Pointer(unsafe.SliceData(y))
	pb, pr := unsafe.Pointer(unsafe.SliceData(cb)), unsafe.Pointer(unsafe.SliceData(cr))
	center, half, kg := BroadcastWords(128), BroadcastDwords(1<<15), greenAVX2
	kr, kb := BroadcastWords(redOfCr), BroadcastWords(blueOfCb)
	for i := 0; ; i += step {
		i = min(i, n-step) // the last vector overlaps the one before
		yy := LoadBytes(unsafe.Add(py, i))
		b, r := LoadBytes(unsafe.Add(pb, i)).Sub(center), LoadBytes(unsafe.Add(pr, i)).Sub(center)
		b2, r2 := b.Add(b), r.Add(r)
		red := yy.Add(r).Add(Half(MulHigh(r2, kr)))
		blue := yy.Add(b2).Add(Half(MulHigh(b2, kb)))
		lo, hi := Zip(b, r)
		green := yy.Sub(r).Add(HighWords(Dot(lo, kg).Add(half), Dot(hi, kg).Add(half)))
		StoreRGB(red, green, blue, unsafe.Add(out, 3*i))
		if i == n-step {
			Leave()
			return
		}
	}
}

func grayToRGBAVX2(dst, y []byte) {
	const step = 16 * Count
	n := len(dst) / 3
	if n < step {
		grayToRGBGeneric(dst, y)
		return
	}
	out, in := unsafe.Pointer(unsafe.SliceData(dst)), unsafe.Pointer(unsafe.SliceData(y[:n]))
	for i := 0; i < n; i += step {
		i := min(i, n-step)
		StoreGray(Load(unsafe.Add(in, i)), unsafe.Add(out, 3*i))
	}
	Leave()
}

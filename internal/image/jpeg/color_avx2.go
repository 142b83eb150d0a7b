//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package jpeg

import (
	"unsafe"

	. "github.com/imgfeed/imgfeed/internal/lanes/avx2"
)

// greenAVX2 are the factors of Cb and Cr in G; a pointer for the reason that factorsAVX2 is one.
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
	const step = 8 * Count
	n := len(dst) / 3
	if n < step {
		grayToRGBGeneric(dst, y)
		return
	}
	_ = y[n-1]
	out, in := unsafe.Pointer(unsafe.SliceData(dst)), unsafe.Pointer(unsafe.SliceData(y))
	for i := 0; ; i += step {
		i = min(i, n-step)
		StoreTripled(unsafe.Add(in, i), unsafe.Add(out, 3*i))
		if i == n-step {
			Leave()
			return
		}
	}
}

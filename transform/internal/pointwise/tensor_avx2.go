//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package pointwise

import (
	"unsafe"

	. "github.com/imgfeed/imgfeed/internal/lanes/avx2"
)

// tensorBlendAVX2 is blended's arithmetic in sharpness: b + (a − b)·rest.
func tensorBlendAVX2(a, b Words, rest Floats) Words {
	aLo, aHi := ToDwords(a)
	bLo, bHi := ToDwords(b)
	lo := aLo.Sub(bLo).ConvertToFloat32().MulAdd(rest, bLo.ConvertToFloat32()).ConvertToInt32()
	hi := aHi.Sub(bHi).ConvertToFloat32().MulAdd(rest, bHi.ConvertToFloat32()).ConvertToInt32()
	return ToByteRange(ShiftNarrow(lo, hi, 0))
}

// Kernels of adjustments of tensors work on groups of four pixels in float32, and have the same text in each.

// grayFloatsAVX2 returns the gray values of fours, rounded down.
func grayFloatsAVX2(r, g, b Floats) Dwords {
	red, green, blue := LoadFloats(unsafe.Pointer(&grayWeights[0])), LoadFloats(unsafe.Pointer(&grayWeights[1])), LoadFloats(unsafe.Pointer(&grayWeights[2]))
	return b.MulAdd(blue, g.MulAdd(green, r.Mul(red))).ConvertToInt32()
}

func sumTensorGrayAVX2(pix []byte, to *[16]uint32) (n int) {
	n = max(0, (len(pix)-FoursBytes-FoursRoom)/FoursBytes*FoursBytes)
	var sums Dwords
	for at := 0; at < n; at += FoursBytes {
		v := LoadFours(unsafe.Pointer(&pix[at]))
		r, g, b := FourChannel(v, 0).ConvertToFloat32(), FourChannel(v, 1).ConvertToFloat32(), FourChannel(v, 2).ConvertToFloat32()
		sums = sums.Add(grayFloatsAVX2(r, g, b))
	}
	StoreDwords(sums, unsafe.Pointer(to))
	Leave()
	return n
}

// tensorAVX2 does the adjustment A. Like saturationAVX2 it overwrites the beginning of the next group, which is already loaded.
func tensorAVX2[A toGray | toSaturation | toHue](dst, src []byte, factors *[2]float32) int {
	n := (len(src) - FoursBytes - FoursRoom) / FoursBytes * FoursBytes
	if n <= 0 {
		return 0
	}
	behind, last := src[n:], dst[n:]
	front, back := *(*uint64)(unsafe.Pointer(&behind[0])), *(*uint64)(unsafe.Pointer(&behind[max(FoursRoom, 8)-8]))
	factor, rest := BroadcastFloat(&factors[0]), BroadcastFloat(&factors[1])
	v := LoadFours(unsafe.Pointer(&src[0]))
	for at := 0; at < n; at += FoursBytes {
		next := LoadFours(unsafe.Pointer(&src[at+FoursBytes]))
		r, g, b := FourChannel(v, 0).ConvertToFloat32(), FourChannel(v, 1).ConvertToFloat32(), FourChannel(v, 2).ConvertToFloat32()
		if len(*new(A)) == 0 {
			gray := grayFloatsAVX2(r, g, b)
			StoreFours(JoinFours(gray, gray, gray), unsafe.Pointer(&dst[at]))
		} else if len(*new(A)) == 1 {
			gray := grayFloatsAVX2(r, g, b).ConvertToFloat32()
			r, g, b = gray.MulAdd(rest, r.Mul(factor)), gray.MulAdd(rest, g.Mul(factor)), gray.MulAdd(rest, b.Mul(factor))
			StoreFours(JoinFours(r.ConvertToInt32(), g.ConvertToInt32(), b.ConvertToInt32()), unsafe.Pointer(&dst[at]))
		} else {
			one, zero, six := LoadFloats(unsafe.Pointer(&floatOnes)), Floats{}, LoadFloats(unsafe.Pointer(&floatSixes))
			unit, all := LoadFloats(unsafe.Pointer(&hueUnits)), LoadFloats(unsafe.Pointer(&hueBytes))
			r, g, b = r.Mul(unit), g.Mul(unit), b.Mul(unit)
			high, low := r.Max(g).Max(b), r.Min(g).Min(b)
			span, equal, red, green := high.Sub(low), high.Equal(low), high.Equal(r), high.Equal(g)
			saturation := span.Div(one.IfElse(equal, high))
			span = one.IfElse(equal, span)
			before, after := b.IfElse(red, r.IfElse(green, g)), g.IfElse(red, b.IfElse(green, r))
			base := zero.IfElse(red, LoadFloats(unsafe.Pointer(&floatTwos)).IfElse(green, LoadFloats(unsafe.Pointer(&floatFours))))
			hue := high.Sub(before).Div(span).Add(base).Sub(high.Sub(after).Div(span))
			hue = hue.Mul(LoadFloats(unsafe.Pointer(&sixths))).Add(one)
			hue = hue.Sub(one.Masked(one.LessEqual(hue))).Add(factor)
			hue = hue.Sub(one.Masked(one.LessEqual(hue))).Add(one.Masked(hue.Less(zero))).Mul(six)
			sextant := hue.ConvertToInt32()
			part, left := saturation.Mul(hue.Sub(sextant.ConvertToFloat32())), one.Sub(saturation)
			p, q, t := left.Mul(high), one.Sub(part).Mul(high), part.Add(left).Mul(high)
			is1, is2, is3 := sextant.Equal(BroadcastDwords(1)), sextant.Equal(BroadcastDwords(2)), sextant.Equal(BroadcastDwords(3))
			is4, is5 := sextant.Equal(BroadcastDwords(4)), sextant.Equal(BroadcastDwords(5))
			r = q.IfElse(is1, p.IfElse(is2.Or(is3), t.IfElse(is4, high))).Mul(all)
			g = high.IfElse(is1.Or(is2), q.IfElse(is3, p.IfElse(is4.Or(is5), t))).Mul(all)
			b = t.IfElse(is2, high.IfElse(is3.Or(is4), q.IfElse(is5, p))).Mul(all)
			StoreFours(JoinFours(r.ConvertToInt32(), g.ConvertToInt32(), b.ConvertToInt32()), unsafe.Pointer(&dst[at]))
		}
		v = next
	}
	Leave()
	*(*uint64)(unsafe.Pointer(&last[0])), *(*uint64)(unsafe.Pointer(&last[max(FoursRoom, 8)-8])) = front, back
	return n
}

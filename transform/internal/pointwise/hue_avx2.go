//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package pointwise

import (
	"unsafe"

	. "github.com/imgfeed/imgfeed/internal/lanes/avx2"
)

// hueAVX2 is Hue in whole numbers. They give the results of Pillow's floats: a hue is a multiple of 85/2 plus a share of it, and the
// middle channel is a multiple of 1/65025. belowHue corrects whole numbers. TestEveryColour compares all colours.
func hueAVX2(dst, src []byte, shift byte) int {
	n := len(src) / pixelsAVX2 * pixelsAVX2
	for at := 0; at < n; at += pixelsAVX2 {
		p := unsafe.Pointer(&src[at])
		v0, v1, v2 := LoadPixels(p)
		r, g, b := Channel(v0, v1, v2, 0), Channel(v0, v1, v2, 1), Channel(v0, v1, v2, 2)
		value := r.Max(g).Max(b)
		span := value.Sub(r.Min(g).Min(b))
		hue := hueOfAVX2(r, g, b, value, span).Add(BroadcastBytes(shift))
		evenS := saturationOfAVX2(EvenBytes(span), EvenBytes(value))
		oddS := saturationOfAVX2(OddBytes(span), OddBytes(value))
		evenPart, evenSextant := sextantAVX2(EvenBytes(hue))
		oddPart, oddSextant := sextantAVX2(OddBytes(hue))
		low := ToBytes(PairBytes(lowAVX2(evenS, EvenBytes(value)), lowAVX2(oddS, OddBytes(value))))
		middle := ToBytes(PairBytes(middleAVX2(evenS, EvenBytes(value), evenPart), middleAVX2(oddS, OddBytes(value), oddPart)))
		sextant := ToBytes(PairBytes(evenSextant, oddSextant))
		r, g = pickAVX2(value, middle, low, sextant, 0), pickAVX2(value, middle, low, sextant, 1)
		StoreChannels(r, g, pickAVX2(value, middle, low, sextant, 2), unsafe.Pointer(&dst[at]))
	}
	Leave()
	return n
}

// hueOfAVX2 returns hues, rounded down. A hue is the base hue of the highest channel, plus 85/2 times the difference of
// the two others, in the order r g b r g, as a share of the span.
func hueOfAVX2(r, g, b, value, span Bytes) Bytes {
	one := BroadcastBytes(1)
	red, green := r.Equal(value), g.Equal(value)
	first, second := b.IfElse(red, r.IfElse(green, g)), g.IfElse(red, b.IfElse(green, r))
	less := first.SubSaturated(second)
	difference := less.Or(second.SubSaturated(first))
	negative := Bytes{}.Sub(less.Min(one))
	base := negative.IfElse(red, BroadcastBytes(85).IfElse(green, BroadcastBytes(170)))
	span = span.Max(one)
	twice := ToBytes(PairBytes(shareAVX2(EvenBytes(difference), EvenBytes(span)), shareAVX2(OddBytes(difference), OddBytes(span))))
	// twice is even where the share is a whole number.
	odd := twice.And(one)
	steps := ToBytes(ToWords(twice.Sub(odd)).ShiftAllRight(1)).Add(odd.And(negative))
	hue := base.Add(steps.Xor(negative)).Sub(negative)
	low, high := hue.And(BroadcastBytes(15)), HalfOf(hue).And(BroadcastBytes(15))
	t := unsafe.Pointer(&belowHue)
	below := Take(LoadRepeated(t), low).And(Take(LoadRepeated(unsafe.Add(t, 32)), high)).
		Or(Take(LoadRepeated(unsafe.Add(t, 16)), low).And(Take(LoadRepeated(unsafe.Add(t, 48)), high)))
	return hue.Sub(below.Min(one).AndNot(odd))
}

// shareAVX2 returns 85/2 times difference/span, rounded down plus rounded up.
func shareAVX2(difference, span Words) Words {
	differenceLo, differenceHi := ToDwords(difference.Mul(BroadcastWords(85)))
	spanLo, spanHi := ToDwords(span.Add(span))
	lo, hi := differenceLo.ConvertToFloat32().Div(spanLo.ConvertToFloat32()), differenceHi.ConvertToFloat32().Div(spanHi.ConvertToFloat32())
	up := LoadFloats(unsafe.Pointer(&nearlyOne))
	return ShiftNarrow(lo.ConvertToInt32().Add(lo.Add(up).ConvertToInt32()), hi.ConvertToInt32().Add(hi.Add(up).ConvertToInt32()), 0)
}

// saturationOfAVX2 returns 255 times span/value, rounded down.
func saturationOfAVX2(span, value Words) Words {
	spanLo, spanHi := ToDwords(span.Mul(BroadcastWords(255)))
	valueLo, valueHi := ToDwords(value.Max(BroadcastWords(1)))
	lo, hi := spanLo.ConvertToFloat32().Div(valueLo.ConvertToFloat32()), spanHi.ConvertToFloat32().Div(valueHi.ConvertToFloat32())
	return ShiftNarrow(lo.ConvertToInt32(), hi.ConvertToInt32(), 0)
}

// sextantAVX2 returns the sextants of hues, 0 to 6, and 255 times the position in the sextant, counted from the end of even ones.
func sextantAVX2(hue Words) (part, sextant Words) {
	six, one, all := hue.Mul(BroadcastWords(6)), BroadcastWords(1), BroadcastWords(255)
	more := six.Add(one)
	sextant = more.Add(more.ShiftAllRight(8)).ShiftAllRight(8) // six/255
	part = six.Sub(sextant.Mul(all))
	return part.Xor(sextant.And(one).Sub(one).And(all)), sextant
}

// lowAVX2 returns the lowest channel, value·(255 − saturation)/255, rounded.
func lowAVX2(saturation, value Words) Words {
	x := value.Mul(BroadcastWords(255).Sub(saturation)).Add(BroadcastWords(128))
	return HighBytes(x.Add(HighBytes(x)))
}

// middleAVX2 returns the middle channel, value·(65025 − saturation·part)/65025, rounded. The exact result is never so
// near to a half that the rounding of floats matters.
func middleAVX2(saturation, value, part Words) Words {
	valueLo, valueHi := ToDwords(value)
	shareLo, shareHi := ToDwords(BroadcastWords(65025 - 65536).Sub(saturation.Mul(part)))
	unit, half := LoadFloats(unsafe.Pointer(&by65025)), LoadFloats(unsafe.Pointer(&halfFloats))
	lo := valueLo.ConvertToFloat32().Mul(shareLo.ConvertToFloat32()).Mul(unit).Add(half)
	hi := valueHi.ConvertToFloat32().Mul(shareHi.ConvertToFloat32()).Mul(unit).Add(half)
	return ShiftNarrow(lo.ConvertToInt32(), hi.ConvertToInt32(), 0)
}

// pickAVX2 returns channel c: the highest, the middle or the lowest, by sextant.
func pickAVX2(value, middle, low, sextant Bytes, c int) Bytes {
	t := unsafe.Pointer(&channelBySextant[c])
	return value.And(Take(LoadRepeated(t), sextant)).Or(middle.And(Take(LoadRepeated(unsafe.Add(t, 16)), sextant))).
		Or(low.And(Take(LoadRepeated(unsafe.Add(t, 32)), sextant)))
}

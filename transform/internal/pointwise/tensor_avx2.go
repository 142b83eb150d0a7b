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

// tensorGrayAVX2 is tensorLuma for words.
func tensorGrayAVX2(r, g, b Words) Words {
	red, green, blue := LoadFloats(unsafe.Pointer(&grayWeights[0])), LoadFloats(unsafe.Pointer(&grayWeights[1])),
		LoadFloats(unsafe.Pointer(&grayWeights[2]))
	rLo, rHi := ToDwords(r)
	gLo, gHi := ToDwords(g)
	bLo, bHi := ToDwords(b)
	lo := bLo.ConvertToFloat32().MulAdd(blue, gLo.ConvertToFloat32().MulAdd(green, rLo.ConvertToFloat32().Mul(red)))
	hi := bHi.ConvertToFloat32().MulAdd(blue, gHi.ConvertToFloat32().MulAdd(green, rHi.ConvertToFloat32().Mul(red)))
	return ShiftNarrow(lo.ConvertToInt32(), hi.ConvertToInt32(), 0)
}

// tensorGrayFoursAVX2 is tensorLuma for fours.
func tensorGrayFoursAVX2(v Bytes) Dwords {
	red, green, blue := LoadFloats(unsafe.Pointer(&grayWeights[0])), LoadFloats(unsafe.Pointer(&grayWeights[1])),
		LoadFloats(unsafe.Pointer(&grayWeights[2]))
	r, g, b := FourChannel(v, 0).ConvertToFloat32(), FourChannel(v, 1).ConvertToFloat32(), FourChannel(v, 2).ConvertToFloat32()
	return b.MulAdd(blue, g.MulAdd(green, r.Mul(red))).ConvertToInt32()
}

// tensorHueAVX2 turns hues, and ends after a vector in which some pixels are near: see turn. Odd sextants are those where the middle
// channel falls from the highest to the lowest. Afterwards the channel is an edge, the lowest or the highest, and its distance.
func tensorHueAVX2(dst, src []byte, t *turn) int {
	n, one := len(src)/pixelsAVX2*pixelsAVX2, BroadcastBytes(1)
	first, even := BroadcastBytes(t.first), BroadcastBytes(t.even)
	left, unit := LoadFloats(unsafe.Pointer(&t.left)), LoadFloats(unsafe.Pointer(&turnUnits))
	for at := 0; at < n; {
		v0, v1, v2 := LoadPixels(unsafe.Pointer(&src[at]))
		r, g, b := Channel(v0, v1, v2, 0), Channel(v0, v1, v2, 1), Channel(v0, v1, v2, 2)
		value, low := r.Max(g).Max(b), r.Min(g).Min(b)
		red, green := r.Equal(value), g.Equal(value)
		before, after := b.IfElse(red, r.IfElse(green, g)), g.IfElse(red, b.IfElse(green, r))
		odd := Bytes{}.Sub(before.SubSaturated(after).Min(one))
		sextant := first.Add(odd).Add(BroadcastBytes(6).IfElse(red, BroadcastBytes(2).IfElse(green, BroadcastBytes(4))))
		rise, fall, down := after.Sub(low), value.Sub(before), odd.Xor(even)
		span, passed, edge := value.Sub(low), rise.Xor(rise.Xor(fall).And(odd)), low.Xor(low.Xor(value).And(down))
		x0, x1 := beyondAVX2(EvenBytes(span), EvenBytes(passed), left, unit)
		x2, x3 := beyondAVX2(OddBytes(span), OddBytes(passed), left, unit)
		e0, e1 := signedAVX2(EvenBytes(edge), ToWords(down).ShiftAllLeft(8))
		e2, e3 := signedAVX2(OddBytes(edge), ToWords(down))
		y0, y1 := turnedAVX2(e0, x0, unit), turnedAVX2(e1, x1, unit)
		y2, y3 := turnedAVX2(e2, x2, unit), turnedAVX2(e3, x3, unit)
		over := PairBytes(HighBytes(HighWords(FloatBits(x0), FloatBits(x1))), HighBytes(HighWords(FloatBits(x2), FloatBits(x3))))
		sextant = sextant.Add(Negative(ToBytes(over)))
		middle := ToBytes(PairBytes(HighWords(y0, y1), HighWords(y2, y3)))
		near := Negative(ToBytes(PairBytes(nearAVX2(y0, y1), nearAVX2(y2, y3))))
		Store(near, unsafe.Pointer(&t.near))
		if at += pixelsAVX2; !IsZero(ToWords(near)) {
			n = at
			p, to := unsafe.Pointer(&src[at-pixelsAVX2]), unsafe.Pointer(&t.before)
			Store(Load(p), to)
			Store(Load(unsafe.Add(p, vectorAVX2)), unsafe.Add(to, vectorAVX2))
			Store(Load(unsafe.Add(p, 2*vectorAVX2)), unsafe.Add(to, 2*vectorAVX2))
		}
		r, g = pickAVX2(value, middle, low, sextant, 0), pickAVX2(value, middle, low, sextant, 1)
		StoreChannels(r, g, pickAVX2(value, middle, low, sextant, 2), unsafe.Pointer(&dst[at-pixelsAVX2]))
	}
	Leave()
	return n
}

// beyondAVX2 returns how far words pass the end of their sextants: negative numbers where they do not reach it.
func beyondAVX2(span, passed Words, left, unit Floats) (lo, hi Floats) {
	spanLo, spanHi := Interleave(Words{}, span)
	passedLo, passedHi := Interleave(Words{}, passed)
	return ToFloats(spanLo).MulAdd(left, ToFloats(passedLo).Mul(unit)), ToFloats(spanHi).MulAdd(left, ToFloats(passedHi).Mul(unit))
}

// signedAVX2 returns the edges, those that are left downwards as negative numbers. Of down the upper bytes count.
func signedAVX2(edge, down Words) (lo, hi Words) {
	down = down.ShiftAllRight(8)
	return Interleave(Words{}, edge.Xor(down).Sub(down))
}

// turnedAVX2 returns the middle channels, times 65536: as far from the edges as x is from 0.
func turnedAVX2(edge Words, x, unit Floats) Dwords {
	return ToFloats(edge).MulAdd(unit, x.Abs()).Abs().ConvertToInt32().Max(BroadcastDwords(nearest + 1))
}

// nearAVX2 returns bytes as words, negative bytes where the middle channel is near.
func nearAVX2(lo, hi Dwords) Words {
	low := LowWords(lo, hi)
	return HighBytes(low.Max(Words{}.Sub(low)).Sub(BroadcastWords(nearest + 1)))
}

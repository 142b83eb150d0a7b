//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package pointwise

import (
	"unsafe"

	"github.com/imgfeed/imgfeed/internal/kernel"
	. "github.com/imgfeed/imgfeed/internal/lanes/avx2"
)

func init() {
	byLevel[kernel.AVX2] = &kernels{
		vector: vectorAVX2, invert: invertAVX2, hue: hueAVX2, tensorHue: tensorHueAVX2, permute: permuteAVX2,
		gray:       [...]func(_, _ []byte) int{grayAVX2[ofPillow], grayAVX2[ofTensor]},
		sumGray:    [...]func([]byte) (int, int){sumGrayAVX2[ofPillow], sumGrayAVX2[ofTensor]},
		saturation: [...]func(_, _ []byte, _ *[2]float32) int{saturationAVX2[ofPillow], saturationAVX2[ofTensor]},
		smooth:     [...]func(_, _ []byte, _, _, _ int, _ *float32){smoothAVX2[ofPillow], smoothAVX2[ofTensor]},
		extremes:   extremesAVX2, fill: FillTable, replace: replaceAVX2, table: tableAVX2, line: lineAVX2, lines: linesAVX2,
	}
}

// Kernels do whole vectors or groups of three, and return how many bytes those are; the generic code does the rest.
const (
	vectorAVX2 = 16 * Count
	pixelsAVX2 = 48 * Count
)

func invertAVX2(dst, src []byte, below, always, mask byte) int {
	n, limit, one := len(src)&^(vectorAVX2-1), BroadcastBytes(below), BroadcastBytes(1)
	all, kept := BroadcastBytes(always), BroadcastBytes(mask)
	for at := 0; at < n; at += vectorAVX2 {
		p := unsafe.Pointer(&src[at])
		v := Load(p)
		above := Bytes{}.Sub(v.SubSaturated(limit).Min(one))
		Store(v.Xor(above.Or(all)).And(kept), unsafe.Pointer(&dst[at]))
	}
	Leave()
	return n
}

// The weights of luma, in pairs that fit words: 38470, green's, is in both.
var (
	redGreenAVX2  = Pairs(19595, 19235)
	greenBlueAVX2 = Pairs(19235, 7471)
)

// lumaWordsAVX2 returns the luma of pixels from channels in words.
func lumaWordsAVX2(r, g, b Words, half Dwords) Words {
	redGreenLo, redGreenHi := Zip(r, g)
	greenBlueLo, greenBlueHi := Zip(g, b)
	lo := Dot(redGreenLo, &redGreenAVX2).Add(Dot(greenBlueLo, &greenBlueAVX2)).Add(half)
	hi := Dot(redGreenHi, &redGreenAVX2).Add(Dot(greenBlueHi, &greenBlueAVX2)).Add(half)
	return HighWords(lo, hi)
}

// The compiler inlines functions of vectors up to a size that the luma or the blend of a whole vector would exceed. So loops
// call them for halves: even bytes, and odd bytes.

func grayAVX2[I ofPillow | ofTensor](dst, src []byte) int {
	n, half := len(src)/pixelsAVX2*pixelsAVX2, BroadcastDwords(0x8000)
	for at := 0; at < n; at += pixelsAVX2 {
		p := unsafe.Pointer(&src[at])
		v0, v1, v2 := LoadPixels(p)
		r, g, b := Channel(v0, v1, v2, 0), Channel(v0, v1, v2, 1), Channel(v0, v1, v2, 2)
		var even, odd Words
		if len(*new(I)) == 1 {
			even, odd = tensorGrayAVX2(EvenBytes(r), EvenBytes(g), EvenBytes(b)), tensorGrayAVX2(OddBytes(r), OddBytes(g), OddBytes(b))
		} else {
			even, odd = lumaWordsAVX2(EvenBytes(r), EvenBytes(g), EvenBytes(b), half),
				lumaWordsAVX2(OddBytes(r), OddBytes(g), OddBytes(b), half)
		}
		StoreGray(ToBytes(PairBytes(even, odd)), unsafe.Pointer(&dst[at]))
	}
	Leave()
	return n
}

func permuteAVX2(dst, src []byte, r, g, b int) int {
	n := len(src) / pixelsAVX2 * pixelsAVX2
	for at := 0; at < n; at += pixelsAVX2 {
		v0, v1, v2 := LoadPixels(unsafe.Pointer(&src[at]))
		StoreChannels(Channel(v0, v1, v2, r), Channel(v0, v1, v2, g), Channel(v0, v1, v2, b), unsafe.Pointer(&dst[at]))
	}
	Leave()
	return n
}

func sumGrayAVX2[I ofPillow | ofTensor](pix []byte) (sum, n int) {
	half := BroadcastDwords(0x8000)
	n = len(pix) / pixelsAVX2 * pixelsAVX2
	for at := 0; at < n; {
		var sums Sums
		for end := min(at+64*pixelsAVX2, n); at < end; at += pixelsAVX2 { // sums would overflow after more
			v0, v1, v2 := LoadPixels(unsafe.Pointer(&pix[at]))
			r, g, b := Channel(v0, v1, v2, 0), Channel(v0, v1, v2, 1), Channel(v0, v1, v2, 2)
			var even, odd Words
			if len(*new(I)) == 1 {
				even, odd = tensorGrayAVX2(EvenBytes(r), EvenBytes(g), EvenBytes(b)), tensorGrayAVX2(OddBytes(r), OddBytes(g), OddBytes(b))
			} else {
				even, odd = lumaWordsAVX2(EvenBytes(r), EvenBytes(g), EvenBytes(b), half),
					lumaWordsAVX2(OddBytes(r), OddBytes(g), OddBytes(b), half)
			}
			sums = AddBytes(sums, ToBytes(PairBytes(even, odd)))
		}
		sum += Total(sums)
	}
	Leave()
	return sum, n
}

// blendWordsAVX2 is the generic blend for words.
func blendWordsAVX2(a, b Words, factor Floats) Words {
	aLo, aHi := ToDwords(a)
	bLo, bHi := ToDwords(b)
	lo := aLo.ConvertToFloat32().Add(bLo.Sub(aLo).ConvertToFloat32().Mul(factor)).ConvertToInt32()
	hi := aHi.ConvertToFloat32().Add(bHi.Sub(aHi).ConvertToFloat32().Mul(factor)).ConvertToInt32()
	return ToByteRange(ShiftNarrow(lo, hi, 0))
}

// saturationAVX2 works on groups of four pixels, with gray values and differences in dwords for the conversion to float. Storing a
// group overwrites the beginning of the next, which is already loaded; after the last group these bytes are restored.
func saturationAVX2[I ofPillow | ofTensor](dst, src []byte, factors *[2]float32) int {
	n := (len(src) - FoursBytes - FoursRoom) / FoursBytes * FoursBytes
	if n <= 0 {
		return 0
	}
	behind, last := src[n:], dst[n:]
	// Not by a copy: one of 16 bytes would be SSE.
	front, back := *(*uint64)(unsafe.Pointer(&behind[0])), *(*uint64)(unsafe.Pointer(&behind[max(FoursRoom, 8)-8]))
	half, f, rest := BroadcastDwords(0x8000), BroadcastFloat(&factors[0]), BroadcastFloat(&factors[1])
	v := LoadFours(unsafe.Pointer(&src[0]))
	gray := grayFoursAVX2[I](v, half)
	for at := 0; at < n; at += FoursBytes {
		// The next group's gray values are computed in this round, because they do not depend on this round's results.
		next := LoadFours(unsafe.Pointer(&src[at+FoursBytes]))
		nextGray := grayFoursAVX2[I](next, half)
		from, r, g, b := gray.ConvertToFloat32(), FourChannel(v, 0), FourChannel(v, 1), FourChannel(v, 2)
		if len(*new(I)) == 1 {
			red, green, blue := r.ConvertToFloat32().Mul(f), g.ConvertToFloat32().Mul(f), b.ConvertToFloat32().Mul(f)
			r, g = from.MulAdd(rest, red).ConvertToInt32(), from.MulAdd(rest, green).ConvertToInt32()
			b = from.MulAdd(rest, blue).ConvertToInt32()
		} else {
			red, green, blue := r.Sub(gray).ConvertToFloat32(), g.Sub(gray).ConvertToFloat32(), b.Sub(gray).ConvertToFloat32()
			r, g, b = from.Add(red.Mul(f)).ConvertToInt32(), from.Add(green.Mul(f)).ConvertToInt32(), from.Add(blue.Mul(f)).ConvertToInt32()
		}
		StoreFours(JoinFours(r, g, b), unsafe.Pointer(&dst[at]))
		v, gray = next, nextGray
	}
	Leave()
	*(*uint64)(unsafe.Pointer(&last[0])), *(*uint64)(unsafe.Pointer(&last[max(FoursRoom, 8)-8])) = front, back
	return n
}

// grayFoursAVX2 returns the gray values of fours.
func grayFoursAVX2[I ofPillow | ofTensor](v Bytes, half Dwords) Dwords {
	if len(*new(I)) == 1 {
		return tensorGrayFoursAVX2(v)
	}
	return Dot(FourPairs(v, 0), &redGreenAVX2).Add(Dot(FourPairs(v, 1), &greenBlueAVX2)).Add(half).ShiftAllRight(16)
}

// smoothAVX2 does bytes from .. end-1 of an image with rows stride bytes apart, at least a vector. The last vector
// overlaps the one before.
func smoothAVX2[I ofPillow | ofTensor](dst, src []byte, from, end, stride int, factor *float32) {
	f, six, thirteenth := BroadcastFloat(factor), BroadcastWords(6), BroadcastWords(5042)
	for at := from; at < end; at += vectorAVX2 {
		at := min(at, end-vectorAVX2)
		middle := Load(unsafe.Pointer(&src[at]))
		even, odd := EvenBytes(middle).ShiftAllLeft(2).Add(six), OddBytes(middle).ShiftAllLeft(2).Add(six)
		p := unsafe.Pointer(&src[at-stride-3])
		for range 3 {
			left, v, right := Load(p), Load(unsafe.Add(p, 3)), Load(unsafe.Add(p, 6))
			even = even.Add(EvenBytes(left)).Add(EvenBytes(v)).Add(EvenBytes(right))
			odd = odd.Add(OddBytes(left)).Add(OddBytes(v)).Add(OddBytes(right))
			p = unsafe.Add(p, stride)
		}
		even, odd = MulHigh(even, thirteenth), MulHigh(odd, thirteenth)
		if len(*new(I)) == 1 {
			even, odd = tensorBlendAVX2(even, EvenBytes(middle), f), tensorBlendAVX2(odd, OddBytes(middle), f)
		} else {
			even, odd = blendWordsAVX2(even, EvenBytes(middle), f), blendWordsAVX2(odd, OddBytes(middle), f)
		}
		Store(ToBytes(PairBytes(even, odd)), unsafe.Pointer(&dst[at]))
	}
	Leave()
}

// extremesAVX2 keeps the lowest and the highest byte of each position in three vectors of interleaved channels.
func extremesAVX2(pix []byte, low, high *[192]byte) int {
	n, all := len(pix)/pixelsAVX2*pixelsAVX2, BroadcastBytes(255)
	low0, low1, low2 := all, all, all
	var high0, high1, high2 Bytes
	for at := 0; at < n; at += pixelsAVX2 {
		p := unsafe.Pointer(&pix[at])
		v0, v1, v2 := Load(p), Load(unsafe.Add(p, vectorAVX2)), Load(unsafe.Add(p, 2*vectorAVX2))
		low0, low1, low2 = low0.Min(v0), low1.Min(v1), low2.Min(v2)
		high0, high1, high2 = high0.Max(v0), high1.Max(v1), high2.Max(v2)
	}
	to, up := unsafe.Pointer(low), unsafe.Pointer(high)
	Store(low0, to)
	Store(low1, unsafe.Add(to, vectorAVX2))
	Store(low2, unsafe.Add(to, 2*vectorAVX2))
	Store(high0, up)
	Store(high1, unsafe.Add(up, vectorAVX2))
	Store(high2, unsafe.Add(up, 2*vectorAVX2))
	Leave()
	return n
}

func replaceAVX2(dst, src []byte, tables *[3][1024]byte) int {
	n := len(src) / pixelsAVX2 * pixelsAVX2
	for at := 0; at < n; at += pixelsAVX2 {
		p := unsafe.Pointer(&src[at])
		v0, v1, v2 := LoadPixels(p)
		r := Replace(Channel(v0, v1, v2, 0), &tables[0])
		g := Replace(Channel(v0, v1, v2, 1), &tables[1])
		StoreChannels(r, g, Replace(Channel(v0, v1, v2, 2), &tables[2]), unsafe.Pointer(&dst[at]))
	}
	Leave()
	return n
}

func tableAVX2(dst, src []byte, table *[1024]byte) int {
	n := len(src) &^ (vectorAVX2 - 1)
	for at := 0; at < n; at += vectorAVX2 {
		p := unsafe.Pointer(&src[at])
		Store(Replace(Load(p), table), unsafe.Pointer(&dst[at]))
	}
	Leave()
	return n
}

// raisedAVX2 returns the bytes of a line for x, counted from the line's start.
func raisedAVX2(x, base, offset, first, second, upTo7, from8, one, half Bytes) Bytes {
	h, l := HalfOf(x).And(half), x.And(half)
	more := Take(first, l).And(Take(upTo7, h)).Or(Take(second, l).And(Take(from8, h))).Min(one)
	return Take(base, h).AddSaturated(Take(offset, l)).AddSaturated(more)
}

// lineAVX2 replaces all bytes by those of a line.
func lineAVX2(dst, src []byte, t *line) int {
	n, one, half := len(src)&^(vectorAVX2-1), BroadcastBytes(1), BroadcastBytes(15)
	start, before, always := BroadcastBytes(t.start), BroadcastBytes(t.before), BroadcastBytes(t.always)
	base, offset := Load(unsafe.Pointer(&t.base)), Load(unsafe.Pointer(&t.offset))
	first, second := Load(unsafe.Pointer(&t.first)), Load(unsafe.Pointer(&t.second))
	upTo7, from8 := Load(unsafe.Pointer(&halfBits[0])), Load(unsafe.Pointer(&halfBits[1]))
	for at := 0; at < n; at += vectorAVX2 {
		v := Load(unsafe.Pointer(&src[at]))
		after := Bytes{}.Sub(v.SubSaturated(before).Min(one)).Or(always)
		raised := raisedAVX2(v.SubSaturated(start), base, offset, first, second, upTo7, from8, one, half)
		Store(raised.And(after), unsafe.Pointer(&dst[at]))
	}
	Leave()
	return n
}

// onLineAVX2 replaces bytes by those of a line that has no step after its leading zeros.
func onLineAVX2(v Bytes, t *line, upTo7, from8, one, half Bytes) Bytes {
	return raisedAVX2(v.SubSaturated(BroadcastBytes(t.start)), Load(unsafe.Pointer(&t.base)), Load(unsafe.Pointer(&t.offset)),
		Load(unsafe.Pointer(&t.first)), Load(unsafe.Pointer(&t.second)), upTo7, from8, one, half)
}

// linesAVX2 replaces the bytes of each channel by those of its line.
func linesAVX2(dst, src []byte, t *[3]line) int {
	n, one, half := len(src)/pixelsAVX2*pixelsAVX2, BroadcastBytes(1), BroadcastBytes(15)
	upTo7, from8 := Load(unsafe.Pointer(&halfBits[0])), Load(unsafe.Pointer(&halfBits[1]))
	for at := 0; at < n; at += pixelsAVX2 {
		v0, v1, v2 := LoadPixels(unsafe.Pointer(&src[at]))
		r := onLineAVX2(Channel(v0, v1, v2, 0), &t[0], upTo7, from8, one, half)
		g := onLineAVX2(Channel(v0, v1, v2, 1), &t[1], upTo7, from8, one, half)
		b := onLineAVX2(Channel(v0, v1, v2, 2), &t[2], upTo7, from8, one, half)
		StoreChannels(r, g, b, unsafe.Pointer(&dst[at]))
	}
	Leave()
	return n
}

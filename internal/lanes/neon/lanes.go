//go:build goexperiment.simd && go1.27 && !go1.28 && arm64

// Package lanes has the vectors of NEON for kernels with one text for several instruction sets; see the generator,
// internal/lanes/generate. The generator makes common.go and channels.go from AVX2's.
package lanes

import (
	"simd/archsimd"
	"unsafe"
)

// Count is the number of 128-bit lanes in a vector.
const Count = 1

// CountShift is the logarithm of the number of dwords in a vector.
const CountShift = 2

// A Pair is two 16-bit factors for Dot: eight times the first, then eight times the second.
type Pair [16]int16

// Pairs returns a and b.
func Pairs(a, b int16) (p Pair) {
	for i := range 8 {
		p[i], p[8+i] = a, b
	}
	return p
}

// Zipped is half of the words of two vectors joined by Zip, for Dot. NEON multiplies without alternating words: only
// the lower halves of the vectors count.
type Zipped struct{ a, b Words }

// Zip joins the lower four words of a and b, and the upper four.
func Zip(a, b Words) (lo, hi Zipped) {
	a8, b8 := a.ToBits().ReshapeToUint8s(), b.ToBits().ReshapeToUint8s()
	a8, b8 = a8.ConcatShiftBytesRight(a8, 8), b8.ConcatShiftBytesRight(b8, 8)
	return Zipped{a, b}, Zipped{a8.ReshapeToUint16s().BitsToInt16(), b8.ReshapeToUint16s().BitsToInt16()}
}

// Dot returns a·k0 + b·k1 of zipped words.
func Dot(z Zipped, k *Pair) Dwords {
	return z.a.MulWidenLo(archsimd.LoadInt16x8Array((*[8]int16)(k[:8]))).Add(z.b.MulWidenLo(archsimd.LoadInt16x8Array((*[8]int16)(k[8:]))))
}

// Shifts use vectors of counts, which the compiler makes once per basic block; for archsimd's shifts by a number it would make them each
// time. A call of a function here costs a no-op for tracebacks if its line has no operation of its own.

// ShiftRight shifts words arithmetically by a constant.
func ShiftRight(v Words, n uint64) Words { return v.Shift(archsimd.BroadcastInt16x8(-int16(n))) }

// ShiftNarrow shifts dwords right by a constant up to 16 and saturates those of lo and hi to the words of one vector. Shifting
// left with saturation and taking the upper halves is the same with one instruction less.
func ShiftNarrow(lo, hi Dwords, n uint64) Words {
	return HighWords(lo.ShiftSaturated(BroadcastDwords(16-int32(n))), hi.ShiftSaturated(BroadcastDwords(16-int32(n))))
}

// ShiftToByteRange shifts dwords right by a constant from 16 on and saturates those of lo and hi to 0..255, as words of one vector.
func ShiftToByteRange(lo, hi Dwords, n uint64) Words {
	return ToByteRange(ShiftRight(HighWords(lo, hi), n-16))
}

// PairBytes makes words from bytes: the words of a are their lower halves, those of b the upper ones.
func PairBytes(a, b Words) Words {
	return a.ToBits().ReshapeToUint8s().InterleaveEven(b.ToBits().ReshapeToUint8s()).ReshapeToUint16s().BitsToInt16()
}

// IsZero reports whether all words are zero.
func IsZero(v Words) bool { return v.ToBits().ReduceMax() == 0 }

// StoreHalves stores the lower half at p, and the upper one stride bytes after it.
func StoreHalves(v Words, p unsafe.Pointer, stride int) {
	halves := v.ToBits().ReshapeToUint64s().BitsToFloat64()
	*(*float64)(p) = halves.GetElem(0)
	*(*float64)(unsafe.Add(p, stride)) = halves.GetElem(1)
}

// LoadBytes loads as many bytes as a vector has words, as words. As many more may be read.
func LoadBytes(p unsafe.Pointer) Words {
	return archsimd.LoadUint8x16Array((*[16]uint8)(p)).ExtendLo8ToUint16().BitsToInt16()
}

// MulAdd returns a·b + c.
func MulAdd(a, b, c Words) Words { return a.MulAdd(b, c) }

// MulHigh returns the upper halves of the products.
func MulHigh(a, b Words) Words { return HighWords(a.MulWidenLo(b), a.HiToLo().MulWidenLo(b.HiToLo())) }

// Half halves words and rounds up.
func Half(v Words) Words { return v.Average(Words{}) }

// HighWords returns the upper halves of the dwords of lo and hi.
func HighWords(lo, hi Dwords) Words {
	return lo.ToBits().ReshapeToUint16s().ConcatOdd(hi.ToBits().ReshapeToUint16s()).BitsToInt16()
}

// StoreLowBytes stores the words of a, which are bytes, then those of b.
func StoreLowBytes(a, b Words, p unsafe.Pointer) {
	a.ToBits().ReshapeToUint8s().ConcatEven(b.ToBits().ReshapeToUint8s()).StoreArray((*[16]uint8)(p))
}

// rgbOrder are TBL's indices from words of R | G<<8 (first two) and of B (last two) to 24 bytes RGB: to the first 16 of
// them, and to the last 16. 255 gives zero. It is a pointer, so that four loads do not need four addresses.
var rgbOrder = func() *[4][16]uint8 {
	var t [4][16]uint8
	for i := range 16 {
		for part := range 2 {
			k, rg, b := i+part*8, uint8(255), uint8(255)
			if k%3 < 2 {
				rg = uint8(k/3*2 + k%3)
			} else {
				b = uint8(k / 3)
			}
			t[part][i], t[2+part][i] = rg, b
		}
	}
	return &t
}()

// StoreRGB saturates words to 0..255 and stores them interleaved.
func StoreRGB(r, g, b Words, p unsafe.Pointer) {
	rg, bb := r.SaturateToUint8().InterleaveLo(g.SaturateToUint8()), b.SaturateToUint8()
	order := rgbOrder
	head := rg.LookupOrZero(archsimd.LoadUint8x16Array(&order[0])).Or(bb.LookupOrZero(archsimd.LoadUint8x16Array(&order[2])))
	tail := rg.LookupOrZero(archsimd.LoadUint8x16Array(&order[1])).Or(bb.LookupOrZero(archsimd.LoadUint8x16Array(&order[3])))
	head.StoreArray((*[16]uint8)(p))
	tail.StoreArray((*[16]uint8)(unsafe.Add(p, 8)))
}

// Leave does nothing: NEON has no second encoding to slow down.
func Leave() {}

// Fours are vectors with four pixels in each lane and four unused bytes, for arithmetic in dwords.

// FoursBytes is the size of four pixels. LoadFours reads FoursRoom more, and StoreFours overwrites as many more.
const (
	FoursBytes = 12
	FoursRoom  = 4
)

// Tables of fours: byte indices for the dwords of a channel, for its words, and for pixels from dwords.
var (
	fourDwords, fourWords = func() (t, u [3][16]uint8) {
		for i := range 16 {
			for c := range 3 {
				t[c][i], u[c][i] = 128, 128
				if i%4 == 0 {
					t[c][i] = uint8(i/4*3 + c)
				}
				if i%2 == 0 && i < 8 {
					u[c][i] = uint8(i/2*3 + c)
				}
			}
		}
		return t, u
	}()
	fourPixels = [16]uint8{0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, 128, 128, 128, 128}
)

// FourPairs returns channels c and c+1 of fours, as Zip joins them.
func FourPairs(v Bytes, c int) Zipped {
	return Zipped{fourWordsOf(v, c), fourWordsOf(v, c+1)}
}

func fourWordsOf(v Bytes, c int) Words {
	return Take(v, Load(unsafe.Pointer(&fourWords[c]))).ReshapeToUint16s().BitsToInt16()
}

// JoinFours makes fours from channels, saturated to 0..255.
func JoinFours(r, g, b Dwords) Bytes {
	limit := BroadcastDwords(255)
	r, g, b = r.Max(Dwords{}).Min(limit), g.Max(Dwords{}).Min(limit), b.Max(Dwords{}).Min(limit)
	return Take(r.Or(g.ShiftAllLeft(8)).Or(b.ShiftAllLeft(16)).ToBits().ReshapeToUint8s(), Load(unsafe.Pointer(&fourPixels)))
}

func LoadFours(p unsafe.Pointer) Bytes     { return Load(p) }
func StoreFours(v Bytes, p unsafe.Pointer) { Store(v, p) }

// Constants of float64 are loaded as vectors from memory, as on x86.

// LoadDoubles loads the first elements.
func LoadDoubles(v *[8]float64) Doubles { return archsimd.LoadFloat64x2Array((*[2]float64)(v[:])) }

// StoreInts stores numbers as int32, rounded towards zero.
func StoreInts(v Doubles, p unsafe.Pointer) {
	*(*float64)(p) = v.ConvertToInt64().TruncToInt32().ToBits().ReshapeToUint64s().BitsToFloat64().GetElem(0)
}

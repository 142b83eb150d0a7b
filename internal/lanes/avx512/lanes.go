//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

// Package lanes is the vectors of AVX-512 as kernels that are one text for several instruction sets see them; see the
// generator's package, internal/lanes/generate.
package lanes

import (
	"simd/archsimd"
	"unsafe"
)

// Count is the number of 128-bit lanes in a vector.
const Count = 4

// CountShift is the logarithm of the number of dwords in a vector.
const CountShift = 4

type (
	Bytes  = archsimd.Uint8x64
	Words  = archsimd.Int16x32
	Dwords = archsimd.Int32x16
)

// A Pair is two factors of 16 bits, as Dot wants them: alternating over a vector's words.
type Pair [32]int16

// Pairs returns a and b, alternating.
func Pairs(a, b int16) (p Pair) {
	for i := range 16 {
		p[2*i], p[2*i+1] = a, b
	}
	return p
}

// LoadWords loads a vector of words.
func LoadWords(p unsafe.Pointer) Words { return archsimd.LoadInt16x32Array((*[32]int16)(p)) }

// StoreWords stores a vector of words.
func StoreWords(v Words, p unsafe.Pointer) { v.StoreArray((*[32]int16)(p)) }

func BroadcastWords(x int16) Words { return archsimd.BroadcastInt16x32(x) }

func BroadcastDwords(x int32) Dwords { return archsimd.BroadcastInt32x16(x) }

// Zipped is half of two vectors of words that Zip has joined, as Dot takes it: on x86 the words alternate, by lane.
type Zipped = Words

// Zip joins the lower four words of each lane of a and b, and the upper four.
func Zip(a, b Words) (lo, hi Zipped) { return a.InterleaveLoGrouped(b), a.InterleaveHiGrouped(b) }

// Dot returns a·k0 + b·k1 of zipped words.
func Dot(z Zipped, k *Pair) Dwords {
	return z.DotProductPairs(archsimd.LoadInt16x32Array((*[32]int16)(k[:])))
}

// First is Dot with a pair (k0, 0), Second with (0, k1).
func First(z Zipped, k *Pair) Dwords  { return Dot(z, k) }
func Second(z Zipped, k *Pair) Dwords { return Dot(z, k) }

// Transpose transposes 4×8 words of each lane: c0 has columns 0 and 1, c3 has 6 and 7.
func Transpose(r0, r1, r2, r3 Words) (c0, c1, c2, c3 Words) {
	a0, a1 := r0.InterleaveLoGrouped(r1).ToBits().ReshapeToUint32s(), r0.InterleaveHiGrouped(r1).ToBits().ReshapeToUint32s()
	a2, a3 := r2.InterleaveLoGrouped(r3).ToBits().ReshapeToUint32s(), r2.InterleaveHiGrouped(r3).ToBits().ReshapeToUint32s()
	return a0.InterleaveLoGrouped(a2).ReshapeToUint16s().BitsToInt16(), a0.InterleaveHiGrouped(a2).ReshapeToUint16s().BitsToInt16(),
		a1.InterleaveLoGrouped(a3).ReshapeToUint16s().BitsToInt16(), a1.InterleaveHiGrouped(a3).ReshapeToUint16s().BitsToInt16()
}

// JoinHalves returns the lower halves of each lane of a and b, and the upper ones.
func JoinHalves(a, b Words) (lo, hi Words) {
	x, y := a.ToBits().ReshapeToUint64s(), b.ToBits().ReshapeToUint64s()
	return x.InterleaveLoGrouped(y).ReshapeToUint16s().BitsToInt16(), x.InterleaveHiGrouped(y).ReshapeToUint16s().BitsToInt16()
}

// ShiftRight shifts words arithmetically by a constant.
func ShiftRight(v Words, n uint64) Words { return v.ShiftAllRight(n) }

// ShiftNarrow shifts dwords right by a constant up to 16 and saturates those of lo and hi to the words of one vector, by lane.
func ShiftNarrow(lo, hi Dwords, n uint64) Words {
	return lo.ShiftAllRight(n).SaturateToInt16ConcatGrouped(hi.ShiftAllRight(n))
}

// ShiftToByteRange shifts dwords right by a constant from 16 on and saturates those of lo and hi to 0..255, as words of one
// vector, by lane.
func ShiftToByteRange(lo, hi Dwords, n uint64) Words {
	return lo.ShiftAllRight(n).SaturateToUint16ConcatGrouped(hi.ShiftAllRight(n)).Min(archsimd.BroadcastUint16x32(255)).BitsToInt16()
}

// ToByteRange saturates words to 0..255.
func ToByteRange(v Words) Words { return v.Max(Words{}).Min(BroadcastWords(255)) }

// PairBytes makes words of the bytes that are the words of a, in the lower halves, and of b.
func PairBytes(a, b Words) Words { return a.Or(b.ShiftAllLeft(8)) }

// IsZero reports whether all words are zero.
func IsZero(v Words) bool { return v.NotEqual(Words{}).ToBits() == 0 }

// splitLanes gathers the lower halves of all lanes before the upper ones.
var splitLanes = [8]uint64{0, 2, 4, 6, 1, 3, 5, 7}

// StoreHalves stores the lower halves of all lanes at p, and the upper ones stride bytes behind.
func StoreHalves(v Words, p unsafe.Pointer, stride int) {
	halves := v.ToBits().ReshapeToUint64s().Permute(archsimd.LoadUint64x8Array(&splitLanes)).ReshapeToUint8s()
	halves.GetLo().StoreArray((*[32]uint8)(p))
	halves.GetHi().StoreArray((*[32]uint8)(unsafe.Add(p, stride)))
}

// LoadBytes loads as many bytes as a vector has words, as words.
func LoadBytes(p unsafe.Pointer) Words {
	return archsimd.LoadUint8x32Array((*[32]uint8)(p)).ExtendToUint16().BitsToInt16()
}

// MulAdd returns a·b + c.
func MulAdd(a, b, c Words) Words { return a.Mul(b).Add(c) }

// MulHigh returns the upper halves of the products.
func MulHigh(a, b Words) Words { return a.MulHigh(b) }

// Half halves words and rounds up.
func Half(v Words) Words { return v.Sub(v.ShiftAllRight(1)) }

// HighWords returns the upper halves of the dwords of lo and hi, by lane.
func HighWords(lo, hi Dwords) Words { return ShiftNarrow(lo, hi, 16) }

var firstWord = func() (t [64]int8) {
	for i := range t {
		t[i] = int8(i & 1)
	}
	return t
}()

// SpreadFirst puts the first word of each lane in all its places.
func SpreadFirst(v Words) Words {
	return v.ToBits().ReshapeToUint8s().PermuteOrZeroGrouped(archsimd.LoadInt8x64Array(&firstWord)).ReshapeToUint16s().BitsToInt16()
}

// StoreLowBytes stores the bytes that are the words of a, then those of b.
func StoreLowBytes(a, b Words, p unsafe.Pointer) {
	a.ToBits().TruncToUint8().StoreArray((*[32]uint8)(p))
	b.ToBits().TruncToUint8().StoreArray((*[32]uint8)(unsafe.Add(p, 32)))
}

// rgbOrder are indices into 32 bytes of R, 32 of G and 32 of B that interleave them to 96 bytes.
var rgbOrder = func() (t [128]uint8) {
	for i := range 96 {
		t[i] = uint8(i%3*32 + i/3)
	}
	return t
}()

// StoreRGB saturates words to 0..255 and stores them interleaved.
func StoreRGB(r, g, b Words, p unsafe.Pointer) {
	zero := Words{}
	var rg, bb archsimd.Uint8x64
	rg = rg.SetLo(r.Max(zero).ToBits().SaturateToUint8()).SetHi(g.Max(zero).ToBits().SaturateToUint8())
	bb = bb.SetLo(b.Max(zero).ToBits().SaturateToUint8())
	rg.ConcatPermute(bb, archsimd.LoadUint8x64Array((*[64]uint8)(rgbOrder[:]))).StoreArray((*[64]uint8)(p))
	rg.ConcatPermute(bb, archsimd.LoadUint8x64Array((*[64]uint8)(rgbOrder[64:]))).GetLo().StoreArray((*[32]uint8)(unsafe.Add(p, 64)))
}

// tripled repeats each of 32 bytes three times.
var tripled = func() (t [128]uint8) {
	for i := range 96 {
		t[i] = uint8(i / 3)
	}
	return t
}()

// StoreTripled stores each of the bytes that LoadBytes would load three times.
func StoreTripled(from, to unsafe.Pointer) {
	var v archsimd.Uint8x64
	v = v.SetLo(archsimd.LoadUint8x32Array((*[32]uint8)(from)))
	v.Permute(archsimd.LoadUint8x64Array((*[64]uint8)(tripled[:]))).StoreArray((*[64]uint8)(to))
	v.Permute(archsimd.LoadUint8x64Array((*[64]uint8)(tripled[64:]))).GetLo().StoreArray((*[32]uint8)(unsafe.Add(to, 64)))
}

// Leave clears what would slow down other code's legacy-encoded instructions. Kernels call it before they return.
func Leave() { archsimd.ClearAVXUpperBits() }

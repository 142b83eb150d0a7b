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

// Zip makes of two vectors of words what DotLo and DotHi take: on x86 the words alternating, by lane.
func Zip(a, b Words) (lo, hi Words) { return a.InterleaveLoGrouped(b), a.InterleaveHiGrouped(b) }

// DotLo returns a·k0 + b·k1 for the lower four words of each lane, of a and b as Zip left them.
func DotLo(lo, hi Words, k *Pair) Dwords {
	return lo.DotProductPairs(archsimd.LoadInt16x32Array((*[32]int16)(k[:])))
}

// DotHi is DotLo for the upper four words.
func DotHi(lo, hi Words, k *Pair) Dwords {
	return hi.DotProductPairs(archsimd.LoadInt16x32Array((*[32]int16)(k[:])))
}

// Lo16, Hi16, Lo32, Hi32, Lo64 and Hi64 interleave the words, dwords or qwords of the lanes' lower or upper halves.
func Lo16(a, b Words) Words { return a.InterleaveLoGrouped(b) }
func Hi16(a, b Words) Words { return a.InterleaveHiGrouped(b) }
func Lo32(a, b Words) Words {
	return a.ToBits().ReshapeToUint32s().InterleaveLoGrouped(b.ToBits().ReshapeToUint32s()).ReshapeToUint16s().BitsToInt16()
}
func Hi32(a, b Words) Words {
	return a.ToBits().ReshapeToUint32s().InterleaveHiGrouped(b.ToBits().ReshapeToUint32s()).ReshapeToUint16s().BitsToInt16()
}
func Lo64(a, b Words) Words {
	return a.ToBits().ReshapeToUint64s().InterleaveLoGrouped(b.ToBits().ReshapeToUint64s()).ReshapeToUint16s().BitsToInt16()
}
func Hi64(a, b Words) Words {
	return a.ToBits().ReshapeToUint64s().InterleaveHiGrouped(b.ToBits().ReshapeToUint64s()).ReshapeToUint16s().BitsToInt16()
}

// NarrowSigned saturates the dwords of lo and hi to the words of one vector, by lane.
func NarrowSigned(lo, hi Dwords) Words { return lo.SaturateToInt16ConcatGrouped(hi) }

// NarrowToByteRange saturates the dwords of lo and hi to 0..255, as words of one vector, by lane.
func NarrowToByteRange(lo, hi Dwords) Words {
	return lo.SaturateToUint16ConcatGrouped(hi).Min(archsimd.BroadcastUint16x32(255)).BitsToInt16()
}

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

// HighWords returns the upper halves of the dwords of lo and hi, by lane.
func HighWords(lo, hi Dwords) Words { return NarrowSigned(lo.ShiftAllRight(16), hi.ShiftAllRight(16)) }

// PairBytes makes words of the bytes that are the words of a, in the lower halves, and of b.
func PairBytes(a, b Words) Words { return a.Or(b.ShiftAllLeft(8)) }

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

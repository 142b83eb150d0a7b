//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

// Package lanes is the vectors of AVX2 as kernels that are one text for several instruction sets see them; see the
// generator's package, internal/lanes/generate.
package lanes

import (
	"simd/archsimd"
	"unsafe"
)

// Count is the number of 128-bit lanes in a vector.
const Count = 2

type (
	Bytes  = archsimd.Uint8x32
	Words  = archsimd.Int16x16
	Dwords = archsimd.Int32x8
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
func LoadWords(p unsafe.Pointer) Words { return archsimd.LoadInt16x16Array((*[16]int16)(p)) }

// StoreWords stores a vector of words.
func StoreWords(v Words, p unsafe.Pointer) { v.StoreArray((*[16]int16)(p)) }

func BroadcastWords(x int16) Words { return archsimd.BroadcastInt16x16(x) }

func BroadcastDwords(x int32) Dwords { return archsimd.BroadcastInt32x8(x) }

// Zip makes of two vectors of words what DotLo and DotHi take: on x86 the words alternating, by lane.
func Zip(a, b Words) (lo, hi Words) { return a.InterleaveLoGrouped(b), a.InterleaveHiGrouped(b) }

// DotLo returns a·k0 + b·k1 for the lower four words of each lane, of a and b as Zip left them.
func DotLo(lo, hi Words, k *Pair) Dwords {
	return lo.DotProductPairs(archsimd.LoadInt16x16Array((*[16]int16)(k[:])))
}

// DotHi is DotLo for the upper four words.
func DotHi(lo, hi Words, k *Pair) Dwords {
	return hi.DotProductPairs(archsimd.LoadInt16x16Array((*[16]int16)(k[:])))
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
	return lo.SaturateToUint16ConcatGrouped(hi).Min(archsimd.BroadcastUint16x16(255)).BitsToInt16()
}

// IsZero reports whether all words are zero.
func IsZero(v Words) bool { return v.IsZero() }

// splitLanes gathers the lower halves of both lanes before the upper ones.
var splitLanes = [8]uint32{0, 1, 4, 5, 2, 3, 6, 7}

// StoreHalves stores the lower halves of all lanes at p, and the upper ones stride bytes behind.
func StoreHalves(v Words, p unsafe.Pointer, stride int) {
	halves := v.ToBits().ReshapeToUint32s().Permute(archsimd.LoadUint32x8Array(&splitLanes)).ReshapeToUint8s()
	halves.GetLo().StoreArray((*[16]uint8)(p))
	halves.GetHi().StoreArray((*[16]uint8)(unsafe.Add(p, stride)))
}

// LoadBytes loads as many bytes as a vector has words, as words.
func LoadBytes(p unsafe.Pointer) Words {
	return archsimd.LoadUint8x16Array((*[16]uint8)(p)).ExtendToUint16().BitsToInt16()
}

// MulAdd returns a·b + c.
func MulAdd(a, b, c Words) Words { return a.Mul(b).Add(c) }

// MulHigh returns the upper halves of the products.
func MulHigh(a, b Words) Words { return a.MulHigh(b) }

// HighWords returns the upper halves of the dwords of lo and hi, by lane.
func HighWords(lo, hi Dwords) Words { return NarrowSigned(lo.ShiftAllRight(16), hi.ShiftAllRight(16)) }

// PairBytes makes words of the bytes that are the words of a, in the lower halves, and of b.
func PairBytes(a, b Words) Words { return a.Or(b.ShiftAllLeft(8)) }

var firstWord = func() (t [32]int8) {
	for i := range t {
		t[i] = int8(i & 1)
	}
	return t
}()

// SpreadFirst puts the first word of each lane in all its places.
func SpreadFirst(v Words) Words {
	return v.ToBits().ReshapeToUint8s().PermuteOrZeroGrouped(archsimd.LoadInt8x32Array(&firstWord)).ReshapeToUint16s().BitsToInt16()
}

// splitBytes gathers the even bytes of each lane before the odd ones.
var splitBytes = func() (t [32]int8) {
	for i := range t {
		t[i] = int8(i&7*2 + i>>3&1)
	}
	return t
}()

// StoreLowBytes stores the bytes that are the words of a, then those of b.
func StoreLowBytes(a, b Words, p unsafe.Pointer) {
	v := PairBytes(a, b).ToBits().ReshapeToUint8s().PermuteOrZeroGrouped(archsimd.LoadInt8x32Array(&splitBytes))
	v.ReshapeToUint32s().Permute(archsimd.LoadUint32x8Array(&splitLanes)).ReshapeToUint8s().StoreArray((*[32]uint8)(p))
}

// rgbOrder are VPSHUFB's indices from words of R | G<<8 (first two) and of B (last two), for eight pixels in each lane,
// to 24 bytes RGB: to the first 16 of them, and to the last 8 in the lower lane, the last 16 in the upper; -128 gives zero.
var rgbOrder = func() (t [4][32]int8) {
	for i := range 32 {
		for part := range 2 {
			k := i&15 + part*(16-i>>4*8)
			rg, b := int8(-128), int8(-128)
			switch {
			case k < 24 && k%3 < 2:
				rg = int8(k/3*2 + k%3)
			case k < 24:
				b = int8(k / 3 * 2)
			}
			t[part][i], t[2+part][i] = rg, b
		}
	}
	return t
}()

// StoreRGB saturates words to 0..255 and stores them interleaved.
func StoreRGB(r, g, b Words, p unsafe.Pointer) {
	zero, top := Words{}, BroadcastWords(255)
	rg := PairBytes(r.Max(zero).Min(top), g.Max(zero).Min(top)).ToBits().ReshapeToUint8s()
	bb := b.Max(zero).Min(top).ToBits().ReshapeToUint8s()
	head := rg.PermuteOrZeroGrouped(archsimd.LoadInt8x32Array(&rgbOrder[0])).Or(bb.PermuteOrZeroGrouped(archsimd.LoadInt8x32Array(&rgbOrder[2])))
	tail := rg.PermuteOrZeroGrouped(archsimd.LoadInt8x32Array(&rgbOrder[1])).Or(bb.PermuteOrZeroGrouped(archsimd.LoadInt8x32Array(&rgbOrder[3])))
	head.GetLo().StoreArray((*[16]uint8)(p))
	tail.GetLo().StoreArray((*[16]uint8)(unsafe.Add(p, 16))) // eight bytes, and eight that the next store writes
	head.GetHi().StoreArray((*[16]uint8)(unsafe.Add(p, 24)))
	tail.GetHi().StoreArray((*[16]uint8)(unsafe.Add(p, 32)))
}

// tripled repeats each of 16 bytes three times: bytes 0 to 31, and 32 to 47.
var tripled = func() (t [64]int8) {
	for i := range 48 {
		t[i] = int8(i / 3)
	}
	return t
}()

// StoreTripled stores each of the bytes that LoadBytes would load three times.
func StoreTripled(from, to unsafe.Pointer) {
	v := archsimd.LoadUint8x16Array((*[16]uint8)(from))
	both := archsimd.Uint8x32{}.SetLo(v).SetHi(v)
	both.PermuteOrZeroGrouped(archsimd.LoadInt8x32Array((*[32]int8)(tripled[:]))).StoreArray((*[32]uint8)(to))
	both.PermuteOrZeroGrouped(archsimd.LoadInt8x32Array((*[32]int8)(tripled[32:]))).GetLo().StoreArray((*[16]uint8)(unsafe.Add(to, 32)))
}

// Leave clears what would slow down other code's legacy-encoded instructions. Kernels call it before they return.
func Leave() { archsimd.ClearAVXUpperBits() }

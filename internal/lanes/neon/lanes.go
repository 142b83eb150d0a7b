//go:build goexperiment.simd && go1.27 && !go1.28 && arm64

// Package lanes is the vectors of NEON as kernels that are one text for several instruction sets see them; see the
// generator's package, internal/lanes/generate.
package lanes

import (
	"simd/archsimd"
	"unsafe"
)

// Count is the number of 128-bit lanes in a vector.
const Count = 1

type (
	Bytes  = archsimd.Uint8x16
	Words  = archsimd.Int16x8
	Dwords = archsimd.Int32x4
)

// A Pair is two factors of 16 bits, as Dot wants them: eight times the one, then eight times the other.
type Pair [16]int16

// Pairs returns a and b.
func Pairs(a, b int16) (p Pair) {
	for i := range 8 {
		p[i], p[8+i] = a, b
	}
	return p
}

// LoadWords loads a vector of words.
func LoadWords(p unsafe.Pointer) Words { return archsimd.LoadInt16x8Array((*[8]int16)(p)) }

// StoreWords stores a vector of words.
func StoreWords(v Words, p unsafe.Pointer) { v.StoreArray((*[8]int16)(p)) }

func BroadcastWords(x int16) Words { return archsimd.BroadcastInt16x8(x) }

func BroadcastDwords(x int32) Dwords { return archsimd.BroadcastInt32x4(x) }

// Zip makes of two vectors of words what DotLo and DotHi take. NEON multiplies without alternating words.
func Zip(a, b Words) (lo, hi Words) { return a, b }

// DotLo returns a·k0 + b·k1 for the lower four words.
func DotLo(a, b Words, k *Pair) Dwords {
	return a.MulWidenLo(archsimd.LoadInt16x8Array((*[8]int16)(k[:8]))).Add(b.MulWidenLo(archsimd.LoadInt16x8Array((*[8]int16)(k[8:]))))
}

// DotHi is DotLo for the upper four words.
func DotHi(a, b Words, k *Pair) Dwords {
	k0, k1 := archsimd.LoadInt16x8Array((*[8]int16)(k[:8])), archsimd.LoadInt16x8Array((*[8]int16)(k[8:]))
	return a.HiToLo().MulWidenLo(k0.HiToLo()).Add(b.HiToLo().MulWidenLo(k1.HiToLo()))
}

// Lo16, Hi16, Lo32, Hi32, Lo64 and Hi64 interleave the words, dwords or qwords of the lower or upper halves.
func Lo16(a, b Words) Words { return a.InterleaveLo(b) }
func Hi16(a, b Words) Words { return a.InterleaveHi(b) }
func Lo32(a, b Words) Words {
	return a.ToBits().ReshapeToUint32s().InterleaveLo(b.ToBits().ReshapeToUint32s()).ReshapeToUint16s().BitsToInt16()
}
func Hi32(a, b Words) Words {
	return a.ToBits().ReshapeToUint32s().InterleaveHi(b.ToBits().ReshapeToUint32s()).ReshapeToUint16s().BitsToInt16()
}
func Lo64(a, b Words) Words {
	return a.ToBits().ReshapeToUint64s().InterleaveLo(b.ToBits().ReshapeToUint64s()).ReshapeToUint16s().BitsToInt16()
}
func Hi64(a, b Words) Words {
	return a.ToBits().ReshapeToUint64s().InterleaveHi(b.ToBits().ReshapeToUint64s()).ReshapeToUint16s().BitsToInt16()
}

// joinHalves puts the lower half of hi above that of lo.
func joinHalves(lo, hi archsimd.Uint64x2) archsimd.Uint64x2 {
	return lo.BitsToFloat64().SetElem(1, hi.BitsToFloat64().GetElem(0)).ToBits()
}

// NarrowSigned saturates the dwords of lo and hi to the words of one vector.
func NarrowSigned(lo, hi Dwords) Words {
	return joinHalves(lo.SaturateToInt16().ToBits().ReshapeToUint64s(), hi.SaturateToInt16().ToBits().ReshapeToUint64s()).ReshapeToUint16s().BitsToInt16()
}

// NarrowToByteRange saturates the dwords of lo and hi to 0..255, as words of one vector.
func NarrowToByteRange(lo, hi Dwords) Words {
	v := joinHalves(lo.SaturateToUint16().ReshapeToUint64s(), hi.SaturateToUint16().ReshapeToUint64s()).ReshapeToUint16s()
	return v.Min(archsimd.BroadcastUint16x8(255)).BitsToInt16()
}

// IsZero reports whether all words are zero.
func IsZero(v Words) bool { return v.ToBits().ReduceMax() == 0 }

// StoreHalves stores the lower half at p, and the upper one stride bytes behind.
func StoreHalves(v Words, p unsafe.Pointer, stride int) {
	halves := v.ToBits().ReshapeToUint64s().BitsToFloat64()
	*(*float64)(p) = halves.GetElem(0)
	*(*float64)(unsafe.Add(p, stride)) = halves.GetElem(1)
}

// Leave does nothing: NEON has no second encoding that would slow down.
func Leave() {}

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

// Leave clears what would slow down other code's legacy-encoded instructions. Kernels call it before they return.
func Leave() { archsimd.ClearAVXUpperBits() }

//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package lanes

// The functions with the same text for AVX2 and AVX-512, except for the width of vectors.

import (
	"simd/archsimd"
	"unsafe"
)

// Pairs returns a and b, alternating.
func Pairs(a, b int16) (p Pair) {
	for i := range 16 {
		p[2*i], p[2*i+1] = a, b
	}
	return p
}

// Zipped is half of the words of two vectors joined by Zip, for Dot: on x86 the words alternate, by lane.
type Zipped = Words

// Zip joins the lower four words of each lane of a and b, and the upper four.
func Zip(a, b Words) (lo, hi Zipped) { return a.InterleaveLoGrouped(b), a.InterleaveHiGrouped(b) }

// Dot returns a·k0 + b·k1 of zipped words.
func Dot(z Zipped, k *Pair) Dwords {
	return z.DotProductPairs(archsimd.LoadInt16x16Array((*[16]int16)(k[:])))
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
	return lo.ShiftAllRight(n).SaturateToUint16ConcatGrouped(hi.ShiftAllRight(n)).Min(archsimd.BroadcastUint16x16(255)).BitsToInt16()
}

// PairBytes makes words from bytes: the words of a are their lower halves, those of b the upper ones.
func PairBytes(a, b Words) Words { return a.Or(b.ShiftAllLeft(8)) }

// LoadBytes loads as many bytes as a vector has words, as words.
func LoadBytes(p unsafe.Pointer) Words {
	return archsimd.LoadUint8x16Array((*[16]uint8)(p)).ExtendToUint16().BitsToInt16()
}

// MulAdd returns a·b + c.
func MulAdd(a, b, c Words) Words { return a.Mul(b).Add(c) }

// MulHigh returns the upper halves of the products.
func MulHigh(a, b Words) Words { return a.MulHigh(b) }

// Half halves words and rounds up.
func Half(v Words) Words { return v.Sub(v.ShiftAllRight(1)) }

// HighWords returns the upper halves of the dwords of lo and hi, by lane.
func HighWords(lo, hi Dwords) Words { return ShiftNarrow(lo, hi, 16) }

// Leave clears the upper halves of registers, which would slow down other code's SSE instructions. Kernels call it before they return.
func Leave() { archsimd.ClearAVXUpperBits() }

// Take returns the bytes of each lane at the indices, and 0 for an index from 128 on. Other indices must be below 16.
func Take(v, indices Bytes) Bytes { return v.PermuteOrZeroGrouped(indices.BitsToInt8()) }

// Sums are partial sums of bytes.
type Sums = archsimd.Uint64x4

// AddBytes adds the bytes of v to sums. A sum can hold at least 65,535.
func AddBytes(sums Sums, v Bytes) Sums { return sums.Add(v.SumOf8AbsDiff(Bytes{})) }

// Tables of fours: byte indices for the dwords of a channel, for the alternating words of two channels, and for pixels
// from words of R and G, and of B.
var fourDwords, fourPairs, fourPixels = func() (t, u, w [3][16 * Count]uint8) {
	for i := range 16 * Count {
		at := i % 16
		for c := range 3 {
			t[c][i], u[c][i], w[c][i] = 128, 128, 128
			if at%4 == 0 {
				t[c][i] = uint8(at/4*3 + c)
			}
			if at%2 == 0 {
				u[c][i] = uint8(at/4*3 + (c+at/2%2)%3)
			}
		}
		switch pixel := uint8(at / 3); {
		case at >= 12:
		case at%3 == 2:
			w[1][i] = 2 * pixel
		default:
			w[0][i] = 2*pixel + uint8(8*(at%3))
		}
	}
	return t, u, w
}()

// FourPairs returns channels c and c+1 of fours, as Zip joins them.
func FourPairs(v Bytes, c int) Zipped {
	return Take(v, Load(unsafe.Pointer(&fourPairs[c]))).ReshapeToUint16s().BitsToInt16()
}

// JoinFours makes fours from channels, saturated to 0..255.
func JoinFours(r, g, b Dwords) Bytes {
	limit := archsimd.BroadcastUint16x16(255)
	rg := r.SaturateToUint16ConcatGrouped(g).Min(limit).ReshapeToUint8s()
	bb := b.SaturateToUint16ConcatGrouped(b).Min(limit).ReshapeToUint8s()
	return Take(rg, Load(unsafe.Pointer(&fourPixels[0]))).Or(Take(bb, Load(unsafe.Pointer(&fourPixels[1]))))
}

// Sums of bytes times weights of up to 24 bits, two taps at a time: a dword of a vector of pairs holds the bytes of two
// taps as words. Weights exceed the words of VPMADDWD, so each is high·2¹¹ + low with low in -1024..1023. Two
// multiplications of the pairs give exactly, modulo 2³²:
//
//	sum = ((Σ high·byte + 1024) << 11) + Σ low·byte      (1024 << 11 is the rounding, half of 1 << 22)
//
// Sums without clipping use low parts, and thus everything, four times as large: a shift of 13 instead of 11 makes the
// result the sum's top byte.
const (
	splitBits = 11
	splitHalf = 1 << (splitBits - 1)
)

// SplitWeights converts the weights of two taps for MulPairs. top means that the result is the sum's top byte.
func SplitWeights(k0, k1 Dwords, top bool) (high, low Dwords) {
	half, word := BroadcastDwords(splitHalf), BroadcastDwords(0xffff)
	high0, high1 := k0.Add(half).ShiftAllRight(splitBits), k1.Add(half).ShiftAllRight(splitBits)
	low0, low1 := k0.Sub(high0.ShiftAllLeft(splitBits)), k1.Sub(high1.ShiftAllLeft(splitBits))
	if top {
		low0, low1 = low0.ShiftAllLeft(2), low1.ShiftAllLeft(2)
	}
	return high0.And(word).Or(high1.ShiftAllLeft(16)), low0.And(word).Or(low1.ShiftAllLeft(16))
}

// SplitWeight is SplitWeights for one dword.
func SplitWeight(k0, k1 int32, top bool) (high, low int32) {
	high0, high1 := (k0+splitHalf)>>splitBits, (k1+splitHalf)>>splitBits
	low0, low1 := k0-high0<<splitBits, k1-high1<<splitBits
	if top {
		low0, low1 = low0<<2, low1<<2
	}
	return high0&0xffff | high1<<16, low0&0xffff | low1<<16
}

// SumStart returns the initial value of sums.
func SumStart(_ bool) Dwords { return BroadcastDwords(splitHalf) }

// TopByteStart returns the initial value of sums with weights of 24 fractional bits: their result is the top byte.
func TopByteStart() Dwords { return BroadcastDwords(1 << (23 - splitBits)) }

// MulPairs begins the two parts of a sum.
func MulPairs(start Dwords, pairs, high, low Words) (Dwords, Dwords) {
	return pairs.DotProductPairs(high).Add(start), pairs.DotProductPairs(low)
}

// MulAddPairs adds to the two parts of a sum.
func MulAddPairs(sumHigh, sumLow Dwords, pairs, high, low Words) (Dwords, Dwords) {
	return sumHigh.Add(pairs.DotProductPairs(high)), sumLow.Add(pairs.DotProductPairs(low))
}

// Raise returns the addend for the low part of a sum.
func Raise(high Dwords, top bool) Dwords {
	if top {
		return high.ShiftAllLeft(splitBits + 2)
	}
	return high.ShiftAllLeft(splitBits)
}

// WholeStart returns the initial value of sums for AddPairs, which keeps them in one part.
func WholeStart(top bool) Dwords { return Raise(SumStart(top), top) }

// AddPairs adds two taps to sums.
func AddPairs(sum Dwords, pairs, high, low Words, top bool) Dwords {
	return sum.Add(Raise(pairs.DotProductPairs(high), top)).Add(pairs.DotProductPairs(low))
}

// StoreInts stores numbers as int32, rounded towards zero.
func StoreInts(v Doubles, p unsafe.Pointer) { v.ConvertToInt32().StoreArray((*[4]int32)(p)) }

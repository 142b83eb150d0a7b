//go:build goexperiment.simd && go1.27 && !go1.28 && arm64

package lanes

import (
	"simd/archsimd"
	"unsafe"
)

// Sums of bytes times weights of up to 24 bits, two taps at a time: a dword of a vector of pairs holds the bytes of two taps as words, a +
// b·2¹⁶. NEON multiplies dwords, modulo 2³², so a·k0 + b·k1 is (a + b·2¹⁶)·k0 + b·(k1 - k0·2¹⁶), and only the upper word must be extracted.
// Sums begin with half of the rounding unit. Sums without clipping are four times as large, so that the result is the top byte.

// SplitWeights converts the weights of two taps for MulPairs. top means that the result is the sum's top byte.
func SplitWeights(k0, k1 Dwords, top bool) (high, low Dwords) {
	if top {
		k0, k1 = k0.ShiftAllLeft(2), k1.ShiftAllLeft(2)
	}
	return k0, k1.Sub(k0.ShiftAllLeft(16))
}

// SplitWeight is SplitWeights for one dword.
func SplitWeight(k0, k1 int32, top bool) (high, low int32) {
	if top {
		k0, k1 = k0<<2, k1<<2
	}
	return k0, k1 - k0<<16
}

// SumStart returns the initial value of sums.
func SumStart(top bool) Dwords {
	if top {
		return BroadcastDwords(1 << 23)
	}
	return BroadcastDwords(1 << 21)
}

// TopByteStart returns the initial value of sums with weights of 24 fractional bits: their result is the top byte.
func TopByteStart() Dwords { return BroadcastDwords(1 << 23) }

// MulPairs begins the two parts of a sum.
func MulPairs(start Dwords, pairs, high, low Words) (Dwords, Dwords) {
	w := pairs.ToBits().ReshapeToUint32s()
	return w.BitsToInt32().MulAdd(dwords(high), start), w.ShiftAllRight(16).BitsToInt32().Mul(dwords(low))
}

// MulAddPairs adds to the two parts of a sum.
func MulAddPairs(sumHigh, sumLow Dwords, pairs, high, low Words) (Dwords, Dwords) {
	w := pairs.ToBits().ReshapeToUint32s()
	return w.BitsToInt32().MulAdd(dwords(high), sumHigh), w.ShiftAllRight(16).BitsToInt32().MulAdd(dwords(low), sumLow)
}

func dwords(v Words) Dwords { return v.ToBits().ReshapeToUint32s().BitsToInt32() }

// Raise returns the addend for the low part of a sum: here the high part.
func Raise(high Dwords, _ bool) Dwords { return high }

// WholeStart returns the initial value of sums for AddPairs, which keeps them in one part.
func WholeStart(top bool) Dwords { return SumStart(top) }

// AddPairs adds two taps to sums.
func AddPairs(sum Dwords, pairs, high, low Words, _ bool) Dwords {
	w := pairs.ToBits().ReshapeToUint32s()
	return w.ShiftAllRight(16).BitsToInt32().MulAdd(dwords(low), w.BitsToInt32().MulAdd(dwords(high), sum))
}

// spreads repeats a dword.
var spreads = [4][16]uint8{
	{0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3}, {4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7},
	{8, 9, 10, 11, 8, 9, 10, 11, 8, 9, 10, 11, 8, 9, 10, 11}, {12, 13, 14, 15, 12, 13, 14, 15, 12, 13, 14, 15, 12, 13, 14, 15},
}

// PairTables returns the tables of TopPairs and ClipPairs, which only x86 needs.
func PairTables() (top0, top1, clip Bytes) { return }

// TopPairs makes pairs of words from two vectors' top bytes.
func TopPairs(x, y Dwords, _, _ Bytes) Words {
	return upperPairs(x, y).ShiftAllRight(8).BitsToInt16()
}

// ClipPairs makes pairs of words from two vectors' sums, clipped to 0..255.
func ClipPairs(x, y Dwords, _ Bytes) Words {
	return clip(upperPairs(x, y)).ExtendLo8ToUint16().BitsToInt16()
}

// upperPairs alternates the upper words of two vectors, and upperWords returns those of the first before those of the second.
func upperPairs(x, y Dwords) archsimd.Uint16x8 {
	return x.ToBits().ReshapeToUint16s().InterleaveOdd(y.ToBits().ReshapeToUint16s())
}

func upperWords(x, y Dwords) archsimd.Uint16x8 {
	return x.ToBits().ReshapeToUint16s().ConcatOdd(y.ToBits().ReshapeToUint16s())
}

// clip rounds the upper words of sums down to whole numbers, and saturates them to bytes, in the vector's lower half.
func clip(upper archsimd.Uint16x8) archsimd.Uint8x16 {
	return upper.BitsToInt16().ShiftAllRight(22 - 16).SaturateToUint8()
}

// joinLower puts the lower half of hi above that of lo, in a form that the compiler fuses with clip's last instruction.
func joinLower(lo, hi Bytes) Bytes {
	upper := hi.ReshapeToUint64s().BitsToFloat64().GetElem(0)
	return lo.ReshapeToUint64s().BitsToFloat64().SetElem(1, upper).ToBits().ReshapeToUint8s()
}

// PackTable is the type of PackTops' and PackClipped's table, which only x86 needs.
type PackTable = archsimd.Uint8x16

// PackTables returns the tables of PackTops and PackClipped.
func PackTables() (bytes, dwords PackTable) { return }

// PackTops joins the top bytes of four vectors.
func PackTops(a, b, c, d Dwords, _, _ PackTable) Bytes {
	return upperWords(a, b).ReshapeToUint8s().ConcatOdd(upperWords(c, d).ReshapeToUint8s())
}

// PackClipped joins the sums of four vectors, clipped to 0..255.
func PackClipped(a, b, c, d Dwords, _, _ PackTable) Bytes {
	return joinLower(clip(upperWords(a, b)), clip(upperWords(c, d)))
}

// JoinTops interleaves the top bytes of even and odd outputs, of the first half and of the second.
func JoinTops(even0, odd0, even1, odd1 Dwords) Bytes {
	return upperPairs(even0, odd0).ReshapeToUint8s().ConcatOdd(upperPairs(even1, odd1).ReshapeToUint8s())
}

// JoinClipped is JoinTops for sums, clipped to 0..255.
func JoinClipped(even0, odd0, even1, odd1 Dwords) Bytes {
	return joinLower(clip(upperPairs(even0, odd0)), clip(upperPairs(even1, odd1)))
}

// Spread spreads dword j over the vector.
func Spread(v Dwords, j int) Dwords {
	return v.ToBits().ReshapeToUint8s().LookupOrZero(archsimd.LoadUint8x16Array(&spreads[j])).ReshapeToUint32s().BitsToInt32()
}

// LoadApart loads 16 bytes from the first address.
func LoadApart(a, _ unsafe.Pointer) Bytes { return Load(a) }

// Offsets returns the lane's offset first.
func Offsets(p *int32) (a, b int) { return int(*p), 0 }

// TripleTable returns the table of StoreTriples, which only x86 needs.
func TripleTable() PackTable { return PackTable{} }

// StoreTriples stores the first three dwords, and overwrites a vector's length.
func StoreTriples(v Words, p unsafe.Pointer, _ PackTable) { StoreWords(v, p) }

//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package lanes

import (
	"simd/archsimd"
	"unsafe"
)

// Sums of bytes times weights of up to 24 bits, two taps at a time: a dword of a vector of pairs holds the bytes of two
// taps as words. Weights do not fit the words that VPMADDWD multiplies, so each is high·2¹¹ + low with low in -1024..1023,
// and two multiplications of the pairs give, exactly, modulo 2³²,
//
//	sum = ((Σ high·byte + 1024) << 11) + Σ low·byte      (1024 << 11 is the rounding, half of 1 << 22)
//
// Sums that need no clipping are made with low parts, and thus everything, four times as large: a shift of 13 instead of
// 11 makes the result the sum's top byte.
const (
	splitBits = 11
	splitHalf = 1 << (splitBits - 1)
)

// SplitWeights makes of the weights of two taps what MulPairs takes; top says that the result is the sum's top byte.
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

// SumStart returns what sums begin with.
func SumStart(_ bool) Dwords { return BroadcastDwords(splitHalf) }

// TopByteStart returns what sums begin with of weights with 24 bits of fraction, whose result is the top byte without more.
func TopByteStart() Dwords { return BroadcastDwords(1 << (23 - splitBits)) }

// MulPairs begins the two parts of a sum.
func MulPairs(start Dwords, pairs, high, low Words) (Dwords, Dwords) {
	return pairs.DotProductPairs(high).Add(start), pairs.DotProductPairs(low)
}

// MulAddPairs adds to them.
func MulAddPairs(sumHigh, sumLow Dwords, pairs, high, low Words) (Dwords, Dwords) {
	return sumHigh.Add(pairs.DotProductPairs(high)), sumLow.Add(pairs.DotProductPairs(low))
}

// Raise returns what the low part of a sum must be added to.
func Raise(high Dwords, top bool) Dwords {
	if top {
		return high.ShiftAllLeft(splitBits + 2)
	}
	return high.ShiftAllLeft(splitBits)
}

// WholeStart returns what sums begin with that AddPairs adds to, which keeps them in one part.
func WholeStart(top bool) Dwords { return Raise(SumStart(top), top) }

// AddPairs adds two taps to sums.
func AddPairs(sum Dwords, pairs, high, low Words, top bool) Dwords {
	return sum.Add(Raise(pairs.DotProductPairs(high), top)).Add(pairs.DotProductPairs(low))
}

// Interleave returns the words of two vectors by turns, of the lanes' lower halves and of their upper ones.
func Interleave(a, b Words) (lo, hi Words) { return a.InterleaveLoGrouped(b), a.InterleaveHiGrouped(b) }

// BroadcastPair returns a dword as pairs of words.
func BroadcastPair(x int32) Words {
	return BroadcastDwords(x).ToBits().ReshapeToUint16s().BitsToInt16()
}

// Shuffles of bytes.
var (
	topPairs  = bytewise(func(i int) int { return i&2*32 + i&^3 + 3 }) // of two vectors: bytes 4i and 4i+2, the pair of words of dword i
	highPairs = bytewise(func(i int) int { return i&2*32 + i&^3 + 2 + i&1 })
	topPack   = bytewise(func(i int) int { return 4*(i&31) + 3 })              // of two vectors: their top bytes, in each half
	highPack  = bytewise(func(i int) int { return 4*(i/2) + 2 + i&1 })         // their upper words
	evenPack  = bytewise(func(i int) int { return 2 * i })                     // their even bytes
	topJoin   = bytewise(func(i int) int { return i&1*64 + i&48 + i&6*2 + 3 }) // top bytes by turns, in either half of each lane
)

const (
	evenBytes   = 0x5555555555555555
	firstHalves = 0x00ff00ff00ff00ff // of the lanes
)

func bytewise(index func(i int) int) (table [64]uint8) {
	for i := range table {
		table[i] = uint8(index(i))
	}
	return table
}

// PairTables returns what TopPairs and ClipPairs take.
func PairTables() (top0 Bytes, top1 archsimd.Mask8x64, clip Bytes) {
	return archsimd.LoadUint8x64Array(&topPairs), archsimd.Mask8x64FromBits(evenBytes), archsimd.LoadUint8x64Array(&highPairs)
}

// TopPairs makes pairs of words of two vectors' top bytes.
func TopPairs(x, y Dwords, top0 Bytes, top1 archsimd.Mask8x64) Words {
	return x.ToBits().ReshapeToUint8s().ConcatPermute(y.ToBits().ReshapeToUint8s(), top0).Masked(top1).ReshapeToUint16s().BitsToInt16()
}

// ClipPairs makes pairs of words of two vectors' sums, clipped to 0..255.
func ClipPairs(x, y Dwords, clip Bytes) Words { return clipWords(x, y, clip).Min(BroadcastWords(255)) }

// clipWords makes words of the upper halves of sums, which are 0 at least.
func clipWords(x, y Dwords, index Bytes) Words {
	words := x.ToBits().ReshapeToUint8s().ConcatPermute(y.ToBits().ReshapeToUint8s(), index).ReshapeToUint16s().BitsToInt16()
	return words.ShiftAllRight(22 - 16).Max(Words{})
}

// PackTable is the type of what PackTops and PackClipped take.
type PackTable = archsimd.Mask8x64

// PackTables returns it.
func PackTables() (bytes Bytes, lower PackTable) {
	return archsimd.LoadUint8x64Array(&topPack), archsimd.Mask8x64FromBits(1<<32 - 1)
}

// PackTops puts the top bytes of four vectors side by side.
func PackTops(a, b, c, d Dwords, bytes Bytes, lower PackTable) Bytes {
	return a.ToBits().ReshapeToUint8s().ConcatPermute(b.ToBits().ReshapeToUint8s(), bytes).
		IfElse(lower, c.ToBits().ReshapeToUint8s().ConcatPermute(d.ToBits().ReshapeToUint8s(), bytes))
}

// PackClipped puts the sums of four vectors, clipped to 0..255, side by side.
func PackClipped(a, b, c, d Dwords, _ Bytes, _ PackTable) Bytes {
	high, most := archsimd.LoadUint8x64Array(&highPack), BroadcastWords(255)
	ab, cd := clipWords(a, b, high).Min(most).ToBits(), clipWords(c, d, high).Min(most).ToBits()
	return ab.ReshapeToUint8s().ConcatPermute(cd.ReshapeToUint8s(), archsimd.LoadUint8x64Array(&evenPack))
}

// JoinTops puts the top bytes of even and odd outputs in order, of the lanes' first halves and of their second ones.
func JoinTops(even0, odd0, even1, odd1 Dwords) Bytes {
	join := archsimd.LoadUint8x64Array(&topJoin)
	return even0.ToBits().ReshapeToUint8s().ConcatPermute(odd0.ToBits().ReshapeToUint8s(), join).
		IfElse(archsimd.Mask8x64FromBits(firstHalves), even1.ToBits().ReshapeToUint8s().ConcatPermute(odd1.ToBits().ReshapeToUint8s(), join))
}

// JoinClipped is the same for sums, clipped to 0..255.
func JoinClipped(even0, odd0, even1, odd1 Dwords) Bytes {
	most := archsimd.BroadcastUint16x32(255)
	even := even0.ShiftAllRight(22).SaturateToUint16ConcatGrouped(even1.ShiftAllRight(22)).Min(most)
	odd := odd0.ShiftAllRight(22).SaturateToUint16ConcatGrouped(odd1.ShiftAllRight(22)).Min(most)
	return even.Or(odd.ShiftAllLeft(8)).ReshapeToUint8s()
}

// Load loads a vector of bytes.
func Load(p unsafe.Pointer) Bytes { return archsimd.LoadUint8x64Array((*[64]uint8)(p)) }

// Store stores a vector of bytes.
func Store(v Bytes, p unsafe.Pointer) { v.StoreArray((*[64]uint8)(p)) }

// LoadDwords loads a vector of dwords.
func LoadDwords(p unsafe.Pointer) Dwords { return archsimd.LoadInt32x16Array((*[16]int32)(p)) }

// StoreDwords stores a vector of dwords.
func StoreDwords(v Dwords, p unsafe.Pointer) { v.StoreArray((*[16]int32)(p)) }

// ToWords returns bytes as words.
func ToWords(v Bytes) Words { return v.ReshapeToUint16s().BitsToInt16() }

// LoadLaneIndices loads a table of LookupLane.
func LoadLaneIndices(table *[16]int8) archsimd.Int8x16 { return archsimd.LoadInt8x16Array(table) }

// LookupLane takes 16 bytes at p by a table, as Lookup does, and stores them at to.
func LookupLane(p, to unsafe.Pointer, index archsimd.Int8x16) {
	archsimd.LoadUint8x16Array((*[16]uint8)(p)).PermuteOrZero(index).StoreArray((*[16]uint8)(to))
}

// thirds takes byte 3j+c for each j out of 192: modulo 128 of the first two vectors, modulo 64 of the third, whose share of
// the bytes is lastThirds.
var (
	thirds = [3][64]uint8{
		bytewise(func(i int) int { return 3 * i & 127 }), bytewise(func(i int) int { return (3*i + 1) & 127 }), bytewise(func(i int) int { return (3*i + 2) & 127 }),
	}
	lastThirds = [3]uint64{^uint64(1<<43 - 1), ^uint64(1<<43 - 1), ^uint64(1<<42 - 1)}
)

// LoadPixels loads 64 interleaved pixels.
func LoadPixels(p unsafe.Pointer) (a, b, c Bytes) {
	return Load(p), Load(unsafe.Add(p, 64)), Load(unsafe.Add(p, 128))
}

// Channel takes one of three channels out of what LoadPixels loaded.
func Channel(a, b, c Bytes, channel int) Bytes {
	index := archsimd.LoadUint8x64Array(&thirds[channel])
	return c.Permute(index).IfElse(archsimd.Mask8x64FromBits(lastThirds[channel]), a.ConcatPermute(b, index))
}

//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package lanes

import (
	"simd/archsimd"
	"unsafe"
)

// Shuffles of bytes.
var (
	topPairs  = bytewise(func(i int) int { return i&2*32 + i&^3 + 3 }) // top bytes of two vectors, to the two words of dword i
	highPairs = bytewise(func(i int) int { return i&2*32 + i&^3 + 2 + i&1 })
	topPack   = bytewise(func(i int) int { return 4*(i&31) + 3 })              // top bytes of two vectors, in each half
	highPack  = bytewise(func(i int) int { return 4*(i/2) + 2 + i&1 })         // upper words of two vectors
	evenPack  = bytewise(func(i int) int { return 2 * i })                     // even bytes of two vectors
	topJoin   = bytewise(func(i int) int { return i&1*64 + i&48 + i&6*2 + 3 }) // alternating top bytes, in either half of each lane
)

const (
	evenBytes   = 0x5555555555555555
	firstHalves = 0x00ff00ff00ff00ff // mask of the lanes' first halves
)

func bytewise(index func(i int) int) (table [64]uint8) {
	for i := range table {
		table[i] = uint8(index(i))
	}
	return table
}

// PairTables returns the tables of TopPairs and ClipPairs.
func PairTables() (top0 Bytes, top1 archsimd.Mask8x64, clip Bytes) {
	return archsimd.LoadUint8x64Array(&topPairs), archsimd.Mask8x64FromBits(evenBytes), archsimd.LoadUint8x64Array(&highPairs)
}

// TopPairs makes pairs of words from two vectors' top bytes.
func TopPairs(x, y Dwords, top0 Bytes, top1 archsimd.Mask8x64) Words {
	return x.ToBits().ReshapeToUint8s().ConcatPermute(y.ToBits().ReshapeToUint8s(), top0).Masked(top1).ReshapeToUint16s().BitsToInt16()
}

// ClipPairs makes pairs of words from two vectors' sums, clipped to 0..255.
func ClipPairs(x, y Dwords, clip Bytes) Words { return clipWords(x, y, clip).Min(BroadcastWords(255)) }

// clipWords makes words from the upper halves of sums, at least 0.
func clipWords(x, y Dwords, index Bytes) Words {
	words := x.ToBits().ReshapeToUint8s().ConcatPermute(y.ToBits().ReshapeToUint8s(), index).ReshapeToUint16s().BitsToInt16()
	return words.ShiftAllRight(22 - 16).Max(Words{})
}

// PackTable is the type of PackTops' and PackClipped's table.
type PackTable = archsimd.Mask8x64

// PackTables returns the tables of PackTops and PackClipped.
func PackTables() (bytes Bytes, lower PackTable) {
	return archsimd.LoadUint8x64Array(&topPack), archsimd.Mask8x64FromBits(1<<32 - 1)
}

// PackTops joins the top bytes of four vectors.
func PackTops(a, b, c, d Dwords, bytes Bytes, lower PackTable) Bytes {
	return a.ToBits().ReshapeToUint8s().ConcatPermute(b.ToBits().ReshapeToUint8s(), bytes).
		IfElse(lower, c.ToBits().ReshapeToUint8s().ConcatPermute(d.ToBits().ReshapeToUint8s(), bytes))
}

// PackClipped joins the sums of four vectors, clipped to 0..255.
func PackClipped(a, b, c, d Dwords, _ Bytes, _ PackTable) Bytes {
	high, limit := archsimd.LoadUint8x64Array(&highPack), BroadcastWords(255)
	ab, cd := clipWords(a, b, high).Min(limit).ToBits(), clipWords(c, d, high).Min(limit).ToBits()
	return ab.ReshapeToUint8s().ConcatPermute(cd.ReshapeToUint8s(), archsimd.LoadUint8x64Array(&evenPack))
}

// JoinTops interleaves the top bytes of even and odd outputs, of the lanes' first halves and of their second ones.
func JoinTops(even0, odd0, even1, odd1 Dwords) Bytes {
	join := archsimd.LoadUint8x64Array(&topJoin)
	return even0.ToBits().ReshapeToUint8s().ConcatPermute(odd0.ToBits().ReshapeToUint8s(), join).
		IfElse(archsimd.Mask8x64FromBits(firstHalves),
			even1.ToBits().ReshapeToUint8s().ConcatPermute(odd1.ToBits().ReshapeToUint8s(), join))
}

// JoinClipped is JoinTops for sums, clipped to 0..255.
func JoinClipped(even0, odd0, even1, odd1 Dwords) Bytes {
	limit := archsimd.BroadcastUint16x32(255)
	even := even0.ShiftAllRight(22).SaturateToUint16ConcatGrouped(even1.ShiftAllRight(22)).Min(limit)
	odd := odd0.ShiftAllRight(22).SaturateToUint16ConcatGrouped(odd1.ShiftAllRight(22)).Min(limit)
	return even.Or(odd.ShiftAllLeft(8)).ReshapeToUint8s()
}

// thirds takes byte 3j+c for each j from 192 bytes: modulo 128 from the first two vectors, modulo 64 from the third.
// lastThirds marks the bytes from the third.
var (
	thirds = [3][64]uint8{
		bytewise(func(i int) int { return 3 * i & 127 }), bytewise(func(i int) int { return (3*i + 1) & 127 }),
		bytewise(func(i int) int { return (3*i + 2) & 127 }),
	}
	lastThirds = [3]uint64{^uint64(1<<43 - 1), ^uint64(1<<43 - 1), ^uint64(1<<42 - 1)}
)

// LoadPixels loads 64 interleaved pixels.
func LoadPixels(p unsafe.Pointer) (a, b, c Bytes) {
	return Load(p), Load(unsafe.Add(p, 64)), Load(unsafe.Add(p, 128))
}

// Channel returns one of three channels of LoadPixels' vectors.
func Channel(a, b, c Bytes, channel int) Bytes {
	index := archsimd.LoadUint8x64Array(&thirds[channel])
	return c.Permute(index).IfElse(archsimd.Mask8x64FromBits(lastThirds[channel]), a.ConcatPermute(b, index))
}

//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package lanes

import (
	"simd/archsimd"
	"unsafe"
)

// Shuffles of bytes within lanes.
var (
	topFirst  = lanewise(3, -1, -1, -1, 7, -1, -1, -1, 11, -1, -1, -1, 15, -1, -1, -1) // each dword's top byte, to its first word
	topSecond = lanewise(-1, -1, 3, -1, -1, -1, 7, -1, -1, -1, 11, -1, -1, -1, 15, -1) // the same, to its second word
	pairWords = lanewise(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15)         // alternates the halves' words
	// joinBytes orders a lane's bytes a0 c0 a1 c1 .. b0 d0 b1 d1 .. as a0..a3 b0..b3 c0..c3 d0..d3, and joinDwords then
	// joins the lanes' parts.
	joinBytes  = lanewise(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15)
	joinDwords = [8]uint32{0, 4, 1, 5, 2, 6, 3, 7}
	// topParts move the top bytes of even outputs and of odd ones to their positions in the lane's first half, and in its second.
	topParts = [4][32]uint8{
		lanewise(3, -1, 7, -1, 11, -1, 15, -1, -1, -1, -1, -1, -1, -1, -1, -1),
		lanewise(-1, 3, -1, 7, -1, 11, -1, 15, -1, -1, -1, -1, -1, -1, -1, -1),
		lanewise(-1, -1, -1, -1, -1, -1, -1, -1, 3, -1, 7, -1, 11, -1, 15, -1),
		lanewise(-1, -1, -1, -1, -1, -1, -1, -1, -1, 3, -1, 7, -1, 11, -1, 15),
	}
	triples = [8]uint32{0, 1, 2, 4, 5, 6, 7, 7}
	spreads = [4][8]uint32{{0, 0, 0, 0, 1, 1, 1, 1}, {2, 2, 2, 2, 3, 3, 3, 3}, {4, 4, 4, 4, 5, 5, 5, 5}, {6, 6, 6, 6, 7, 7, 7, 7}}
)

func lanewise(index ...int) (table [32]uint8) {
	for i := range table {
		table[i] = uint8(index[i%16])
	}
	return table
}

// PairTables returns the tables of TopPairs and ClipPairs.
func PairTables() (top0, top1, clip Bytes) {
	return Load(unsafe.Pointer(&topFirst)), Load(unsafe.Pointer(&topSecond)), Load(unsafe.Pointer(&pairWords))
}

// TopPairs makes pairs of words from two vectors' top bytes.
func TopPairs(x, y Dwords, top0, top1 Bytes) Words {
	return Take(x.ToBits().ReshapeToUint8s(), top0).Or(Take(y.ToBits().ReshapeToUint8s(), top1)).ReshapeToUint16s().BitsToInt16()
}

// ClipPairs makes pairs of words from two vectors' sums, clipped to 0..255.
func ClipPairs(x, y Dwords, clip Bytes) Words {
	return Take(clipWords(x, y).ReshapeToUint8s(), clip).ReshapeToUint16s().BitsToInt16()
}

func clipWords(x, y Dwords) archsimd.Uint16x16 {
	return x.ShiftAllRight(22).SaturateToUint16ConcatGrouped(y.ShiftAllRight(22)).Min(archsimd.BroadcastUint16x16(255))
}

// PackTable is the type of PackTops' and PackClipped's table.
type PackTable = archsimd.Uint32x8

// PackTables returns the tables of PackTops and PackClipped.
func PackTables() (bytes Bytes, dwords PackTable) {
	return Load(unsafe.Pointer(&joinBytes)), archsimd.LoadUint32x8Array(&joinDwords)
}

// PackTops joins the top bytes of four vectors.
func PackTops(a, b, c, d Dwords, bytes Bytes, dwords PackTable) Bytes {
	ab := a.ToBits().ShiftAllRight(24).BitsToInt32().SaturateToUint16ConcatGrouped(b.ToBits().ShiftAllRight(24).BitsToInt32())
	cd := c.ToBits().ShiftAllRight(24).BitsToInt32().SaturateToUint16ConcatGrouped(d.ToBits().ShiftAllRight(24).BitsToInt32())
	abcd := ab.Or(cd.ShiftAllLeft(8)).ReshapeToUint8s().PermuteOrZeroGrouped(bytes.BitsToInt8())
	return abcd.ReshapeToUint32s().Permute(dwords).ReshapeToUint8s()
}

// PackClipped joins the sums of four vectors, clipped to 0..255.
func PackClipped(a, b, c, d Dwords, bytes Bytes, dwords PackTable) Bytes {
	words := clipWords(a, b).Or(clipWords(c, d).ShiftAllLeft(8))
	return words.ReshapeToUint8s().PermuteOrZeroGrouped(bytes.BitsToInt8()).ReshapeToUint32s().Permute(dwords).ReshapeToUint8s()
}

// JoinTops interleaves the top bytes of even and odd outputs, of the lanes' first halves and of their second ones.
func JoinTops(even0, odd0, even1, odd1 Dwords) Bytes {
	return Take(even0.ToBits().ReshapeToUint8s(), Load(unsafe.Pointer(&topParts[0]))).
		Or(Take(odd0.ToBits().ReshapeToUint8s(), Load(unsafe.Pointer(&topParts[1])))).
		Or(Take(even1.ToBits().ReshapeToUint8s(), Load(unsafe.Pointer(&topParts[2])))).
		Or(Take(odd1.ToBits().ReshapeToUint8s(), Load(unsafe.Pointer(&topParts[3]))))
}

// JoinClipped is JoinTops for sums, clipped to 0..255.
func JoinClipped(even0, odd0, even1, odd1 Dwords) Bytes {
	return clipWords(even0, even1).Or(clipWords(odd0, odd1).ShiftAllLeft(8)).ReshapeToUint8s()
}

// Spread spreads the dwords j·Count.. over the vector, each over a lane.
func Spread(v Dwords, j int) Dwords { return v.Permute(archsimd.LoadUint32x8Array(&spreads[j])) }

// LoadApart loads each lane's 16 bytes from a separate address. It reads a whole vector at the first one.
func LoadApart(a, b unsafe.Pointer) Bytes {
	return Load(a).SetHi(archsimd.LoadUint8x16Array((*[16]uint8)(b)))
}

// Offsets returns the offsets of the lanes.
func Offsets(p *int32) (a, b int) {
	offsets := (*[2]int32)(unsafe.Pointer(p))
	return int(offsets[0]), int(offsets[1])
}

// TripleTable returns the table of StoreTriples.
func TripleTable() PackTable { return archsimd.LoadUint32x8Array(&triples) }

// StoreTriples stores the first three dwords of each lane without gaps, and overwrites a vector's length.
func StoreTriples(v Words, p unsafe.Pointer, table PackTable) {
	v.ToBits().ReshapeToUint32s().Permute(table).BitsToInt32().StoreArray((*[8]int32)(p))
}

//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package affine

import (
	"unsafe"

	. "github.com/imgfeed/imgfeed/internal/lanes/avx2"
)

// piecesAVX2 adds the moves of n pieces, which begin where the sums have their whole parts, or at 0. Position x is that of place 0, which comes from the
// row of the source at byte from, and goes to byte to; lines has how far from that row each piece's is.
func piecesAVX2(g *group, lines *int32, from, to, sum, x int32, n int) {
	at := BroadcastDwords(sum).Add(LoadDwords(unsafe.Pointer(&g.ahead)))
	forward := LoadDwords(unsafe.Pointer(&g.length)).ShiftAllLeft(CountShift)
	start, step, repeats := BroadcastDwords(x), LoadDwords(unsafe.Pointer(&g.step[0])), LoadFloats(unsafe.Pointer(&g.repeats))
	fraction, most, triple := BroadcastDwords(1<<16-1), BroadcastDwords(pieceLen-1), BroadcastDwords(3<<8)
	first, target := BroadcastDwords(from), BroadcastDwords(to<<8)
	line, sources, targets := unsafe.Pointer(lines), unsafe.Pointer(&g.moves[0][g.moved]), unsafe.Pointer(&g.moves[1][g.moved])
	for i := 0; i < n; i += 4 * Count {
		place := at.ShiftAllRight(pieceBits).Max(Dwords{})
		atX := place.Mul(step).Add(start)
		column := atX.ShiftAllRight(16)
		StoreDwords(LoadDwords(line).Add(first).Add(column).Add(column.ShiftAllLeft(1)), sources)
		repeated := atX.And(fraction).ConvertToFloat32().Mul(repeats).ConvertToInt32().Min(most)
		StoreDwords(place.Mul(triple).Add(target).Or(repeated.ShiftAllLeft(4)), targets)
		at, line, sources, targets = at.Add(forward), unsafe.Add(line, 16*Count), unsafe.Add(sources, 16*Count), unsafe.Add(targets, 16*Count)
	}
	Leave()
}

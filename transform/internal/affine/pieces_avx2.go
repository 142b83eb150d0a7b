//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package affine

import (
	"unsafe"

	. "github.com/imgfeed/imgfeed/internal/lanes/avx2"
)

// stretchesAVX2 sets what the rows of a block show, and their stretches, a row in each place of a vector, and goes on to the next block.
func stretchesAVX2(g *group) {
	b, s := &g.block, &g.slope
	zero, one, fraction := Dwords{}, BroadcastDwords(1), BroadcastDwords(1<<16-1)
	parts, length, rowBytes := BroadcastDwords(s.parts), BroadcastDwords(s.length), BroadcastDwords(b.rowBytes)
	for i := uintptr(0); i < 4*blockRows; i += 16 * Count {
		places := unsafe.Add(unsafe.Pointer(&b.places), i)
		width := BroadcastDwords(b.width)
		first := LoadDwords(places).Max(LoadDwords(unsafe.Add(places, 2*placesSize))).Max(zero).Min(width)
		behind := LoadDwords(unsafe.Add(places, placesSize)).Min(LoadDwords(unsafe.Add(places, 3*placesSize))).Min(width).Max(first)
		target, startX, startY := unsafe.Add(unsafe.Pointer(&b.target), i), unsafe.Add(unsafe.Pointer(&b.x), i), unsafe.Add(unsafe.Pointer(&b.y), i)
		row := LoadDwords(target)
		StoreDwords(first.Add(first).Add(first).Add(row), unsafe.Add(unsafe.Pointer(&b.shown[0]), i))
		StoreDwords(behind.Add(behind).Add(behind).Add(row), unsafe.Add(unsafe.Pointer(&b.shown[1]), i))
		for k := range g.perRow {
			begin := BroadcastDwords(int32(k * placesMax)).Add(first).Min(behind)
			n := behind.Sub(begin).Min(BroadcastDwords(placesMax))
			x := begin.Mul(LoadDwords(unsafe.Pointer(&g.step[0]))).Add(LoadDwords(startX))
			y := begin.Mul(LoadDwords(unsafe.Pointer(&g.step[1]))).Add(LoadDwords(startY))
			lacks := y.And(fraction).Mul(LoadDwords(unsafe.Pointer(&s.sign))).Add(LoadDwords(unsafe.Pointer(&s.rest)))
			before := lacks.Mul(parts).Add(fraction).ShiftAllRight(16) // pieces up to the next row; the first of them may have begun before
			low := lacks.Mul(LoadDwords(unsafe.Pointer(&s.perStepLow))).ToBits().ShiftAllRight(16).BitsToInt32()
			sum := lacks.Mul(LoadDwords(unsafe.Pointer(&s.perStepHigh))).Add(low).Add(LoadDwords(unsafe.Pointer(&s.ahead))).Sub(before.Mul(length))
			room := n.ShiftAllLeft(pieceBits).Sub(sum).Add(length).Sub(one)
			count := room.ConvertToFloat32().Mul(LoadFloats(unsafe.Pointer(&s.perLength))).ConvertToInt32() // or one less
			more := room.Sub(count.Mul(length)).Sub(length).ShiftAllRight(31).Add(one)
			t := &g.stretches[k%rowStretches]
			StoreDwords(count.Add(more).And(zero.Sub(n).ShiftAllRight(31)), unsafe.Add(unsafe.Pointer(&t.count), i))
			StoreDwords(parts.Sub(before).ShiftAllLeft(2), unsafe.Add(unsafe.Pointer(&t.line), i))
			StoreDwords(y.ShiftAllRight(16).Mul(rowBytes), unsafe.Add(unsafe.Pointer(&t.from), i))
			StoreDwords(begin.Add(begin).Add(begin).Add(row).ShiftAllLeft(8), unsafe.Add(unsafe.Pointer(&t.to), i))
			StoreDwords(sum, unsafe.Add(unsafe.Pointer(&t.sum), i))
			StoreDwords(x.Or(LoadDwords(unsafe.Pointer(&s.whole))), unsafe.Add(unsafe.Pointer(&t.x), i))
		}
		StoreDwords(LoadDwords(startX).Add(BroadcastDwords(b.downX)), startX)
		StoreDwords(LoadDwords(startY).Add(BroadcastDwords(b.downY)), startY)
		rests := unsafe.Add(unsafe.Pointer(&b.rests), i)
		for e := range len(b.step) { // not of the array: it would be copied, by instructions of SSE's encoding
			rest := LoadDwords(rests).Add(BroadcastDwords(b.restDown[e]))
			short := rest.ShiftAllRight(31)
			StoreDwords(short.And(BroadcastDwords(b.step[e])).Add(rest), rests)
			StoreDwords(LoadDwords(places).Add(BroadcastDwords(b.placeDown[e])).Add(short), places)
			places, rests = unsafe.Add(places, placesSize), unsafe.Add(rests, placesSize)
		}
	}
	Leave()
}

// piecesAVX2 writes the moves of the stretches of a block's rows from .. behind-1. Pieces begin where the sums have their whole parts, or at 0.
// Whole vectors of them are written, of which the next stretch's replace what is too many.
func piecesAVX2(g *group, from, behind int) {
	ahead, forward := LoadDwords(unsafe.Pointer(&g.ahead)), LoadDwords(unsafe.Pointer(&g.length)).ShiftAllLeft(CountShift)
	step, repeats := LoadDwords(unsafe.Pointer(&g.step[0])), LoadFloats(unsafe.Pointer(&g.repeats))
	fraction, most, triple := BroadcastDwords(1<<16-1), BroadcastDwords(pieceLen-1), BroadcastDwords(3<<8)
	moved := 0
	for row := from; row < behind; row++ {
		for k := range g.perRow {
			t, r := &g.stretches[k%rowStretches], row%rowsMax
			at, start := BroadcastDwords(t.sum[r]).Add(ahead), BroadcastDwords(t.x[r])
			first, target := BroadcastDwords(t.from[r]), BroadcastDwords(t.to[r])
			line := unsafe.Add(unsafe.Pointer(&g.lines), int(t.line[r]))
			sources, targets := unsafe.Add(unsafe.Pointer(&g.moves[0]), 4*moved), unsafe.Add(unsafe.Pointer(&g.moves[1]), 4*moved)
			pieces := int(t.count[r])
			for i := 0; i < pieces; i += 4 * Count {
				place := at.ShiftAllRight(pieceBits).Max(Dwords{})
				atX := place.Mul(step).Add(start)
				column := atX.ShiftAllRight(16)
				StoreDwords(LoadDwords(line).Add(first).Add(column).Add(column.ShiftAllLeft(1)), sources)
				repeated := atX.And(fraction).ConvertToFloat32().Mul(repeats).ConvertToInt32().Min(most)
				StoreDwords(place.Mul(triple).Add(target).Or(repeated.ShiftAllLeft(4)), targets)
				at, line, sources, targets = at.Add(forward), unsafe.Add(line, 16*Count), unsafe.Add(sources, 16*Count), unsafe.Add(targets, 16*Count)
			}
			moved += pieces
		}
	}
	g.moved = moved
	Leave()
}

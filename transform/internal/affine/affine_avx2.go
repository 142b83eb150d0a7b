//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package affine

import (
	"unsafe"

	"github.com/imgfeed/imgfeed/internal/kernel"
	. "github.com/imgfeed/imgfeed/internal/lanes/avx2"
)

func init() {
	byLevel[kernel.AVX2] = &kernels{
		doubles: 2 * Count, offsets: offsetsAVX2, locate: locateAVX2, locateCubic: locateCubicAVX2,
		bilinear: bilinearAVX2, bicubic: bicubicAVX2,
		tensorNearest: tensorNearestAVX2, tensorSquares: tensorSquaresAVX2, tensorBilinear: tensorBilinearAVX2,
	}
}

// The kernels do the generic code's operations in the same order on vectors of float64, and so give the same bits.

// locateAVX2 sets fractions and offsets of n pixels for bilinear. Beyond the left and the right edge the two columns are the first or
// the last, and the fraction is 0 or 1, which gives the edge's pixel. Beyond the others the two rows are the same.
func locateAVX2(g *group, n int) {
	half, one, three, zero := LoadDoubles(&halves), LoadDoubles(&ones), LoadDoubles(&threes), Doubles{}
	u, step := LoadDoubles(&g.u), LoadDoubles(&g.forward)
	for i := 0; i < n; i += 2 * Count {
		x := LoadDoubles(&g.matrix[0]).Mul(u).Add(LoadDoubles(&g.rowTerm[0])).Add(LoadDoubles(&g.origin[0])).Sub(half)
		y := LoadDoubles(&g.matrix[1]).Mul(u).Add(LoadDoubles(&g.rowTerm[1])).Add(LoadDoubles(&g.origin[1])).Sub(half)
		column, line := Floor(x).Min(LoadDoubles(&g.last[0])).Max(zero), Floor(y)
		StoreDoubles(x.Sub(column).Max(zero).Min(LoadDoubles(&g.reach)), unsafe.Pointer(&g.fraction[0][i]))
		StoreDoubles(y.Sub(line), unsafe.Pointer(&g.fraction[1][i]))
		column = column.Mul(three)
		last, stride := LoadDoubles(&g.last[1]), LoadDoubles(&g.stride)
		StoreInts(line.Max(zero).Min(last).Mul(stride).Add(column), unsafe.Pointer(&g.offset[0][i]))
		StoreInts(line.Add(one).Max(zero).Min(last).Mul(stride).Add(column), unsafe.Pointer(&g.offset[1][i]))
		u = u.Add(step)
	}
	Leave()
}

// locateCubicAVX2 sets fractions, columns and offsets of n pixels for bicubic. The offsets are those of the column
// before, which may lie outside the image.
func locateCubicAVX2(g *group, n int) {
	half, one, zero := LoadDoubles(&halves), LoadDoubles(&ones), Doubles{}
	u, step := LoadDoubles(&g.u), LoadDoubles(&g.forward)
	for i := 0; i < n; i += 2 * Count {
		x := LoadDoubles(&g.matrix[0]).Mul(u).Add(LoadDoubles(&g.rowTerm[0])).Add(LoadDoubles(&g.origin[0])).Sub(half)
		y := LoadDoubles(&g.matrix[1]).Mul(u).Add(LoadDoubles(&g.rowTerm[1])).Add(LoadDoubles(&g.origin[1])).Sub(half)
		column, line := Floor(x), Floor(y)
		StoreDoubles(x.Sub(column), unsafe.Pointer(&g.fraction[0][i]))
		StoreDoubles(y.Sub(line), unsafe.Pointer(&g.fraction[1][i]))
		StoreInts(column, unsafe.Pointer(&g.column[i]))
		column = column.Sub(one).Mul(LoadDoubles(&threes))
		last, stride := LoadDoubles(&g.last[1]), LoadDoubles(&g.stride)
		StoreInts(line.Sub(one).Max(zero).Min(last).Mul(stride).Add(column), unsafe.Pointer(&g.offset[0][i]))
		StoreInts(line.Max(zero).Min(last).Mul(stride).Add(column), unsafe.Pointer(&g.offset[1][i]))
		line = line.Add(one)
		StoreInts(line.Max(zero).Min(last).Mul(stride).Add(column), unsafe.Pointer(&g.offset[2][i]))
		StoreInts(line.Add(one).Max(zero).Min(last).Mul(stride).Add(column), unsafe.Pointer(&g.offset[3][i]))
		u = u.Add(step)
	}
	Leave()
}

// bilinearAVX2 makes n results of the first two taps.
func bilinearAVX2(g *group, n int) {
	bits, whole := Load(unsafe.Pointer(&wholeBits)), LoadDoubles(&wholes)
	for i := 0; i < n; i += 2 * Count {
		above, below := Load(unsafe.Pointer(&g.taps[0][i])), Load(unsafe.Pointer(&g.taps[1][i]))
		dx := LoadDoubles((*[8]float64)(unsafe.Pointer(&g.fraction[0][i])))
		dy := LoadDoubles((*[8]float64)(unsafe.Pointer(&g.fraction[1][i])))
		red := bilinearChannelAVX2(above, below, bits, dx, dy, whole, 0)
		green := bilinearChannelAVX2(above, below, bits, dx, dy, whole, 1)
		blue := bilinearChannelAVX2(above, below, bits, dx, dy, whole, 2)
		StoreDoubles(joinAVX2(red, green, blue), unsafe.Pointer(&g.result[i]))
	}
	Leave()
}

// bilinearChannelAVX2 interpolates one channel. Differences of PickBytes' results are whole numbers, and exact.
func bilinearChannelAVX2(above, below, bits Bytes, dx, dy, whole Doubles, c int) Doubles {
	left, right := Load(unsafe.Pointer(&byteIndices[c])), Load(unsafe.Pointer(&byteIndices[c+3]))
	a, b := PickBytes(above, left, bits), PickBytes(above, right, bits)
	v := a.Sub(whole).Add(b.Sub(a).Mul(dx))
	a, b = PickBytes(below, left, bits), PickBytes(below, right, bits)
	v = v.Add(a.Sub(whole).Add(b.Sub(a).Mul(dx)).Sub(v).Mul(dy))
	return Trunc(v).Add(whole)
}

// joinAVX2 puts the lowest bytes of three numbers side by side.
func joinAVX2(red, green, blue Doubles) Doubles {
	return red.ToBits().Or(green.ToBits().ShiftAllLeft(8)).Or(blue.ToBits().ShiftAllLeft(16)).BitsToFloat64()
}

// bicubicAVX2 makes n results of the eight taps: first along rows, then along columns.
func bicubicAVX2(g *group, n int) {
	bits, whole := Load(unsafe.Pointer(&wholeBits)), LoadDoubles(&wholes)
	for r := range 12 {
		left, right := Load(unsafe.Pointer(&byteIndices[r>>2])), Load(unsafe.Pointer(&byteIndices[r>>2+3]))
		before, after, to := &g.taps[r&3*2], &g.taps[r&3*2+1], &g.rows[r]
		for i := 0; i < n; i += 2 * Count {
			first, second := Load(unsafe.Pointer(&before[i])), Load(unsafe.Pointer(&after[i]))
			v1, v2 := PickBytes(first, left, bits).Sub(whole), PickBytes(first, right, bits).Sub(whole)
			v3, v4 := PickBytes(second, left, bits).Sub(whole), PickBytes(second, right, bits).Sub(whole)
			dx := LoadDoubles((*[8]float64)(unsafe.Pointer(&g.fraction[0][i])))
			StoreDoubles(cubicAVX2(v1, v2, v3, v4, dx), unsafe.Pointer(&to[i]))
		}
	}
	for i := 0; i < n; i += 2 * Count {
		dy := LoadDoubles((*[8]float64)(unsafe.Pointer(&g.fraction[1][i])))
		red, green, blue := cubicChannelAVX2(g, 0, i, dy), cubicChannelAVX2(g, 4, i, dy), cubicChannelAVX2(g, 8, i, dy)
		StoreDoubles(joinAVX2(red, green, blue), unsafe.Pointer(&g.result[i]))
	}
	Leave()
}

// cubicChannelAVX2 interpolates between four rows.
func cubicChannelAVX2(g *group, r, i int, dy Doubles) Doubles {
	v := cubicAVX2(rowAVX2(g, r, i), rowAVX2(g, r+1, i), rowAVX2(g, r+2, i), rowAVX2(g, r+3, i), dy)
	return Trunc(v.Max(Doubles{}).Min(LoadDoubles(&bytesMax))).Add(LoadDoubles(&wholes))
}

func rowAVX2(g *group, r, i int) Doubles {
	return LoadDoubles((*[8]float64)(unsafe.Pointer(&g.rows[r][i])))
}

func cubicAVX2(v1, v2, v3, v4, d Doubles) Doubles {
	difference := v1.Sub(v2)
	p3 := difference.Add(difference).Add(v3).Sub(v4)
	p4 := v2.Sub(v1).Sub(v3).Add(v4)
	return v2.Add(d.Mul(v3.Sub(v1).Add(d.Mul(p3.Add(d.Mul(p4))))))
}

// offsetsAVX2 sets the starts of n positions from (x, y) on. Their whole parts must lie within the source.
func offsetsAVX2(g *group, x, y int32, n int) {
	atX := BroadcastDwords(x).Add(LoadDwords(unsafe.Pointer(&g.ramp[0])))
	atY := BroadcastDwords(y).Add(LoadDwords(unsafe.Pointer(&g.ramp[1])))
	stepX := LoadDwords(unsafe.Pointer(&g.step[0])).ShiftAllLeft(CountShift)
	stepY := LoadDwords(unsafe.Pointer(&g.step[1])).ShiftAllLeft(CountShift)
	line, to := LoadDwords(unsafe.Pointer(&g.line)), unsafe.Pointer(&g.starts)
	for i := 0; i < n; i += 4 * Count {
		column := atX.ShiftAllRight(16)
		StoreDwords(atY.ShiftAllRight(16).Mul(line).Add(column).Add(column.ShiftAllLeft(1)), to)
		atX, atY, to = atX.Add(stepX), atY.Add(stepY), unsafe.Add(to, 16*Count)
	}
	Leave()
}

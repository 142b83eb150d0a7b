//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package affine

import (
	"unsafe"

	. "github.com/imgfeed/imgfeed/internal/lanes/avx2"
)

// positionAVX2 is tensorGroup.position for a vector of pixels.
func positionAVX2(g *tensorGroup, i int, x, y Floats) Floats {
	r := unsafe.Pointer(&g.rows[3*i])
	at := y.MulAdd(LoadFloats(unsafe.Add(r, 64)), x.Mul(LoadFloats(r))).Add(LoadFloats(unsafe.Add(r, 128)))
	return at.Add(LoadFloats(unsafe.Pointer(&floatOnes))).MulAdd(LoadFloats(unsafe.Pointer(&g.half[i])),
		LoadFloats(unsafe.Pointer(&minusHalves)))
}

// tensorNearestAVX2 sets the starts of n pixels for nearest.
func tensorNearestAVX2(g *tensorGroup, n int) {
	x, y, step := LoadFloats(unsafe.Pointer(&g.x)), LoadFloats(unsafe.Pointer(&g.y)), LoadFloats(unsafe.Pointer(&floatStepsAVX2))
	whole, stride, to := LoadFloats(unsafe.Pointer(&wholeFloats)), LoadDwords(unsafe.Pointer(&g.stride)), unsafe.Pointer(g.starts)
	base := stride.Add(BroadcastDwords(3)).Mul(FloatBits(whole)) // the offset that the bits of two zeros give
	for i := 0; i < n; i += 4 * Count {
		column, line := FloatBits(positionAVX2(g, 0, x, y).Add(whole)), FloatBits(positionAVX2(g, 1, x, y).Add(whole))
		StoreDwords(line.Mul(stride).Add(column).Add(column.ShiftAllLeft(1)).Sub(base), to)
		x, to = x.Add(step), unsafe.Add(to, 16*Count)
	}
	StoreFloats(x, unsafe.Pointer(&g.x))
	Leave()
}

// tensorSquaresAVX2 sets the starts of n pixels' first corners for bilinear, and the position in their squares.
func tensorSquaresAVX2(g *tensorGroup, n int) {
	x, y, step := LoadFloats(unsafe.Pointer(&g.x)), LoadFloats(unsafe.Pointer(&g.y)), LoadFloats(unsafe.Pointer(&floatStepsAVX2))
	stride, to := LoadDwords(unsafe.Pointer(&g.stride)), unsafe.Pointer(g.starts)
	for i := 0; i < n; i += 4 * Count {
		atX, atY := positionAVX2(g, 0, x, y), positionAVX2(g, 1, x, y)
		column, line := atX.ConvertToInt32(), atY.ConvertToInt32()
		StoreFloats(atX.Sub(column.ConvertToFloat32()), unsafe.Pointer(&g.parts[0][i]))
		StoreFloats(atY.Sub(line.ConvertToFloat32()), unsafe.Pointer(&g.parts[1][i]))
		StoreDwords(line.Mul(stride).Add(column).Add(column.ShiftAllLeft(1)), to)
		x, to = x.Add(step), unsafe.Add(to, 16*Count)
	}
	StoreFloats(x, unsafe.Pointer(&g.x))
	Leave()
}

// tensorBilinearAVX2 makes n pixels of their corners.
func tensorBilinearAVX2(g *tensorGroup, n int) {
	one, byteMask := LoadFloats(unsafe.Pointer(&floatOnes)), BroadcastDwords(255)
	for i := 0; i < n; i += 4 * Count {
		east, south := LoadFloats(unsafe.Pointer(&g.parts[0][i])), LoadFloats(unsafe.Pointer(&g.parts[1][i]))
		west, north := one.Sub(east), one.Sub(south)
		k0, k1, k2, k3 := north.Mul(west), north.Mul(east), south.Mul(west), south.Mul(east)
		mask := k0.Add(k1).Add(k2).Add(k3)
		a, b := LoadDwords(unsafe.Pointer(&g.corners[0][i])), LoadDwords(unsafe.Pointer(&g.corners[1][i]))
		c, d := LoadDwords(unsafe.Pointer(&g.corners[2][i])), LoadDwords(unsafe.Pointer(&g.corners[3][i]))
		var pixel Dwords
		for channel := range 3 {
			v := d.And(byteMask).ConvertToFloat32().MulAdd(k3, c.And(byteMask).ConvertToFloat32().MulAdd(k2,
				b.And(byteMask).ConvertToFloat32().MulAdd(k1, a.And(byteMask).ConvertToFloat32().Mul(k0))))
			if g.masked {
				colour := LoadFloats(unsafe.Pointer(&g.fill[channel]))
				v = v.Sub(colour).Mul(mask).Add(colour)
			}
			whole := LoadFloats(unsafe.Pointer(&wholeFloats))
			// The bytes enter at the top: two more shifts bring R down to the lowest one.
			pixel = pixel.ToBits().ShiftAllRight(8).BitsToInt32().Or(FloatBits(v.Add(whole)).ShiftAllLeft(16))
			a, b = a.ToBits().ShiftAllRight(8).BitsToInt32(), b.ToBits().ShiftAllRight(8).BitsToInt32()
			c, d = c.ToBits().ShiftAllRight(8).BitsToInt32(), d.ToBits().ShiftAllRight(8).BitsToInt32()
		}
		StoreDwords(pixel, unsafe.Pointer(&g.result[i]))
	}
	Leave()
}

// floatStepsAVX2 are the increments of x to the next vector.
var floatStepsAVX2 = floats(4 * Count)

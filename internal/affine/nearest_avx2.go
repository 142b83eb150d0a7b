//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package affine

import (
	"unsafe"

	. "github.com/imgfeed/imgfeed/internal/lanes/avx2"
)

// offsetsAVX2 sets the offsets of n positions from (x, y) on, whose whole parts lie within the source.
func offsetsAVX2(g *group, x, y int32, n int) {
	atX := BroadcastDwords(x).Add(LoadDwords(unsafe.Pointer(&g.ramp[0])))
	atY := BroadcastDwords(y).Add(LoadDwords(unsafe.Pointer(&g.ramp[1])))
	stepX, stepY := LoadDwords(unsafe.Pointer(&g.step[0])).ShiftAllLeft(CountShift), LoadDwords(unsafe.Pointer(&g.step[1])).ShiftAllLeft(CountShift)
	line := LoadDwords(unsafe.Pointer(&g.line))
	for i := 0; i < n; i += 4 * Count {
		column := atX.ShiftAllRight(16)
		StoreDwords(atY.ShiftAllRight(16).Mul(line).Add(column).Add(column.ShiftAllLeft(1)), unsafe.Pointer(&g.offset[0][i]))
		atX, atY = atX.Add(stepX), atY.Add(stepY)
	}
	Leave()
}

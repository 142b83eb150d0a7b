//go:build goexperiment.simd && go1.27 && !go1.28 && amd64

package affine

import (
	"unsafe"

	. "github.com/imgfeed/imgfeed/internal/lanes/avx2"
)

// offsetsAVX2 sets the places of n positions from (x, y) on, whose whole parts lie within the source.
func offsetsAVX2(g *group, x, y int32, n int) {
	atX := BroadcastDwords(x).Add(LoadDwords(unsafe.Pointer(&g.ramp[0])))
	atY := BroadcastDwords(y).Add(LoadDwords(unsafe.Pointer(&g.ramp[1])))
	stepX, stepY := LoadDwords(unsafe.Pointer(&g.step[0])).ShiftAllLeft(CountShift), LoadDwords(unsafe.Pointer(&g.step[1])).ShiftAllLeft(CountShift)
	line, to := LoadDwords(unsafe.Pointer(&g.line)), unsafe.Pointer(&g.places)
	for i := 0; i < n; i += 4 * Count {
		column := atX.ShiftAllRight(16)
		StoreDwords(atY.ShiftAllRight(16).Mul(line).Add(column).Add(column.ShiftAllLeft(1)), to)
		atX, atY, to = atX.Add(stepX), atY.Add(stepY), unsafe.Add(to, 16*Count)
	}
	Leave()
}

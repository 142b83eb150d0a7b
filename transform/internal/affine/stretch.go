package affine

import (
	"unsafe"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
)

// Nearest by kernels. A row is copied in stretches: a kernel computes the source position of each pixel of a stretch, and
// copyPixels copies them one by one.

// stretchLen is the number of pixels in a stretch.
const stretchLen = 256

// startFixed makes a group ready for copyFixed.
func (g *group) startFixed(src *imagefile.RGB, stepX, stepY int32) {
	fill(g.line[:], int32(3*src.Width))
	fill(g.step[0][:], stepX)
	fill(g.step[1][:], stepY)
	for i := range g.ramp[0] {
		g.ramp[0][i], g.ramp[1][i] = int32(i)*stepX, int32(i)*stepY
	}
}

// copyFixed copies n pixels from positions with 16 bits of fraction, beginning at (x, y), and one byte more behind the last.
func (k *kernels) copyFixed(g *group, to []byte, src *imagefile.RGB, x, y int32, n int) {
	for at := 0; at < n; at += stretchLen {
		length := min(stretchLen, n-at)
		k.offsets(g, x, y, length)
		g.copyPixels(unsafe.Pointer(&to[3*at]), unsafe.Pointer(unsafe.SliceData(src.Pix)), length)
		x += stretchLen * g.step[0][0]
		y += stretchLen * g.step[1][0]
	}
}

// copyPixels copies n pixels from their starts.
func (g *group) copyPixels(to, from unsafe.Pointer, n int) {
	starts := unsafe.Pointer(&g.starts)
	for ; n >= 4; n -= 4 {
		ab, cd := *(*uint64)(starts), *(*uint64)(unsafe.Add(starts, 8)) // pairs of starts: half the loads
		a, b := *(*uint32)(unsafe.Add(from, int(uint32(ab)))), *(*uint32)(unsafe.Add(from, int(ab>>32)))
		c, d := *(*uint32)(unsafe.Add(from, int(uint32(cd)))), *(*uint32)(unsafe.Add(from, int(cd>>32)))
		*(*uint32)(to) = a
		*(*uint32)(unsafe.Add(to, 3)) = b
		*(*uint32)(unsafe.Add(to, 6)) = c
		*(*uint32)(unsafe.Add(to, 9)) = d
		to, starts = unsafe.Add(to, 12), unsafe.Add(starts, 16)
	}
	for ; n > 0; n-- {
		*(*uint32)(to) = *(*uint32)(unsafe.Add(from, int(*(*int32)(starts))))
		to, starts = unsafe.Add(to, 3), unsafe.Add(starts, 4)
	}
}

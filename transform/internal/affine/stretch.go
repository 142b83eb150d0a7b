package affine

import (
	"unsafe"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
)

// Nearest by kernels. In general a row is copied in stretches: a kernel computes the source position of each pixel of a
// stretch, and copyPixels copies them one by one. In a shear along y, pixels are adjacent until the source's row changes,
// at the same columns in each row of the result: those runs are found once.

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

// copyPixels copies n pixels from their places.
func (g *group) copyPixels(to, from unsafe.Pointer, n int) {
	places := unsafe.Pointer(&g.places)
	for ; n >= 4; n -= 4 {
		ab, cd := *(*uint64)(places), *(*uint64)(unsafe.Add(places, 8)) // pairs of places: half the loads
		a, b := *(*uint32)(unsafe.Add(from, int(uint32(ab)))), *(*uint32)(unsafe.Add(from, int(ab>>32)))
		c, d := *(*uint32)(unsafe.Add(from, int(uint32(cd)))), *(*uint32)(unsafe.Add(from, int(cd>>32)))
		*(*uint32)(to) = a
		*(*uint32)(unsafe.Add(to, 3)) = b
		*(*uint32)(unsafe.Add(to, 6)) = c
		*(*uint32)(unsafe.Add(to, 9)) = d
		to, places = unsafe.Add(to, 12), unsafe.Add(places, 16)
	}
	for ; n > 0; n-- {
		*(*uint32)(to) = *(*uint32)(unsafe.Add(from, int(*(*int32)(places))))
		to, places = unsafe.Add(to, 3), unsafe.Add(places, 4)
	}
}

// A run is up to five adjacent pixels of a row that are adjacent in the source, too. It has their byte offsets in the
// result's row and, for row 0, in the source.
type run struct{ to, from int32 }

const runLen = 5 // 15 bytes, which are copied as 16

// findRuns finds the runs of a shear along y in columns first .. behind-1.
func (m *Mapper) findRuns(src *imagefile.RGB, startX, startY, stepY int32, first, behind int) {
	m.runs, m.columns = m.runs[:0], m.columns[:0]
	last, length := int32(0), 0
	for x := range behind {
		if x >= first {
			line := (startY + int32(x)*stepY) >> 16
			if length == 0 || length == runLen || line != last {
				m.runs = append(m.runs, run{int32(3 * x), 3 * (int32(src.Width)*line + startX>>16 + int32(x))})
				last, length = line, 0
			}
			length++
		}
		m.columns = append(m.columns, int32(len(m.runs)-1))
	}
}

// copyRuns copies the runs of columns first .. behind-1 to row y. It writes over up to 13 bytes more.
func (m *Mapper) copyRuns(to []byte, src *imagefile.RGB, y, first, behind int) {
	place, from := unsafe.Pointer(unsafe.SliceData(to)), unsafe.Pointer(unsafe.SliceData(src.Pix))
	line := 3 * src.Width * y // offset of the row; alone it may exceed the source
	for _, r := range m.runs[m.columns[first] : m.columns[behind-1]+1] {
		*(*[16]byte)(unsafe.Add(place, int(r.to))) = *(*[16]byte)(unsafe.Add(from, line+int(r.from)))
	}
}

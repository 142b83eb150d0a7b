package affine

import (
	"unsafe"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/internal/image/resample"
	"github.com/imgfeed/imgfeed/internal/kernel"
)

//go:generate go run ../../../internal/lanes/generate affine_avx2.go tensor_avx2.go

// kernels are the functions that have a version for each level: the arithmetic for many pixels at once. The source's
// bytes, which lie at a different offset for each pixel, are fetched between them, one pixel after the other.
type kernels struct {
	doubles float64                           // number of float64 in a vector
	offsets func(g *group, x, y int32, n int) // sets the starts of a stretch, from positions with 16 bits of fraction

	locate, locateCubic func(g *group, n int)
	bilinear, bicubic   func(g *group, n int)

	tensorNearest, tensorSquares, tensorBilinear func(g *tensorGroup, n int)
}

var byLevel kernel.Table[kernels]

// groupLen is the number of pixels in a group: the bytes of an AVX-512 register.
const groupLen = 64

// A group is a number of adjacent pixels of a row, as the kernels pass it on. Constants are repeated for each element of
// the largest vector.
type group struct {
	// For nearest.
	ramp, step [2][16]int32      // increments of x and y: from a vector's first pixel to each of its pixels, and per pixel
	line       [16]int32         // bytes of a source row
	starts     [stretchLen]int32 // byte offset of each pixel in the source

	// For the others.
	u, forward [8]float64    // the middles of the first pixels along x, and the increment to the next vector
	matrix     [2][8]float64 // increments of x and y along x
	rowTerm    [2][8]float64 // the row's contribution to x and y
	origin     [2][8]float64
	last       [2][8]float64 // the last but one column (0 if there is only one), and the last row
	reach      [8]float64    // 1, or 0 if there is only one column
	stride     [8]float64    // bytes of a source row

	offset   [4][groupLen]int32    // byte offset of each row's first tap
	column   [groupLen]int32       // column of a cubic's second tap
	fraction [2][groupLen]float64  // position of x and y between the middles of two pixels, 0 to 1
	taps     [8][groupLen]uint64   // pixels around, two in each: R, G, B, R, G, B in the lower bytes
	rows     [12][groupLen]float64 // R of four rows, G of four, B of four
	result   [groupLen]uint64      // R, G, B in the lower bytes
}

func fill[T any](to []T, v T) {
	for i := range to {
		to[i] = v
	}
}

// interpolateGroups is [interpolate] by kernels.
func (m *Mapper) interpolateGroups(dst, src *imagefile.RGB, a *Matrix, colour [3]byte, cubic bool) {
	k, g := m.kernels, m.group
	for i := range 2 {
		fill(g.matrix[i][:], a[3*i])
		fill(g.origin[i][:], a[3*i+2])
	}
	fill(g.last[0][:], float64(max(src.Width-2, 0)))
	fill(g.last[1][:], float64(src.Height-1))
	fill(g.reach[:], float64(min(src.Width-1, 1)))
	fill(g.stride[:], float64(3*src.Width))
	w, h := float64(src.Width), float64(src.Height)
	first, behind := 0, dst.Width
	for y := range dst.Height {
		to := m.target(dst, y)
		v := float64(y) + 0.5
		alongX, alongY := float64(a[1]*v), float64(a[4]*v)
		fill(g.rowTerm[0][:], alongX)
		fill(g.rowTerm[1][:], alongY)
		// The terms along x are monotonic, and so is their rounded sum with the others: the pixels that show src are adjacent.
		first, behind = span(first, behind, dst.Width, func(x int) bool {
			u := float64(x) + 0.5
			atX, atY := float64(a[0]*u)+alongX+a[2], float64(a[3]*u)+alongY+a[5]
			return !(atX < 0 || atX >= w || atY < 0 || atY >= h)
		})
		resample.Paint(to[:3*first], colour)
		for at := first; at < behind; at += groupLen {
			n := min(groupLen, behind-at)
			for i := range g.u {
				g.u[i] = float64(at+i) + 0.5
			}
			if cubic {
				k.locateCubic(g, n)
				g.fetchCubic(src, n)
				k.bicubic(g, n)
			} else {
				k.locate(g, n)
				g.fetch(src, n)
				k.bilinear(g, n)
			}
			storePixels(unsafe.Pointer(&to[3*at]), g.result[:n])
		}
		resample.Paint(to[3*behind:], colour)
		settle(dst, y, to)
	}
}

// span returns the first pixel of a row of the given width that shows the source, and the one after the last, starting
// from those of the row above. All pixels between must show it, too.
func span(first, behind, width int, shows func(x int) bool) (int, int) {
	for first < width && !shows(first) {
		first++
	}
	if first == width {
		for first = 0; first < width && !shows(first); first++ {
		}
	}
	if first == width {
		return 0, 0
	}
	for first > 0 && shows(first-1) {
		first--
	}
	for behind = max(behind, first+1); !shows(behind - 1); behind-- {
	}
	for behind < width && shows(behind) {
		behind++
	}
	return first, behind
}

// storePixels stores the lower three bytes of each, and one more behind the last.
func storePixels[P uint32 | uint64](to unsafe.Pointer, pixels []P) {
	for _, pixel := range pixels {
		*(*uint32)(to) = uint32(pixel)
		to = unsafe.Add(to, 3)
	}
}

// fetch sets the first two taps of n pixels: two pixels of the row above, and two of the row below. It reads two bytes more.
func (g *group) fetch(src *imagefile.RGB, n int) {
	from := unsafe.Pointer(unsafe.SliceData(src.Pix))
	for i := range min(n, groupLen) {
		above, below := *(*uint64)(unsafe.Add(from, int(g.offset[0][i]))), *(*uint64)(unsafe.Add(from, int(g.offset[1][i])))
		g.taps[0][i], g.taps[1][i] = above, below
	}
}

// fetchCubic sets the taps of n pixels: pixels 0 and 1, and 2 and 3, of the four rows. It reads two bytes more.
func (g *group) fetchCubic(src *imagefile.RGB, n int) {
	from := unsafe.Pointer(unsafe.SliceData(src.Pix))
	for i := range min(n, groupLen) {
		column := int(g.column[i])
		if uint(column-1) >= uint(max(src.Width-3, 0)) {
			g.fetchEdge(src, i)
			continue
		}
		for r := range 4 {
			p := unsafe.Add(from, int(g.offset[r][i]))
			g.taps[2*r][i], g.taps[2*r+1][i] = *(*uint64)(p), *(*uint64)(unsafe.Add(p, 6))
		}
	}
}

// fetchEdge is fetchCubic for a pixel near the left or the right edge, beyond which columns are repeated.
func (g *group) fetchEdge(src *imagefile.RGB, i int) {
	column := int(g.column[i])
	for r := range 4 {
		line := src.Pix[int(g.offset[r][i])-3*(column-1):][:3*src.Width]
		for half := range 2 {
			left, right := 3*clamp(column-1+2*half, src.Width), 3*clamp(column+2*half, src.Width)
			tap := uint64(0)
			for c := range 3 {
				tap |= uint64(line[left+c])<<(8*c) | uint64(line[right+c])<<(8*c+24)
			}
			g.taps[2*r+half][i] = tap
		}
	}
}

// Tables of the kernels: the indices of a tap's bytes 0 to 5, one byte for each float64; the bits of 2⁵², which holds a
// whole number in its lower bits; and constants.
var (
	byteIndices = func() (t [6][64]uint8) {
		for k := range t {
			for i := range t[k] {
				if t[k][i] = 255; i%8 == 0 {
					t[k][i] = uint8(i%16 + k)
				}
			}
		}
		return t
	}()
	wholeBits = func() (t [64]uint8) {
		for i := 0; i < len(t); i += 8 {
			t[i+6], t[i+7] = 0x30, 0x43
		}
		return t
	}()
	halves, ones, threes = constant(0.5), constant(1), constant(3)
	wholes, bytesMax     = constant(1 << 52), constant(255)
)

func constant(x float64) (v [8]float64) {
	fill(v[:], x)
	return v
}

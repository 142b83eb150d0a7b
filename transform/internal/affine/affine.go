// Package affine maps RGB images with exactly the arithmetic of Pillow's Image.transform(size, AFFINE): the same bits,
// on every platform, for nearest, bilinear and bicubic. Pixels outside the source get one colour.
//
// A [Matrix] maps each point of the result to a point of the source. Pixel (x, y) has its centre at (x + ½, y + ½):
//
//	x' = m0·(x + ½) + m1·(y + ½) + m2
//	y' = m3·(x + ½) + m4·(y + ½) + m5
//
// Bilinear and bicubic do that in float64, as written. They also interpolate between the centres around (x', y') in float64
// (libImaging/Geometry.c, ImagingGenericTransform). Nearest has three algorithms (ImagingTransformAffine), which round differently. Without
// rotation and shear it adds up m0 and m4 from the edge; otherwise it uses numbers with 16 bits of fraction, or sums of float64 where those
// would overflow. One example, a turn by 90° of four pixels a b / c d about their middle:
//
//	m = (0, -1, 2, 1, 0, 0), pixel (0, 0): x' = -½ + 2 = 1.5, y' = ½ -> b
//
// The generic Go code is the reference. Accelerated kernels for AVX2, AVX-512 and NEON give the same bytes.
package affine

import (
	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/internal/image/resample"
	"github.com/imgfeed/imgfeed/internal/kernel"
)

// A Matrix maps points of the result to points of the source.
type Matrix [6]float64

// Interpolates reports whether maps support a filter: nearest, bilinear or bicubic.
func Interpolates(f resample.Filter) bool {
	return f == resample.Nearest || f == resample.Bilinear || f == resample.Bicubic
}

// A Mapper maps images. It keeps its tables from call to call, so that nothing is allocated in the steady state. It serves
// one goroutine at a time. The zero value runs the generic code.
type Mapper struct {
	kernels *kernels
	group   *group
	columns []int32
	tensor  tensorGroup
	line    []byte // a row of the result, where a kernel would write past the image's end
}

// New returns a Mapper that runs the kernels of the given level, which must be one of [kernel.Available].
func New(level kernel.Level) *Mapper {
	k := byLevel[level]
	if k == nil {
		return new(Mapper)
	}
	g := new(group)
	fill(g.forward[:], k.doubles)
	return &Mapper{kernels: k, group: g}
}

// Map writes src, mapped by a, to dst, which already has its size, and does not write past its end. Pixels outside src
// become fill. The images do not overlap and are not empty, and src has imagefile.SlackBytes of capacity after its end.
// [Interpolates] must be true for f, and the matrix must be finite.
func (m *Mapper) Map(dst, src *imagefile.RGB, a Matrix, f resample.Filter, fill [3]byte) {
	switch {
	case f != resample.Nearest && m.kernels != nil:
		m.interpolateGroups(dst, src, &a, fill, f == resample.Bicubic)
	case f == resample.Bilinear:
		interpolate(dst, src, &a, fill, bilinear)
	case f == resample.Bicubic:
		interpolate(dst, src, &a, fill, bicubic)
	case a[1] == 0 && a[3] == 0:
		m.scale(dst, src, &a, fill)
	case a.fitsFixed(dst.Width, dst.Height):
		m.fixed(dst, src, &a, fill)
	default:
		sums(dst, src, &a, fill)
	}
}

func row(m *imagefile.RGB, y int) []byte { return m.Pix[3*m.Width*y:][:3*m.Width] }

// spill is the largest number of bytes that kernels write past a row.
const spill = 16

// target returns the memory to write row y to: in the image, unless the bytes past the row would be behind it.
func (m *Mapper) target(dst *imagefile.RGB, y int) []byte {
	if 3*dst.Width*(y+1)+spill <= len(dst.Pix) {
		return row(dst, y)
	}
	m.line = imagefile.Grown(m.line, 3*dst.Width)
	return m.line
}

// settle copies row y from target's memory to dst.
func settle(dst *imagefile.RGB, y int, from []byte) {
	if to := row(dst, y); &to[0] != &from[0] {
		copy(to, from)
	}
}

package affine

import (
	"math"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/internal/image/resample"
)

// toInt is C's conversion on x86-64: it rounds towards zero, and returns the lowest int32 for numbers out of range.
func toInt(v float64) int32 {
	if !(v > math.MinInt32-1 && v < math.MaxInt32+1) {
		return math.MinInt32
	}
	return int32(v)
}

// coordinate is Pillow's COORD: -1 for everything below 0.
func coordinate(v float64) int {
	if v < 0 {
		return -1
	}
	return int(toInt(v))
}

// within reports whether a coordinate is one of n.
func within(at, n int) bool { return uint(at) < uint(n) }

// scale is ImagingScaleAffine, for maps without rotation and shear.
func (m *Mapper) scale(dst, src *imagefile.RGB, a *Matrix, fill [3]byte) {
	first, behind := dst.Width, 0 // the columns that show the source
	m.columns = m.columns[:0]
	scattered := false // some columns are not adjacent in the source
	at := a[2] + float64(a[0]*0.5)
	for x := range dst.Width {
		column := int32(coordinate(at))
		if within(int(column), src.Width) {
			first, behind = min(first, x), x+1
			scattered = scattered || x > first && column != m.columns[x-1]+1
		}
		m.columns = append(m.columns, column)
		at += a[0]
	}
	at = a[5] + float64(a[4]*0.5)
	for y := range dst.Height {
		to, line := row(dst, y), coordinate(at)
		at += a[4]
		if !within(line, src.Height) || first >= behind {
			resample.Paint(to, fill)
			continue
		}
		resample.Paint(to[:3*first], fill)
		if from := row(src, line); !scattered {
			copy(to[3*first:3*behind], from[3*m.columns[first]:])
		} else {
			for x, column := range m.columns[first:behind] {
				pixel, out := from[3*column:][:3:3], to[3*(first+x):][:3:3]
				out[0], out[1], out[2] = pixel[0], pixel[1], pixel[2]
			}
		}
		resample.Paint(to[3*behind:], fill)
	}
}

// fitsFixed reports whether numbers with 16 bits of integer and 16 bits of fraction can hold the corners of a w × h result.
func (a *Matrix) fitsFixed(w, h int) bool {
	for _, corner := range [4][2]float64{{0, 0}, {float64(w), float64(h)}, {0, float64(h)}, {float64(w), 0}} {
		for i := 0; i < 6; i += 3 {
			if !(math.Abs(float64(corner[0]*a[i])+float64(corner[1]*a[i+1])+a[i+2]) < 32768) {
				return false
			}
		}
	}
	return true
}

// fixedPoint returns a number with 16 bits of fraction, rounded.
func fixedPoint(v float64) int32 { return toInt(math.Floor(float64(v*65536) + 0.5)) }

// fixed is affine_fixed: nearest, for maps that [Matrix.fitsFixed]. Positions have 16 bits of fraction; a column or row
// from 32,768 on counts as outside.
func (m *Mapper) fixed(dst, src *imagefile.RGB, a *Matrix, fill [3]byte) {
	startX, startY := fixedPoint(a[2]+float64(a[0]*0.5)+float64(a[1]*0.5)), fixedPoint(a[5]+float64(a[3]*0.5)+float64(a[4]*0.5))
	stepX, downX := fixedPoint(a[0]), fixedPoint(a[1])
	stepY, downY := fixedPoint(a[3]), fixedPoint(a[4])
	if m.kernels != nil {
		m.group.startFixed(src, stepX, stepY)
	}
	columns, lines := min(src.Width, 1<<15), min(src.Height, 1<<15)
	first, behind := 0, dst.Width
	for y := range dst.Height {
		first, behind = span(first, behind, dst.Width, func(x int) bool {
			return within((int(startX)+x*int(stepX))>>16, columns) && within((int(startY)+x*int(stepY))>>16, lines)
		})
		to := m.target(dst, y)
		resample.Paint(to[:3*first], fill)
		atX, atY := startX+int32(first)*stepX, startY+int32(first)*stepY
		switch {
		case first == behind:
		case stepX == 1<<16 && stepY == 0:
			copy(to[3*first:3*behind], row(src, int(atY>>16))[3*(atX>>16):])
		case m.kernels != nil:
			m.kernels.copyFixed(m.group, to[3*first:], src, atX, atY, behind-first)
		default:
			for out := to[3*first : 3*behind]; len(out) >= 3; out = out[3:] {
				pixel := src.Pix[3*(int(atY>>16)*src.Width+int(atX>>16)):][:3:3]
				out[0], out[1], out[2] = pixel[0], pixel[1], pixel[2]
				atX += stepX
				atY += stepY
			}
		}
		resample.Paint(to[3*behind:], fill)
		settle(dst, y, to)
		startX += downX
		startY += downY
	}
}

// sums is the last algorithm of ImagingTransformAffine: nearest, for maps with a corner far outside.
func sums(dst, src *imagefile.RGB, a *Matrix, fill [3]byte) {
	startX := a[2] + float64(a[1]*0.5) + float64(a[0]*0.5)
	startY := a[5] + float64(a[4]*0.5) + float64(a[3]*0.5)
	for y := range dst.Height {
		to := row(dst, y)
		atX, atY := startX, startY
		for x := range dst.Width {
			out := to[3*x:][:3:3]
			if column, line := coordinate(atX), coordinate(atY); within(column, src.Width) && within(line, src.Height) {
				copy(out, row(src, line)[3*column:])
			} else {
				copy(out, fill[:])
			}
			atX += a[0]
			atY += a[3]
		}
		startX += a[1]
		startY += a[4]
	}
}

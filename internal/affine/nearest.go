package affine

import (
	"math"

	"github.com/imgfeed/imgfeed/internal/imagefile"
)

// toInt is C's conversion as x86-64 does it: towards zero, and the lowest int32 for what is none.
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
	first, behind := dst.Width, 0 // the columns that show something
	m.columns = m.columns[:0]
	apart := false // one is not beside the one before
	at := a[2] + float64(a[0]*0.5)
	for x := range dst.Width {
		column := int32(coordinate(at))
		if within(int(column), src.Width) {
			first, behind = min(first, x), x+1
			apart = apart || x > first && column != m.columns[x-1]+1
		}
		m.columns = append(m.columns, column)
		at += a[0]
	}
	at = a[5] + float64(a[4]*0.5)
	for y := range dst.Height {
		to, line := row(dst, y), coordinate(at)
		at += a[4]
		if !within(line, src.Height) || first >= behind {
			paint(to, fill)
			continue
		}
		paint(to[:3*first], fill)
		if from := row(src, line); !apart {
			copy(to[3*first:3*behind], from[3*m.columns[first]:])
		} else {
			for x, column := range m.columns[first:behind] {
				pixel, place := from[3*column:][:3:3], to[3*(first+x):][:3:3]
				place[0], place[1], place[2] = pixel[0], pixel[1], pixel[2]
			}
		}
		paint(to[3*behind:], fill)
	}
}

// fitsFixed reports whether the corners of a w × h result lie within what numbers of 16 bits and as many of fraction hold.
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

// A fixedMap is a map whose positions have 16 bits of fraction, on its way down the rows.
type fixedMap struct {
	startX, startY int32 // the position of the row's first pixel
	stepX, stepY   int32
	downX, downY   int32
}

func newFixedMap(a *Matrix) fixedMap {
	return fixedMap{
		startX: fixedPoint(a[2] + float64(a[0]*0.5) + float64(a[1]*0.5)), startY: fixedPoint(a[5] + float64(a[3]*0.5) + float64(a[4]*0.5)),
		stepX: fixedPoint(a[0]), stepY: fixedPoint(a[3]),
		downX: fixedPoint(a[1]), downY: fixedPoint(a[4]),
	}
}

// showing returns the first of a row's n pixels that shows something of the source, and the one behind the last.
func (f *fixedMap) showing(n int, src *imagefile.RGB) (first, behind int) {
	first, behind = showing(f.startX, f.stepX, n, src.Width)
	firstY, behindY := showing(f.startY, f.stepY, n, src.Height)
	first = max(first, firstY)
	return first, max(first, min(behind, behindY))
}

// down goes on to the next row.
func (f *fixedMap) down() {
	f.startX += f.downX
	f.startY += f.downY
}

// fixed is affine_fixed: nearest, for maps that [Matrix.fitsFixed].
func (m *Mapper) fixed(dst, src *imagefile.RGB, a *Matrix, fill [3]byte) {
	f := newFixedMap(a)
	shears := f.stepX == 1<<16 && f.downX == 0 && f.downY == 1<<16 // along y
	if m.kernels != nil && shears {
		first, behind := showing(f.startX, f.stepX, dst.Width, src.Width)
		m.findRuns(src, f.startX, f.startY, f.stepY, first, behind)
	} else if m.kernels != nil {
		m.group.startFixed(src, f.stepX, f.stepY)
		if m.group.startPieces(src, dst.Width, f.stepX, f.stepY) {
			m.fixedPieces(dst, src, &f, fill)
			return
		}
	}
	for y := range dst.Height {
		to := m.target(dst, y)
		first, behind := f.showing(dst.Width, src)
		paint(to[:3*first], fill)
		xx, yy := f.startX+int32(first)*f.stepX, f.startY+int32(first)*f.stepY
		if first == behind {
			paint(to, fill)
		} else if f.stepX == 1<<16 && f.stepY == 0 {
			copy(to[3*first:3*behind], row(src, int(yy>>16))[3*(xx>>16):])
		} else if m.kernels != nil && shears {
			m.copyRuns(to, src, y, first, behind)
		} else if m.kernels != nil {
			m.kernels.copyFixed(m.group, to[3*first:], src, xx, yy, behind-first)
		} else {
			for place := to[3*first : 3*behind]; len(place) >= 3; place = place[3:] {
				pixel := src.Pix[3*(int(yy>>16)*src.Width+int(xx>>16)):][:3:3]
				place[0], place[1], place[2] = pixel[0], pixel[1], pixel[2]
				xx += f.stepX
				yy += f.stepY
			}
		}
		paint(to[3*behind:], fill)
		settle(dst, y, to)
		f.down()
	}
}

// showing returns the first of n places and the one behind the last whose position, start + place·step with 16 bits of
// fraction, is one of size. Positions that overflow are none, as a coordinate of 32,768 and more is none.
func showing(start, step int32, n, size int) (first, behind int) {
	low, high := -int64(start), int64(min(size, 1<<15))<<16-int64(start) // low ≤ place·step < high
	switch s := int64(step); {
	case s == 0:
		if low > 0 || high <= 0 {
			return 0, 0
		}
		return 0, n
	case s < 0:
		low, high = -high+1, -low+1
		low, high = ceilQuotient(low, -s), ceilQuotient(high, -s)
	default:
		low, high = ceilQuotient(low, s), ceilQuotient(high, s)
	}
	return int(min(max(low, 0), int64(n))), int(min(max(high, 0), int64(n)))
}

// ceilQuotient returns ⌈a/b⌉ for b > 0.
func ceilQuotient(a, b int64) int64 {
	q := a / b
	if a%b > 0 {
		q++
	}
	return q
}

// sums is the rest of ImagingTransformAffine: nearest, for maps of which a corner lies far outside.
func sums(dst, src *imagefile.RGB, a *Matrix, fill [3]byte) {
	startX := a[2] + float64(a[1]*0.5) + float64(a[0]*0.5)
	startY := a[5] + float64(a[4]*0.5) + float64(a[3]*0.5)
	for y := range dst.Height {
		to := row(dst, y)
		atX, atY := startX, startY
		for x := range dst.Width {
			place := to[3*x:][:3:3]
			if column, line := coordinate(atX), coordinate(atY); within(column, src.Width) && within(line, src.Height) {
				copy(place, row(src, line)[3*column:])
			} else {
				copy(place, fill[:])
			}
			atX += a[0]
			atY += a[3]
		}
		startX += a[1]
		startY += a[4]
	}
}

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
				pixel, place := from[3*column:][:3:3], to[3*(first+x):][:3:3]
				place[0], place[1], place[2] = pixel[0], pixel[1], pixel[2]
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

// A fixedMap is a map in fixed point, with 16 bits of fraction, at the current row.
type fixedMap struct {
	startX, startY int32 // the position of the row's first pixel
	stepX, stepY   int32
	downX, downY   int32
	width          int     // the result's width
	x, y           [2]edge // the first pixel with a column (row) of the source, and the first one after those
}

func newFixedMap(a *Matrix, width int, src *imagefile.RGB) (f fixedMap) {
	f.startX, f.startY = fixedPoint(a[2]+float64(a[0]*0.5)+float64(a[1]*0.5)), fixedPoint(a[5]+float64(a[3]*0.5)+float64(a[4]*0.5))
	f.stepX, f.downX = fixedPoint(a[0]), fixedPoint(a[1])
	f.stepY, f.downY = fixedPoint(a[3]), fixedPoint(a[4])
	f.width = width
	f.x = edges(f.startX, f.stepX, f.downX, src.Width)
	f.y = edges(f.startY, f.stepY, f.downY, src.Height)
	return f
}

// showing returns the row's first pixel that shows the source, and the one after the last.
func (f *fixedMap) showing() (first, behind int) {
	first = min(max(int(f.x[0].place), int(f.y[0].place), 0), f.width)
	return first, max(first, min(int(f.x[1].place), int(f.y[1].place), f.width))
}

// down moves to the next row.
func (f *fixedMap) down() {
	f.startX += f.downX
	f.startY += f.downY
	f.x[0].down()
	f.x[1].down()
	f.y[0].down()
	f.y[1].down()
}

// fixed is affine_fixed: nearest, for maps that [Matrix.fitsFixed].
func (m *Mapper) fixed(dst, src *imagefile.RGB, a *Matrix, fill [3]byte) {
	f := newFixedMap(a, dst.Width, src)
	shears := f.stepX == 1<<16 && f.downX == 0 && f.downY == 1<<16 // along y
	if m.kernels != nil && shears {
		first, behind := min(max(int(f.x[0].place), 0), dst.Width), min(max(int(f.x[1].place), 0), dst.Width)
		m.findRuns(src, f.startX, f.startY, f.stepY, first, behind)
	} else if m.kernels != nil {
		m.group.startFixed(src, f.stepX, f.stepY)
	}
	for y := range dst.Height {
		to := m.target(dst, y)
		first, behind := f.showing()
		resample.Paint(to[:3*first], fill)
		xx, yy := f.startX+int32(first)*f.stepX, f.startY+int32(first)*f.stepY
		if first == behind {
			resample.Paint(to, fill)
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
		resample.Paint(to[3*behind:], fill)
		settle(dst, y, to)
		f.down()
	}
}

// An edge is the place in a row where a coordinate has grown by distance: ⌈distance/step⌉. It moves down the rows without a division.
type edge struct {
	place, remainder         int64 // the remainder is below step
	placeDown, remainderDown int64
	step                     int64
}

func newEdge(distance, step, down int64) edge {
	e := edge{step: step}
	e.place, e.remainder = floorQuotient(distance+step-1, step)
	e.placeDown, e.remainderDown = floorQuotient(-down, step)
	return e
}

// down moves to the next row.
func (e *edge) down() {
	remainder := e.remainder + e.remainderDown - e.step
	short := remainder >> 63 // not a branch, which would be mispredicted too often
	e.remainder = remainder + e.step&short
	e.place += e.placeDown + 1 + short
}

// edges returns the first place in a row where the position, start + place·step with 16 bits of fraction, lies in
// 0 .. size-1, and the first place after those. Coordinates from 32,768 on count as outside.
func edges(start, step, down int32, size int) [2]edge {
	low, high := -int64(start), int64(min(size, 1<<15))<<16-int64(start) // low ≤ place·step < high
	s, d := int64(step), int64(down)
	switch {
	case s == 0: // all places, or no place
		const far = 1 << 30
		return [2]edge{newEdge(low*far, 1, d*far), newEdge(high*far, 1, d*far)}
	case s < 0:
		return [2]edge{newEdge(-high+1, -s, -d), newEdge(-low+1, -s, -d)}
	}
	return [2]edge{newEdge(low, s, d), newEdge(high, s, d)}
}

// floorQuotient returns ⌊a/b⌋ and what remains, for b > 0.
func floorQuotient(a, b int64) (q, remainder int64) {
	q, remainder = a/b, a%b
	if remainder < 0 {
		q, remainder = q-1, remainder+b
	}
	return q, remainder
}

// sums is the last algorithm of ImagingTransformAffine: nearest, for maps with a corner far outside.
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

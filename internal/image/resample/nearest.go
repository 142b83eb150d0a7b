package resample

import (
	"image"
	"slices"
)

// nearestTables holds, for each kept output column and row, the source's column and row.
type nearestTables struct {
	columns, rows []int32
}

// nearestPositions appends to to the source positions of outputs from .. end-1. Pillow's ImagingScaleAffine steps along
// the row by adding the scale, so rounding errors add up from the image's edge; so do they here.
func nearestPositions(to []int32, in, out, from, end int) []int32 {
	scale := float64(float32(in)) / float64(out)
	at := float64(scale * 0.5)
	for o := range end {
		if o >= from {
			to = append(to, int32(min(int(at), in-1)))
		}
		at += scale
	}
	return to
}

// nearestSpan returns the first source position of outputs from .. end-1 and the one behind the last.
func nearestSpan(in, out, from, end int) (first, behind int) {
	scale := float64(float32(in)) / float64(out)
	at := float64(scale * 0.5)
	for o := range end {
		position := min(int(at), in-1)
		if o <= from {
			first = position
		}
		behind = position + 1
		at += scale
	}
	return first, behind
}

func (r *Resampler) resizeNearest(dst Output, src []byte, stride int, have image.Rectangle, srcW, srcH, outW, outH int,
	keep image.Rectangle) {
	t := &r.nearest
	t.columns = nearestPositions(t.columns[:0], srcW, outW, keep.Min.X, keep.Max.X)
	t.rows = nearestPositions(t.rows[:0], srcH, outH, keep.Min.Y, keep.Max.Y)
	if dst.Flip {
		slices.Reverse(t.columns)
	}
	r.scratch.line = grown(r.scratch.line, 3*len(t.columns))
	line := r.scratch.line
	for y, row := range t.rows {
		if y == 0 || row != t.rows[y-1] {
			source := src[(int(row)-have.Min.Y)*stride:]
			for x, column := range t.columns {
				from, to := source[3*(int(column)-have.Min.X):][:3:3], line[3*x:][:3:3]
				to[0], to[1], to[2] = from[0], from[1], from[2]
			}
		}
		r.putRow(dst, y, line)
	}
}

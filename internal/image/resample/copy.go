package resample

import (
	"image"
	"slices"
)

// CopyPadded writes the part keep of an image to dst without resizing, with dst's flip and layout. src holds interleaved
// RGB, rows stride bytes apart, of the region have. Pixels of keep outside have get the colour fill, red, green and blue,
// as in torchvision's RandomCrop(padding, fill).
func (r *Resampler) CopyPadded(dst Output, src []byte, stride int, have, keep image.Rectangle, fill [3]byte) error {
	if keep.Empty() {
		return argumentError("part %v to keep is empty", keep)
	}
	inside := keep.Intersect(have)
	if err := checkBuffers(dst, src, stride, have, inside, keep); err != nil {
		return err
	}
	if inside == keep {
		r.copyRegion(dst, src, stride, have, keep)
		return nil
	}
	if shown := inside.Sub(keep.Min); dst.Layout == NHWC {
		if dst.Flip {
			shown = Mirrored(shown, keep.Dx())
		}
		if !inside.Empty() {
			r.copyRegion(dst.Part(shown), src, stride, have, inside)
		}
		dst.PaintAround(shown, fill)
		return nil
	}
	r.scratch.line = grown(r.scratch.line, 3*keep.Dx())
	line := r.scratch.line
	Paint(line, fill)
	first, behind := 3*(inside.Min.X-keep.Min.X), 3*(inside.Max.X-keep.Min.X)
	shown := false // line contains a row of the image
	for y := range keep.Dy() {
		if row := keep.Min.Y + y; !inside.Empty() && row >= inside.Min.Y && row < inside.Max.Y {
			at := (row-have.Min.Y)*stride + 3*(inside.Min.X-have.Min.X)
			copy(line[first:behind], src[at:])
			shown = true
		} else if shown {
			Paint(line[first:behind], fill)
			shown = false
		}
		r.putCopiedRow(dst, y, line)
	}
	return nil
}

// Part returns a part of an NHWC image as an output of its own. Writing it may spoil pixels after its rows.
func (dst Output) Part(part image.Rectangle) Output {
	stride, size := dst.stride(), 3*dst.Width*dst.Height
	dst.Pix = dst.Pix[part.Min.Y*stride+3*part.Min.X : size : size]
	dst.Width, dst.Height, dst.Stride = part.Dx(), part.Dy(), stride
	return dst
}

// PaintAround gives the pixels of an NHWC image around a part a colour.
func (dst Output) PaintAround(part image.Rectangle, fill [3]byte) {
	stride, size := 3*dst.Width, 3*dst.Width*dst.Height
	if part.Empty() {
		Paint(dst.Pix[:size], fill)
		return
	}
	first, behind := part.Min.Y*stride+3*part.Min.X, (part.Max.Y-1)*stride+3*part.Max.X
	Paint(dst.Pix[:first], fill)
	Paint(dst.Pix[behind:size], fill)
	between := stride - 3*part.Dx() // bytes to the right of a row and to the left of the next
	for at := first + 3*part.Dx(); between > 0 && at < behind; at += stride {
		Paint(dst.Pix[at:][:between], fill)
	}
}

// Paint gives pixels a colour, by copies of a block that stays in the processor's first cache.
func Paint(pix []byte, fill [3]byte) {
	const block = 3 << 13
	for n := copy(pix, fill[:]); n < len(pix); {
		n += copy(pix[n:], pix[:min(n, block)])
	}
}

func (r *Resampler) copyRegion(dst Output, src []byte, stride int, have, keep image.Rectangle) {
	at := (keep.Min.Y-have.Min.Y)*stride + 3*(keep.Min.X-have.Min.X)
	rowBytes := 3 * keep.Dx()
	for y := range keep.Dy() {
		r.putCopiedRow(dst, y, src[at+y*stride:][:rowBytes])
	}
}

// putCopiedRow writes an interleaved row in source order as row y of dst.
func (r *Resampler) putCopiedRow(dst Output, y int, row []byte) {
	switch {
	case !dst.Flip:
		r.putRow(dst, y, row)
	case dst.Layout == NHWC:
		r.mirrorRow(dst.Pix[y*dst.stride():][:len(row)], row)
	default:
		r.scratch.mirrored = grown(r.scratch.mirrored, len(row))
		r.mirrorRow(r.scratch.mirrored, row)
		r.putRow(dst, y, r.scratch.mirrored)
	}
}

// mirror writes the pixels of src to dst, of equal length, in reverse order. They do not overlap.
func mirror(dst, src []byte) {
	for i, j := 0, len(src)-3; j >= 0; i, j = i+3, j-3 {
		from, to := src[j:][:3:3], dst[i:][:3:3]
		to[0], to[1], to[2] = from[0], from[1], from[2]
	}
}

// Rearranging finished rows: splitting interleaved pixels into planes, and mirroring.

const mirrorPixels = 5 // pixels in 15 bytes

// mirrorIndex leaves the mirrored pixels in bytes 1..15; the next step overwrites byte 0.
var mirrorIndex [16]uint8

func init() {
	for i := range mirrorPixels {
		for c := range 3 {
			mirrorIndex[1+3*i+c] = uint8(3*(mirrorPixels-1-i) + c)
		}
	}
}

// putRow is [Output.putRow] with the kernels of r's level.
func (r *Resampler) putRow(dst Output, y int, row []byte) {
	if k := byLevel[r.level].forRow(dst.Width); k != nil && dst.Layout == NCHW {
		red, green, blue := dst.planes(y)
		k.splitPlanes(red, green, blue, row)
		return
	}
	dst.putRow(y, row)
}

// mirrorRow is [mirror] with the kernels of r's level; dst and src do not overlap.
func (r *Resampler) mirrorRow(dst, src []byte) {
	if k := byLevel[r.level]; k != nil {
		k.mirror(dst, src)
		return
	}
	mirror(dst, src)
}

// nearestTables holds, for each kept output column and row, the source's column and row.
type nearestTables struct {
	columns, rows []int32
}

// nearestPositions appends the source positions of outputs from .. end-1 to to. Pillow's ImagingScaleAffine steps along
// the row by adding the scale, so rounding errors accumulate from the image's edge, here too.
func nearestPositions(to []int32, in, out, from, end int, f Filter) []int32 {
	if f != Nearest {
		for o := from; o < end; o++ {
			to = append(to, int32(tensorNearest(in, out, o, f)))
		}
		return to
	}
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

// nearestSpan returns the first source position of outputs from .. end-1 and the one after the last.
func nearestSpan(in, out, from, end int, f Filter) (first, behind int) {
	if f != Nearest {
		return tensorNearest(in, out, from, f), tensorNearest(in, out, end-1, f) + 1
	}
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

func (r *Resampler) resizeNearest(dst Output, s *Scaling) {
	t := &r.nearest
	t.columns = nearestPositions(t.columns[:0], s.SrcW, s.OutW, s.Keep.Min.X, s.Keep.Max.X, s.Filter)
	t.rows = nearestPositions(t.rows[:0], s.SrcH, s.OutH, s.Keep.Min.Y, s.Keep.Max.Y, s.Filter)
	if dst.Flip {
		slices.Reverse(t.columns)
	}
	for i := range t.columns {
		if s.Mirrored {
			t.columns[i] = int32(s.SrcW-1) - t.columns[i]
		}
	}
	r.scratch.line = grown(r.scratch.line, 3*len(t.columns))
	line := r.scratch.line
	for y, row := range t.rows {
		if y == 0 || row != t.rows[y-1] {
			source := s.Src[(int(row)-s.Have.Min.Y)*s.Stride:]
			for x, column := range t.columns {
				from, to := source[3*(int(column)-s.Have.Min.X):][:3:3], line[3*x:][:3:3]
				to[0], to[1], to[2] = from[0], from[1], from[2]
			}
		}
		r.putRow(dst, y, line)
	}
}

package resample

import "image"

// Copy writes the part keep of an image to dst without resizing, with dst's flip and layout. src holds interleaved RGB,
// rows stride bytes apart, of the region have, which must contain keep.
func (r *Resampler) Copy(dst Output, src []byte, stride int, have, keep image.Rectangle) error {
	if keep.Empty() {
		return argumentError("part %v to keep is empty", keep)
	}
	if err := checkBuffers(dst, src, stride, have, keep, keep); err != nil {
		return err
	}
	r.copyRegion(dst, src, stride, have, keep)
	return nil
}

// CopyPadded is [Resampler.Copy] for a part that may lie partly or wholly outside the image: what is not in have gets the
// colour fill, red, green and blue, as under torchvision's RandomCrop(padding, fill).
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
	r.scratch.line = grown(r.scratch.line, 3*keep.Dx())
	line := r.scratch.line
	paint(line, fill)
	first, behind := 3*(inside.Min.X-keep.Min.X), 3*(inside.Max.X-keep.Min.X)
	shown := false // whether line shows a row of the image
	for y := range keep.Dy() {
		if row := keep.Min.Y + y; !inside.Empty() && row >= inside.Min.Y && row < inside.Max.Y {
			at := (row-have.Min.Y)*stride + 3*(inside.Min.X-have.Min.X)
			copy(line[first:behind], src[at:])
			shown = true
		} else if shown {
			paint(line[first:behind], fill)
			shown = false
		}
		r.putCopiedRow(dst, y, line)
	}
	return nil
}

// paint gives pixels a colour.
func paint(pix []byte, fill [3]byte) {
	n := copy(pix, fill[:])
	for n < len(pix) {
		n += copy(pix[n:], pix[:n])
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
		r.mirrorRow(dst.Pix[y*len(row):][:len(row)], row)
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

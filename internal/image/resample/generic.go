package resample

// resizeFiltered runs both passes for the tables in r. src begins at the first pixel with a weight.
func (r *Resampler) resizeFiltered(dst Output, src []byte, stride int, verticalFirst bool) {
	switch {
	case r.resizeSIMD(dst, src, stride, verticalFirst):
	case verticalFirst:
		r.resizeGenericVerticalFirst(dst, src, stride)
	default:
		r.resizeGeneric(dst, src, stride)
	}
}

// resizeGeneric is the reference: all source rows horizontally, then the output's rows one by one.
func (r *Resampler) resizeGeneric(dst Output, src []byte, stride int) {
	h, v, s := &r.horizontal, &r.vertical, &r.scratch
	rowBytes := 3 * h.n
	rows := v.end - v.first
	s.rows = grown(s.rows, rows*rowBytes)
	s.weights = h.sideBySide(grown(s.weights, h.n*h.taps))
	for y := range rows {
		horizontalGeneric(s.rows[y*rowBytes:(y+1)*rowBytes], src[y*stride:], h, s.weights)
	}
	s.sums = grown(s.sums, rowBytes)
	s.line = grown(s.line, rowBytes)
	for y := range dst.Height {
		verticalGeneric(s.line, s.rows, rowBytes, v, y, s.sums)
		dst.putRow(y, s.line)
	}
}

// resizeGenericVerticalFirst is the reference for the other order: each output row of all needed columns, and then horizontally.
func (r *Resampler) resizeGenericVerticalFirst(dst Output, src []byte, stride int) {
	h, s := &r.horizontal, &r.scratch
	rowBytes := 3 * (h.end - h.first)
	s.rows, s.sums = grown(s.rows, rowBytes), grown(s.sums, rowBytes)
	s.weights = h.sideBySide(grown(s.weights, h.n*h.taps))
	s.line = grown(s.line, 3*h.n)
	for y := range dst.Height {
		verticalGeneric(s.rows, src, stride, &r.vertical, y, s.sums)
		horizontalGeneric(s.line, s.rows, h, s.weights)
		dst.putRow(y, s.line)
	}
}

// sideBySide fills to with the table's weights so that those of one output are adjacent, taps entries each.
func (a *axis) sideBySide(to []int32) []int32 {
	for i := range a.n {
		for t := range a.taps {
			to[i*a.taps+t] = a.weight[t*a.pitch+i]
		}
	}
	return to
}

// horizontalGeneric makes one row of h.n pixels from a source row that begins at pixel h.first.
func horizontalGeneric(dst, src []byte, h *axis, weights []int32) {
	for i := range h.n {
		k := weights[i*h.taps:][:h.count[i]]
		window := src[3*(int(h.low[i])-h.first):][:3*len(k)]
		var red, green, blue int32 = weightHalf, weightHalf, weightHalf
		for t, w := range k {
			pixel := window[3*t:][:3:3]
			red += int32(pixel[0]) * w
			green += int32(pixel[1]) * w
			blue += int32(pixel[2]) * w
		}
		pixel := dst[3*i:][:3:3]
		pixel[0], pixel[1], pixel[2] = clip8(red), clip8(green), clip8(blue)
	}
}

// verticalGeneric makes len(dst) bytes of output row y from rows that are stride bytes apart; the first is row v.first.
func verticalGeneric(dst, rows []byte, stride int, v *axis, y int, sums []int32) {
	for i := range sums {
		sums[i] = weightHalf
	}
	rows = rows[(int(v.low[y])-v.first)*stride:]
	count := int(v.count[y])
	t := 0
	for ; t+1 < count; t += 2 { // two rows per step halve the memory traffic of sums
		w0, w1 := v.weight[t*v.pitch+y], v.weight[(t+1)*v.pitch+y]
		row0, row1 := rows[t*stride:][:len(sums)], rows[(t+1)*stride:][:len(sums)]
		for i := range sums {
			sums[i] += int32(row0[i])*w0 + int32(row1[i])*w1
		}
	}
	if t < count {
		w := v.weight[t*v.pitch+y]
		row := rows[t*stride:][:len(sums)]
		for i := range sums {
			sums[i] += int32(row[i]) * w
		}
	}
	for i, sum := range sums {
		dst[i] = clip8(sum)
	}
}

// clip8 converts a sum, including its rounding, to a byte.
func clip8(sum int32) byte {
	return byte(min(max(sum>>weightBits, 0), 255))
}

// putRow writes a finished interleaved row, already mirrored if necessary.
func (dst Output) putRow(y int, row []byte) {
	if dst.Layout == NHWC {
		copy(dst.Pix[y*dst.stride():][:dst.Width*3], row)
		return
	}
	red, green, blue := dst.planes(y)
	row = row[:3*len(red)]
	for x := range red {
		red[x], green[x], blue[x] = row[3*x], row[3*x+1], row[3*x+2]
	}
}

// planes returns row y of the three planes of an NCHW output, of equal length.
func (dst Output) planes(y int) (red, green, blue []byte) {
	w, plane := dst.Width, dst.Width*dst.Height
	at := y * w
	return dst.Pix[at:][:w:w], dst.Pix[plane+at:][:w:w], dst.Pix[2*plane+at:][:w:w]
}

package resample

// Rearranging finished rows: three planes out of interleaved pixels, and mirroring.

const mirrorPixels = 5 // in 15 bytes

// mirrorIndex leaves the mirrored pixels in bytes 1..15; byte 0 is overwritten by the step that follows.
var mirrorIndex [16]int8

func init() {
	for i := range mirrorPixels {
		for c := range 3 {
			mirrorIndex[1+3*i+c] = int8(3*(mirrorPixels-1-i) + c)
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

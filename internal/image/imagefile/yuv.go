package imagefile

// A limitedYUV is an image of 8-bit Y'CbCr by ITU-R BT.601 in its limited range (Y from 16 to 235, the others from 16 to 240), with one
// chroma sample for 2×2 pixels, as VP8 has it (RFC 6386, section 9.2).
type limitedYUV struct {
	y, u, v           []byte
	yStride, uvStride int
	width, height     int
}

// The conversion to RGB. RFC 9649 leaves it to the decoder; these are the numbers that give libwebp's bits. With Y, U and V as they are
// stored, and all products scaled down to 6 bits of fraction,
//
//	R = Y·1.164 + V·1.596 − 222.4
//	G = Y·1.164 − U·0.392 − V·0.813 + 136.1
//	B = Y·1.164 + U·2.017 − 276.3
//
// Factors have 14 bits of fraction, of a product 8 bits are cut off before the sum. White, (235, 128, 128):
// 235·19077>>8 = 17512, 128·26149>>8 = 13074, R = (17512 + 13074 − 14234)>>6 = 255.
const (
	yuvY  = 19077 // 255/219
	yuvRV = 26149 // 255/112 · (1 − Kr)
	yuvGU = 6419  // 255/112 · (1 − Kb) · Kb/Kg
	yuvGV = 13320 // 255/112 · (1 − Kr) · Kr/Kg
	yuvBU = 33050 // 255/112 · (1 − Kb)

	// 16 of Y and 128 of U and V taken off, and a half for rounding, in 6 bits of fraction.
	yuvR0, yuvG0, yuvB0 = -14234, 8708, -17685
)

// writeRGB writes the pixels to dst, rows stride bytes apart. A pixel's chroma lies between four samples, weighed 9, 3, 3 and 1 by how
// near they are (a triangle in each direction), and rounded once; at the borders the outermost sample is repeated.
func (m *limitedYUV) writeRGB(dst []byte, stride int) {
	chromaWidth, chromaHeight := (m.width+1)/2, (m.height+1)/2
	// Columns of both chromas, weighed by 3 and 1; one more on either side repeats the outermost.
	columns := make([][2]int32, chromaWidth+2)
	for y := range m.height {
		near := y / 2
		far := min(max(near-1+y%2*2, 0), chromaHeight-1)
		u, uFar := m.u[near*m.uvStride:][:chromaWidth], m.u[far*m.uvStride:][:chromaWidth]
		v, vFar := m.v[near*m.uvStride:][:chromaWidth], m.v[far*m.uvStride:][:chromaWidth]
		inner := columns[1:][:chromaWidth]
		for i := range inner {
			inner[i] = [2]int32{3*int32(u[i]) + int32(uFar[i]), 3*int32(v[i]) + int32(vFar[i])}
		}
		columns[0], columns[chromaWidth+1] = columns[1], columns[chromaWidth]
		writeRGBRow(dst[y*stride:][:3*m.width], m.y[y*m.yStride:][:m.width], columns)
	}
}

// writeRGBRow converts a row. Pixels 2i and 2i+1 lie in column 1+i of the chromas, the first nearer to the column before it and the
// second nearer to that after it.
func writeRGBRow(dst, luma []byte, columns [][2]int32) {
	left, here := columns[0], columns[1]
	for i, right := range columns[2:] {
		writePixel(dst, luma[2*i], (3*here[0]+left[0]+8)>>4, (3*here[1]+left[1]+8)>>4)
		if 2*i+1 == len(luma) {
			return
		}
		writePixel(dst[3:], luma[2*i+1], (3*here[0]+right[0]+8)>>4, (3*here[1]+right[1]+8)>>4)
		left, here = here, right
		dst = dst[6:]
	}
}

func writePixel(dst []byte, luma byte, u, v int32) {
	y := int32(luma) * yuvY >> 8
	_ = dst[2]
	dst[0] = clipFraction(y + v*yuvRV>>8 + yuvR0)
	dst[1] = clipFraction(y - u*yuvGU>>8 - v*yuvGV>>8 + yuvG0)
	dst[2] = clipFraction(y + u*yuvBU>>8 + yuvB0)
}

// clipFraction drops 6 bits of fraction, and clips the rest to a byte.
func clipFraction(v int32) byte {
	if uint32(v) < 256<<6 {
		return byte(v >> 6)
	}
	return byte(^(v >> 31)) // 0 below, 255 above
}

package pointwise

// Sharpen writes src, an image of w × h pixels, to dst as ImageEnhance.Sharpness enhances it: blended by factor with what
// ImageFilter.SMOOTH makes of it, which below 1 smooths and above 1 sharpens. dst and src do not overlap.
//
// SMOOTH leaves the pixels of the border as they are; to others it gives the mean of the nine around, the middle counting five
// times. Pillow sums in float32, but no sum divided by 13 is nearer than 1/26 to where it would be rounded otherwise, so that
// integers give the same.
func Sharpen(dst, src []byte, w, h int, factor float32) {
	copy(dst, src[:3*w*h])
	for y := 1; y < h-1; y++ {
		at := 3 * w * y
		above, row, below := src[at-3*w:][:3*w], src[at:][:3*w], src[at+3*w:][:3*w]
		out := dst[at:][:3*w]
		for i := 3; i < 3*w-3; i++ {
			sum := int(above[i-3]) + int(above[i]) + int(above[i+3]) +
				int(row[i-3]) + 5*int(row[i]) + int(row[i+3]) +
				int(below[i-3]) + int(below[i]) + int(below[i+3])
			out[i] = blend(byte((sum+6)/13), row[i], factor)
		}
	}
}

package pointwise

// Enhancements are blends of an image with a degenerate one by a factor: 0 gives the degenerate one, 1 the image, more goes beyond.

// blend is Image.blend (libImaging/Blend.c) for one byte: a + factor·(b − a) in float32, each step rounded once, cut off and
// limited to 0..255.
func blend(a, b byte, factor float32) byte {
	v := float32(a) + float32(factor*float32(int(b)-int(a)))
	switch {
	case v <= 0:
		return 0
	case v >= 255:
		return 255
	}
	return byte(v)
}

// Brightness is ImageEnhance.Brightness, whose degenerate image is black.
func (a *Adjuster) Brightness(pix []byte, factor float32) { a.blendAll(pix, 0, factor) }

// Contrast is ImageEnhance.Contrast, whose degenerate image has the mean of the image's luma everywhere.
func (a *Adjuster) Contrast(pix []byte, factor float32) {
	if len(pix) >= 3 {
		a.blendAll(pix, a.meanLuma(pix), factor)
	}
}

func (a *Adjuster) meanLuma(pix []byte) byte {
	sum, n := 0, len(pix)/3
	for ; len(pix) >= 3; pix = pix[3:] {
		sum += int(luma(pix[0], pix[1], pix[2]))
	}
	return byte(float64(sum)/float64(n) + 0.5)
}

// blendAll blends the image with one that has the same byte everywhere.
func (a *Adjuster) blendAll(pix []byte, with byte, factor float32) {
	table := &a.tables[0]
	for v := range table {
		table[v] = blend(with, byte(v), factor)
	}
	for i, v := range pix {
		pix[i] = table[v]
	}
}

// Saturation is ImageEnhance.Color, whose degenerate image is the gray one.
func (a *Adjuster) Saturation(pix []byte, factor float32) {
	for ; len(pix) >= 3; pix = pix[3:] {
		l := luma(pix[0], pix[1], pix[2])
		pix[0], pix[1], pix[2] = blend(l, pix[0], factor), blend(l, pix[1], factor), blend(l, pix[2], factor)
	}
}

// Sharpness is ImageEnhance.Sharpness, whose degenerate image is what ImageFilter.SMOOTH makes of src, an image of w × h pixels.
// The result goes to dst, which does not overlap src.
//
// SMOOTH leaves the pixels of the border as they are; to others it gives the mean of the nine around, the middle counting five
// times. Pillow sums in float32, but no sum divided by 13 is nearer than 1/26 to where it would be rounded otherwise, so that
// integers give the same.
func (a *Adjuster) Sharpness(dst, src []byte, w, h int, factor float32) {
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

// Package pointwise changes the pixels of RGB images in memory with exactly Pillow's arithmetic: what ImageOps, ImageEnhance and
// Image.convert do to one pixel after the other.
//
// An image's pixels are three bytes each, R, G and B, without gaps.
package pointwise

// Invert replaces every byte by 255 minus it, as ImageOps.invert.
func Invert(pix []byte) {
	for i, v := range pix {
		pix[i] = ^v
	}
}

// Gray sets the channels of every pixel to its luma, as Image.convert("L") makes it and convert("RGB") repeats it.
func Gray(pix []byte) {
	for ; len(pix) >= 3; pix = pix[3:] {
		l := Luma(pix[0], pix[1], pix[2])
		pix[0], pix[1], pix[2] = l, l, l
	}
}

// Luma is Pillow's L24 (libImaging/Convert.c): ITU-R 601-2 in 16 bits of fraction, rounded.
func Luma(r, g, b byte) byte {
	return byte((uint32(r)*19595 + uint32(g)*38470 + uint32(b)*7471 + 0x8000) >> 16)
}

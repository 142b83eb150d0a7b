package pointwise

import "github.com/imgfeed/imgfeed/internal/libm"

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

// Brightness is ImageEnhance.Brightness. Its degenerate image is black.
func (a *Adjuster) Brightness(dst, src []byte, factor float64) {
	a.blendAll(dst, src, 0, float32(factor))
}

// Contrast is ImageEnhance.Contrast. Its degenerate image has the mean of the image's luma everywhere.
func (a *Adjuster) Contrast(dst, src []byte, factor float64) {
	if len(src) >= 3 {
		a.blendAll(dst, src, byte(float64(a.sumGray(src, pillow))/float64(len(src)/3)+0.5), float32(factor))
	}
}

func (a *Adjuster) sumGray(pix []byte, kind int) (sum int) {
	if a.fast != nil {
		var done int
		sum, done = a.fast.sumGray[kind](pix)
		pix = pix[done:]
	}
	for ; len(pix) >= 3; pix = pix[3:] {
		sum += int(grays[kind](pix[0], pix[1], pix[2]))
	}
	return sum
}

// blendAll blends the image with one that has the same byte everywhere.
func (a *Adjuster) blendAll(dst, src []byte, value byte, factor float32) {
	for v := range a.tables[0] {
		a.tables[0][v] = blend(value, byte(v), factor)
	}
	a.replaceLine(dst, src, float64(factor))
}

// replaceLine replaces all bytes by those of the first table, which are probably on a line of that slope.
func (a *Adjuster) replaceLine(dst, src []byte, slope float64) {
	if dst = dst[:len(src)]; a.byLine && a.lines[0].fit(&a.tables[0], slope, 1) {
		dst, src = skip(dst, src, a.fast.line(dst, src, &a.lines[0]))
	}
	a.replaceAll(dst, src)
}

// Saturation is ImageEnhance.Color. Its degenerate image is the gray one.
func (a *Adjuster) Saturation(dst, src []byte, factor float64) {
	a.saturate(dst, src, factor, pillow)
}

func (a *Adjuster) saturate(dst, src []byte, factor float64, kind int) {
	a.keepParts(factor)
	if dst = dst[:len(src)]; a.fast != nil {
		dst, src = skip(dst, src, a.fast.saturation[kind](dst, src, &a.factors))
	}
	for ; len(src) >= 3; dst, src = skip(dst, src, 3) {
		l := grays[kind](src[0], src[1], src[2])
		for c, v := range src[:3] {
			if kind == tensor {
				dst[c] = a.blended(v, float32(l))
			} else {
				dst[c] = blend(l, v, a.factors[0])
			}
		}
	}
}

// Sharpness is ImageEnhance.Sharpness for an image of w × h pixels. Its degenerate image is src after
// ImageFilter.SMOOTH. The result goes to dst, which does not overlap src.
//
// SMOOTH leaves the pixels of the border as they are; to others it gives the mean of the nine around, the middle
// counting five times. Pillow sums in float32, but no sum divided by 13 is nearer than 1/26 to a rounding boundary, so
// integers give the same.
//
// For a tensor the smooth image is the same. torch adds to the image what is left of the factor to 1, times the difference, and
// rounds once.
func (a *Adjuster) Sharpness(dst, src []byte, w, h int, factor float64, ofTensor bool) {
	a.keepParts(factor)
	kind := pillow
	if ofTensor {
		kind = tensor
	}
	stride, by := 3*w, a.factors[kind]
	fast := a.fast != nil && stride-6 >= a.fast.vector
	for y := range h {
		at := y * stride
		if y == 0 || y == h-1 || w < 3 {
			copy(dst[at:][:stride], src[at:])
			continue
		}
		copy(dst[at:][:3], src[at:])
		copy(dst[at+stride-3:][:3], src[at+stride-3:])
		if fast {
			a.fast.smooth[kind](dst, src, at+3, at+stride-3, stride, &a.factors[kind])
			continue
		}
		for i := at + 3; i < at+stride-3; i++ {
			sum := 4 * int(src[i])
			for _, k := range [3]int{i - stride, i, i + stride} {
				sum += int(src[k-3]) + int(src[k]) + int(src[k+3])
			}
			if smoothed := (sum + 6) / 13; kind == tensor {
				dst[i] = byte(min(max(libm.FMA32(float32(smoothed-int(src[i])), by, float32(src[i])), 0), 255))
			} else {
				dst[i] = blend(byte(smoothed), src[i], by)
			}
		}
	}
}

// keepParts stores a factor and what is left of 1, which torch computes before it rounds to float32. A kernel takes addresses: that
// of a local variable would allocate it.
func (a *Adjuster) keepParts(factor float64) {
	a.factors = [2]float32{float32(factor), float32(1 - factor)}
}

// Weighted sums of images in float32, rounded after each step, as numpy and torch compute them.

// Start returns an image times a weight as the first sums, in memory if that is large enough.
func Start(memory []float32, pix []byte, weight float32) []float32 {
	if cap(memory) < len(pix) {
		memory = make([]float32, len(pix)+len(pix)/4)
	}
	sums := memory[:len(pix)]
	for i, v := range pix {
		sums[i] = float32(weight * float32(v))
	}
	return sums
}

// Add adds an image times a weight.
func Add(sums []float32, pix []byte, weight float32) {
	for i, v := range pix[:len(sums)] {
		sums[i] += float32(weight * float32(v))
	}
}

// Finish writes the sums as bytes, cut off and limited to 0..255.
func Finish(pix []byte, sums []float32) {
	for i, v := range sums {
		pix[i] = byte(min(max(v, 0), 255))
	}
}

// Blend writes Image.blend of two images of dst's length: a + factor·(b − a). Either may be dst.
func Blend(dst, a, b []byte, factor float32) {
	for i := range dst {
		dst[i] = blend(a[i], b[i], factor)
	}
}

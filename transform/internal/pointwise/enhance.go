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
		a.blendAll(dst, src, a.meanLuma(src), float32(factor))
	}
}

func (a *Adjuster) meanLuma(pix []byte) byte {
	sum, n := 0, len(pix)/3
	if a.fast != nil {
		var done int
		sum, done = a.fast.sumLuma(pix)
		pix = pix[done:]
	}
	for ; len(pix) >= 3; pix = pix[3:] {
		sum += int(luma(pix[0], pix[1], pix[2]))
	}
	return byte(float64(sum)/float64(n) + 0.5)
}

// blendAll blends the image with one that has the same byte everywhere.
func (a *Adjuster) blendAll(dst, src []byte, value byte, factor float32) {
	for v := range a.tables[0] {
		a.tables[0][v] = blend(value, byte(v), factor)
	}
	if dst = dst[:len(src)]; a.byLine && a.lines[0].fit(&a.tables[0], float64(factor), 1) {
		dst, src = skip(dst, src, a.fast.line(dst, src, &a.lines[0]))
	}
	a.replaceAll(dst, src)
}

// Saturation is ImageEnhance.Color. Its degenerate image is the gray one.
func (a *Adjuster) Saturation(dst, src []byte, amount float64) {
	factor := float32(amount)
	if dst = dst[:len(src)]; a.fast != nil {
		dst, src = skip(dst, src, a.fast.saturation(dst, src, a.keep(factor)))
	}
	for ; len(src) >= 3; dst, src = skip(dst, src, 3) {
		l := luma(src[0], src[1], src[2])
		dst[0], dst[1], dst[2] = blend(l, src[0], factor), blend(l, src[1], factor), blend(l, src[2], factor)
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
func (a *Adjuster) Sharpness(dst, src []byte, w, h int, factor float64, tensor bool) {
	by := float32(factor)
	if tensor {
		by = float32(1 - factor)
	}
	stride, f := 3*w, a.keep(by)
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
			smooth := a.fast.smooth
			if tensor {
				smooth = a.fast.tensorSmooth
			}
			smooth(dst, src, at+3, at+stride-3, stride, f)
			continue
		}
		for i := at + 3; i < at+stride-3; i++ {
			sum := 4 * int(src[i])
			for _, k := range [3]int{i - stride, i, i + stride} {
				sum += int(src[k-3]) + int(src[k]) + int(src[k+3])
			}
			if smoothed := (sum + 6) / 13; tensor {
				dst[i] = byte(min(max(libm.FMA32(float32(smoothed-int(src[i])), by, float32(src[i])), 0), 255))
			} else {
				dst[i] = blend(byte(smoothed), src[i], by)
			}
		}
	}
}

// keep stores a factor and returns its address for a kernel: the address of a local variable would allocate it.
func (a *Adjuster) keep(factor float32) *float32 {
	a.factor = factor
	return &a.factor
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

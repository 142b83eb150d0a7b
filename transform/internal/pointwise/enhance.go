package pointwise

import (
	"slices"

	"github.com/imgfeed/imgfeed/internal/libm"
)

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

// blended blends a byte with one of the degenerate image by the factor that keepFactor has kept. torchvision's _blend does it for
// tensors: v·factor + other·(1 − factor).
func (a *Adjuster) blended(v byte, other float32) byte {
	if a.kind == pillow {
		return blend(byte(other), v, a.factors[0])
	}
	return byte(min(max(libm.FMA32(other, a.factors[1], float32(float32(v)*a.factors[0])), 0), 255))
}

// keepFactor keeps a factor and the rest to 1, which torch computes before it rounds to float32. A kernel takes their address: that
// of a local variable would allocate it.
func (a *Adjuster) keepFactor(factor float64) {
	a.factors = [2]float32{float32(factor), float32(1 - factor)}
}

// Brightness is ImageEnhance.Brightness, or adjust_brightness. Its degenerate image is black.
func (a *Adjuster) Brightness(dst, src []byte, factor float64) { a.BlendLevel(dst, src, 0, factor) }

// Contrast is ImageEnhance.Contrast, or adjust_contrast. Its degenerate image has the mean of the image's gray values everywhere.
// torch sums in float32, which is exact up to 2²⁴ in any order. Of the last values of an image, those after a multiple of 16 in
// memory, it does not fuse all additions.
func (a *Adjuster) Contrast(dst, src []byte, factor float64) {
	if len(src) >= 3 {
		a.BlendLevel(dst, src, a.MeanGray(src), factor)
	}
}

// MeanGray returns the mean of the image's gray values, which Pillow rounds.
func (a *Adjuster) MeanGray(pix []byte) float32 {
	sum, n := a.sumGray(pix), len(pix)/3
	if a.kind == pillow {
		return float32(byte(float64(sum)/float64(n) + 0.5))
	}
	return float32(sum) / float32(n)
}

func (a *Adjuster) sumGray(pix []byte) (sum int) {
	if a.fast != nil {
		var done int
		sum, done = a.fast.sumGray[a.kind](pix)
		pix = pix[done:]
	}
	for ; len(pix) >= 3; pix = pix[3:] {
		sum += int(grays[a.kind](pix[0], pix[1], pix[2]))
	}
	return sum
}

// BlendLevel blends the image with one that has the same value everywhere.
func (a *Adjuster) BlendLevel(dst, src []byte, value float32, factor float64) {
	a.keepFactor(factor)
	for v := range a.tables[0] {
		a.tables[0][v] = a.blended(byte(v), value)
	}
	if dst = dst[:len(src)]; a.byLine && a.lines[0].fit(&a.tables[0], float64(a.factors[0]), 1) {
		dst, src = skip(dst, src, a.fast.line(dst, src, &a.lines[0]))
	}
	a.replaceAll(dst, src)
}

// Saturation is ImageEnhance.Color, or adjust_saturation. Its degenerate image is the gray one.
func (a *Adjuster) Saturation(dst, src []byte, factor float64) {
	a.keepFactor(factor)
	if dst = dst[:len(src)]; a.fast != nil {
		dst, src = skip(dst, src, a.fast.saturation[a.kind](dst, src, &a.factors))
	}
	for ; len(src) >= 3; dst, src = skip(dst, src, 3) {
		l := float32(grays[a.kind](src[0], src[1], src[2]))
		dst[0], dst[1], dst[2] = a.blended(src[0], l), a.blended(src[1], l), a.blended(src[2], l)
	}
}

// Sharpness is ImageEnhance.Sharpness for an image of w × h pixels. Its degenerate image is src after
// ImageFilter.SMOOTH. The result goes to dst, which does not overlap src.
//
// SMOOTH leaves the pixels of the border as they are; to others it gives the mean of the nine around, the middle counting five times.
// Pillow sums in float32, but no sum divided by 13 is nearer than 1/26 to a rounding boundary, so integers give the same.
//
// For a tensor the smooth image is the same. torch adds to the image what is left of the factor to 1, times the difference, and
// rounds once.
func (a *Adjuster) Sharpness(dst, src []byte, w, h int, factor float64) {
	a.keepFactor(factor)
	stride, by := 3*w, a.factors[a.kind]
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
			a.fast.smooth[a.kind](dst, src, at+3, at+stride-3, stride, &a.factors[a.kind])
			continue
		}
		for i := at + 3; i < at+stride-3; i++ {
			sum := 4 * int(src[i])
			for _, k := range [3]int{i - stride, i, i + stride} {
				sum += int(src[k-3]) + int(src[k]) + int(src[k+3])
			}
			if smoothed := (sum + 6) / 13; a.kind == tensor {
				dst[i] = byte(min(max(libm.FMA32(float32(smoothed-int(src[i])), by, float32(src[i])), 0), 255))
			} else {
				dst[i] = blend(byte(smoothed), src[i], by)
			}
		}
	}
}

// Weighted sums of images in float32, rounded after each step, as numpy and torch compute them.

// Start returns an image times a weight as the first sums, in memory if that is large enough.
func Start(memory []float32, pix []byte, weight float32) []float32 {
	sums := slices.Grow(memory[:0], len(pix))[:len(pix)]
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

package pointwise

import "github.com/imgfeed/imgfeed/internal/libm"

// Adjustments of tensors: those whose bits in torchvision.transforms.v2 are others for uint8 tensors than for images of Pillow.
// They are torch's float32 arithmetic on a CPU with AVX2, where adding a multiple is fused: it rounds once. Invert, Posterize,
// Solarize, Brightness and Equalize are the same for both.

// The adjustments that have kernels of the same text, as types: the compiler treats a type's length as a constant.
type (
	toGray       = [0]struct{}
	toSaturation = [1]struct{}
	toHue        = [2]struct{}
)

// Of kernels for images of Pillow and for tensors.
type (
	ofPillow = [0]struct{}
	ofTensor = [1]struct{}
)

// grayWeights are torchvision's weights of red, green and blue.
var grayWeights = [3][16]float32{constant(0.2989), constant(0.587), constant(0.114)}

// grayOf is torchvision's rgb_to_grayscale, rounded down.
func grayOf(r, g, b byte) byte {
	red := float32(float32(r) * grayWeights[0][0])
	return byte(libm.FMA32(float32(b), grayWeights[2][0], libm.FMA32(float32(g), grayWeights[1][0], red)))
}

// TensorGray is rgb_to_grayscale with three channels.
func (a *Adjuster) TensorGray(dst, src []byte, _ float64) {
	if dst = dst[:len(src)]; a.fast != nil {
		dst, src = skip(dst, src, a.fast.tensorGray(dst, src, &a.factors))
	}
	for ; len(src) >= 3; dst, src = skip(dst, src, 3) {
		l := grayOf(src[0], src[1], src[2])
		dst[0], dst[1], dst[2] = l, l, l
	}
}

// keepParts stores a factor and what is left of 1, which torch computes before it rounds to float32.
func (a *Adjuster) keepParts(factor float64) {
	a.factors = [2]float32{float32(factor), float32(1 - factor)}
}

// blended is torchvision's _blend of a byte and another value: v·factor + other·(1 − factor).
func (a *Adjuster) blended(v byte, other float32) byte {
	return byte(min(max(libm.FMA32(other, a.factors[1], float32(float32(v)*a.factors[0])), 0), 255))
}

// TensorSaturation is adjust_saturation: a blend with the gray image.
func (a *Adjuster) TensorSaturation(dst, src []byte, factor float64) {
	a.keepParts(factor)
	if dst = dst[:len(src)]; a.fast != nil {
		dst, src = skip(dst, src, a.fast.tensorSaturation(dst, src, &a.factors))
	}
	for ; len(src) >= 3; dst, src = skip(dst, src, 3) {
		l := float32(grayOf(src[0], src[1], src[2]))
		dst[0], dst[1], dst[2] = a.blended(src[0], l), a.blended(src[1], l), a.blended(src[2], l)
	}
}

// TensorContrast is adjust_contrast: a blend with the mean of the gray image. torch sums in float32, which is exact up to 2²⁴ in
// any order. Of the last values of an image, those after a multiple of 16 in memory, it does not fuse all additions.
func (a *Adjuster) TensorContrast(dst, src []byte, factor float64) {
	if len(src) < 3 {
		return
	}
	a.keepParts(factor)
	sum, done := 0, 0
	if a.fast != nil {
		done = a.fast.sumTensorGray(src, &a.sums)
		for _, one := range a.sums {
			sum += int(one)
		}
	}
	for at := done; at+3 <= len(src); at += 3 {
		sum += int(grayOf(src[at], src[at+1], src[at+2]))
	}
	mean := float32(sum) / float32(len(src)/3)
	for v := range a.tables[0] {
		a.tables[0][v] = a.blended(byte(v), mean)
	}
	a.replaceAll(dst, src)
}

// TensorAutocontrast is autocontrast.
func (a *Adjuster) TensorAutocontrast(dst, src []byte, _ float64) { a.stretch(dst, src, spreadTensor) }

// spreadTensor makes the table that maps low to 0 and high to 255, and returns its slope.
func spreadTensor(table *[256]byte, low, high int) float64 {
	if high <= low {
		*table = allBytes
		return 1
	}
	step := float32(high-low) * float32(1./255)
	for v := range table {
		table[v] = byte(min(max(float32(v-low)/step, 0), 255))
	}
	return 1 / float64(step)
}

// TensorHue is adjust_hue, with float32 between 0 and 1.
func (a *Adjuster) TensorHue(dst, src []byte, shift float64) {
	a.factors[0] = float32(shift)
	if dst = dst[:len(src)]; a.fast != nil {
		dst, src = skip(dst, src, a.fast.tensorHue(dst, src, &a.factors))
	}
	for ; len(src) >= 3; dst, src = skip(dst, src, 3) {
		dst[0], dst[1], dst[2] = shiftHue(src[0], src[1], src[2], a.factors[0])
	}
}

// hueUnits are what a byte is multiplied by at first, and the result before it is rounded down.
var (
	hueUnits, hueBytes, sixths                   = constant(1. / 255), constant(255.999), constant(1. / 6)
	floatOnes, floatTwos, floatFours, floatSixes = constant(1), constant(2), constant(4), constant(6)
)

// shiftHue rounds every product by itself: without the conversions the compiler may fuse one with the sum after it.
func shiftHue(red, green, blue byte, shift float32) (_, _, _ byte) {
	r, g, b := float32(float32(red)*hueUnits[0]), float32(float32(green)*hueUnits[0]), float32(float32(blue)*hueUnits[0])
	high, low := max(r, g, b), min(r, g, b)
	if high == low {
		v := byte(high * hueBytes[0])
		return v, v, v
	}
	span := high - low
	saturation := span / high
	var hue float32
	switch high {
	case r:
		hue = (high-b)/span - (high-g)/span
	case g:
		hue = (high-r)/span + 2 - (high-b)/span
	default:
		hue = (high-g)/span + 4 - (high-r)/span
	}
	if hue = float32(hue*sixths[0]) + 1; hue >= 1 {
		hue--
	}
	if hue += shift; hue >= 1 {
		hue--
	} else if hue < 0 {
		hue++
	}
	hue = float32(hue * 6)
	sextant := int(hue)
	part := float32(saturation * (hue - float32(sextant)))
	rest := 1 - saturation
	v, p := byte(high*hueBytes[0]), byte(float32(rest*high)*hueBytes[0])
	q, t := byte(float32((1-part)*high)*hueBytes[0]), byte(float32((part+rest)*high)*hueBytes[0])
	return bySextant(sextant%6, v, p, q, t)
}

// bySextant orders the results of a sextant of hues: the highest channel, the lowest, and the middle one in odd and even sextants.
func bySextant(sextant int, v, p, q, t byte) (_, _, _ byte) {
	switch sextant {
	case 1:
		return q, v, p
	case 2:
		return p, v, t
	case 3:
		return p, q, v
	case 4:
		return t, p, v
	case 5:
		return v, p, q
	}
	return v, t, p
}

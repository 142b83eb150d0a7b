package pointwise

import (
	"math"

	"github.com/imgfeed/imgfeed/internal/libm"
)

// Adjustments of tensors: those whose bits in torchvision.transforms.v2 are others for uint8 tensors than for images of Pillow.
// They are torch's float32 arithmetic on a CPU with AVX2, where adding a multiple is fused: it rounds once. Invert, Posterize,
// Solarize, Brightness and Equalize are the same for both.

// The kinds of images as types, for kernels with the same text: the compiler treats a type's length as a constant.
type (
	ofPillow = [0]struct{}
	ofTensor = [1]struct{}
)

// grayWeights are torchvision's weights of red, green and blue.
var grayWeights = [3][16]float32{constant(0.2989), constant(0.587), constant(0.114)}

// tensorLuma is torchvision's rgb_to_grayscale, rounded down.
func tensorLuma(r, g, b byte) byte {
	red := float32(float32(r) * grayWeights[0][0])
	return byte(libm.FMA32(float32(b), grayWeights[2][0], libm.FMA32(float32(g), grayWeights[1][0], red)))
}

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

// tensorHue is adjust_hue, with float32 between 0 and 1.
func (a *Adjuster) tensorHue(dst, src []byte, shift float64) {
	by := float32(shift)
	a.turn.start(float64(by))
	dst = dst[:len(src)]
	for a.fast != nil {
		n := a.fast.tensorHue(dst, src, &a.turn)
		if n == 0 {
			break
		}
		last := dst[n-3*a.fast.vector:]
		for i, near := range a.turn.near[:a.fast.vector] {
			if pixel := a.turn.before[3*i:]; near != 0 {
				last[3*i], last[3*i+1], last[3*i+2] = shiftHue(pixel[0], pixel[1], pixel[2], by)
			}
		}
		dst, src = skip(dst, src, n)
	}
	for ; len(src) >= 3; dst, src = skip(dst, src, 3) {
		dst[0], dst[1], dst[2] = shiftHue(src[0], src[1], src[2], by)
	}
}

// A turn is the argument of tensorHue's kernels. The highest and the lowest channel of a pixel stay the same. The middle one is a
// share of the span between them: the part of a sextant that the hue has passed. Times the span, that part is a whole number before
// the shift, which adds its own part. So nothing is divided. Where the result is near to a whole number, torch's rounding of each
// step decides, and the kernels leave the pixel to shiftHue.
type turn struct {
	first, even byte        // whole sextants of the shift plus one; 255 if their number is even, else 0
	left        [16]float32 // the negative rest of the shift's last sextant, times turnUnits
	// Of the last vector: bytes other than 0 for the pixels that are near, and its bytes before.
	near   [64]byte
	before [192]byte
}

// nearest is the distance of near pixels, in parts of 65536. The errors of torch's steps add up to 33 of them, and the kernels' to 3.
const nearest = 40

// turnUnits is the factor from bytes to torch's results before they are rounded down.
var turnUnits = constant(255.999 / 255)

// start sets the shift, as a share of a whole turn.
func (t *turn) start(shift float64) {
	sextants := 6 * shift
	if shift < 0 {
		sextants = 6 * (1 + shift)
	}
	whole := math.Floor(sextants)
	t.first, t.even = byte(whole)+1, byte(whole)&1-1
	for i := range t.left {
		t.left[i] = float32((sextants - whole - 1) * (255.999 / 255))
	}
}

// What torch multiplies a byte by at first, and the result before it rounds that down.
const (
	hueUnit float32 = 1. / 255
	hueByte float32 = 255.999
	sixth   float32 = 1. / 6
)

// shiftHue rounds every product by itself: without the conversions the compiler may fuse one with the sum after it.
func shiftHue(red, green, blue byte, shift float32) (_, _, _ byte) {
	r, g, b := float32(float32(red)*hueUnit), float32(float32(green)*hueUnit), float32(float32(blue)*hueUnit)
	high, low := max(r, g, b), min(r, g, b)
	if high == low {
		v := byte(high * hueByte)
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
	if hue = float32(hue*sixth) + 1; hue >= 1 {
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
	v, p := byte(high*hueByte), byte(float32(rest*high)*hueByte)
	q, t := byte(float32((1-part)*high)*hueByte), byte(float32((part+rest)*high)*hueByte)
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

package pointwise

import "math"

// Hue adds a shift to every pixel's hue, mod 256, as torchvision's adjust_hue does to an image of Pillow: by Image.convert("HSV") and
// back, which changes pixels even where the shift is 0. Of tensors it adds a share of a whole turn.
func (a *Adjuster) Hue(dst, src []byte, amount float64) {
	if a.kind == tensor {
		a.tensorHue(dst, src, amount)
		return
	}
	shift := uint8(int(amount))
	if dst = dst[:len(src)]; a.fast != nil {
		dst, src = skip(dst, src, a.fast.hue(dst, src, shift))
	}
	for ; len(src) >= 3; dst, src = skip(dst, src, 3) {
		h, s, v := toHSV(src[0], src[1], src[2])
		dst[0], dst[1], dst[2] = fromHSV(h+shift, s, v)
	}
}

// toHSV is Pillow's rgb2hsv_row (libImaging/Convert.c): C's float variables are float32, its expressions with constants are float64.
func toHSV(r, g, b byte) (h, s, v byte) {
	value, low := max(r, g, b), min(r, g, b)
	if value == low {
		return 0, 0, value
	}
	span := float32(value - low)
	saturation := span / float32(value)
	rc, gc, bc := float32(value-r)/span, float32(value-g)/span, float32(value-b)/span
	var hue float32
	switch value {
	case r:
		hue = bc - gc
	case g:
		hue = float32(2 + float64(rc) - float64(bc))
	default:
		hue = float32(4 + float64(gc) - float64(rc))
	}
	turn := float64(hue)/6 + 1
	if turn >= 1 {
		turn--
	}
	return byte(float64(float64(float32(turn)) * 255)), byte(float64(float64(saturation) * 255)), value
}

// fromHSV is Pillow's hsv2rgb. The middle channel is q in sextants of odd number, otherwise t.
func fromHSV(h, s, v byte) (r, g, b byte) {
	turn := float64(h) * 6 / 255
	floor := math.Floor(turn)
	f, fs := float32(turn-floor), float32(float64(s)/255)
	p := rounded(float64(v) * (1 - float64(fs)))
	q := rounded(float64(v) * (1 - float64(float32(fs*f))))
	t := rounded(float64(v) * (1 - float64(float64(fs)*(1-float64(f)))))
	return bySextant(int(floor)%6, v, p, q, t) // the last hue is in the first sextant again
}

// rounded is C's round, half away from zero, of a number in a byte's range.
func rounded(x float64) byte { return byte(x + 0.5) }

// Tables of hueAVX2 and of its twins.
var (
	nearlyOne  = constant(1 - 1.0/1024) // turns rounding down into rounding up, for denominators up to 510
	halfFloats = constant(0.5)
	by65025    = constant(1.0 / 65025)
	// belowHue marks the hues that toHSV lowers by one, because rounding to float32 makes them slightly smaller than a whole
	// number. Its first 32 bytes have a bit for each upper half, indexed by the lower half: hues up to 127, then the others. The
	// last 32 bytes give the bit of each upper half, up to 7 and from 8 on.
	belowHue = func() (t [64]byte) {
		for part := range 43 { // 85/2 times 4·part/170
			x := byte(4 * part)
			for i, colour := range [6][3]byte{{170, x, 0}, {x, 170, 0}, {0, 170, x}, {0, x, 170}, {x, 0, 170}, {170, 0, x}} {
				hue := (i + 1) / 2 * 85
				if i%2 == 0 {
					hue += part
				} else {
					hue -= part
				}
				if h, _, _ := toHSV(colour[0], colour[1], colour[2]); int(h) == hue-1 {
					t[hue/128*16+hue%16] |= 1 << (hue / 16 % 8)
				}
			}
		}
		for i := range 8 {
			t[32+i], t[48+8+i] = 1<<i, 1<<i
		}
		return t
	}()
	// channelBySextant has masks for each channel: the sextants where it is the highest, the middle, and the lowest. Sextant 6
	// is the first again.
	channelBySextant = func() (t [3][48]byte) {
		for c, kinds := range [3]string{"012210", "100122", "221001"} {
			for sextant := range 16 {
				t[c][16*int(kinds[sextant%6]-'0')+sextant] = 255
			}
		}
		return t
	}()
)

func constant(x float32) (v [16]float32) {
	for i := range v {
		v[i] = x
	}
	return v
}

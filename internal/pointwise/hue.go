package pointwise

import "math"

// Hue adds shift to every pixel's hue, mod 256, as torchvision's adjust_hue does to an image of Pillow: by Image.convert("HSV") and
// back, which changes pixels even where the shift is 0.
func (a *Adjuster) Hue(pix []byte, shift uint8) {
	for ; len(pix) >= 3; pix = pix[3:] {
		h, s, v := toHSV(pix[0], pix[1], pix[2])
		pix[0], pix[1], pix[2] = fromHSV(h+shift, s, v)
	}
}

// toHSV is Pillow's rgb2hsv_row (libImaging/Convert.c): the variables of C's float are float32, its expressions with constants
// float64.
func toHSV(r, g, b byte) (h, s, v byte) {
	most, least := max(r, g, b), min(r, g, b)
	if most == least {
		return 0, 0, most
	}
	span := float32(most - least)
	saturation := span / float32(most)
	rc, gc, bc := float32(most-r)/span, float32(most-g)/span, float32(most-b)/span
	var hue float32
	switch most {
	case r:
		hue = bc - gc
	case g:
		hue = float32(2 + float64(rc) - float64(bc))
	default:
		hue = float32(4 + float64(gc) - float64(rc))
	}
	hue = float32(math.Mod(float64(hue)/6+1, 1))
	return byte(float64(hue) * 255), byte(float64(saturation) * 255), most
}

// fromHSV is Pillow's hsv2rgb.
func fromHSV(h, s, v byte) (r, g, b byte) {
	if s == 0 {
		return v, v, v
	}
	turn := float64(h) * 6 / 255
	sextant := math.Floor(turn)
	f := float32(turn - sextant)
	fs := float32(float64(s) / 255)
	p := rounded(float64(v) * (1 - float64(fs)))
	q := rounded(float64(v) * (1 - float64(float32(fs*f))))
	t := rounded(float64(v) * (1 - float64(float64(fs)*(1-float64(f)))))
	switch int(sextant) {
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
	return v, t, p // 0 and 6
}

// rounded is C's round, half away from zero, of a number that is a byte.
func rounded(x float64) byte { return byte(x + 0.5) }

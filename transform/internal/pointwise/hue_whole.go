package pointwise

// Tables of hueAVX2 and of its twins.
var (
	nearlyOne  = constant(1 - 1.0/1024) // added to a share of at most 510ths, and rounded down, gives it rounded up
	halfFloats = constant(0.5)
	by65025    = constant(1.0 / 65025)
	// belowHue says which hues toHSV makes one less of, of those that are whole numbers before they are rounded to float32: a bit for
	// each upper half by the lower one, up to 127 and from 128 on; then which bit an upper half has, up to 7 and from 8 on.
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
	// channelBySextant says of each channel in which sextants it is the greatest, in which the middle, and in which the least; hue 255 is
	// in sextant 6, which is the first again.
	channelBySextant = func() (t [3][48]byte) {
		for c, kinds := range [3]string{"0122100", "1001221", "2210012"} {
			for sextant, kind := range kinds {
				t[c][16*int(kind-'0')+sextant] = 255
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

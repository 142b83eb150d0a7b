package pointwise

import (
	"math"
	"sync"
)

// Hue adds shift to every pixel's hue, mod 256, as torchvision's adjust_hue does to an image of Pillow: by Image.convert("HSV") and
// back, which changes pixels even where the shift is 0.
//
// It has no branches, which would be mispredicted. Tables give everything that depends on the order of a pixel's channels, and on its hue.
func (a *Adjuster) Hue(dst, src []byte, shift uint8) {
	if dst = dst[:len(src)]; a.fast != nil {
		dst, src = skip(dst, src, a.fast.hue(dst, src, shift))
	}
	t := hueTables()
	for ; len(src) >= 3; dst, src = skip(dst, src, 3) {
		r, g, b := uint(src[0]), uint(src[1]), uint(src[2])
		overG, overB := atLeast(r, g), atLeast(r, b)
		value, low := g+(r-g)&-overG, r-(r-g)&-overG // the higher and the lower of r and g; then, below, also of b
		order := orders[overG<<2|atLeast(g, b)<<1|overB]
		value, low = b+(value-b)&-atLeast(value, b), b-(b-low)&-atLeast(b, low)
		span, below := value-low, 2*value+low-r-g-b // the highest channel minus the middle one
		h := t.hue[order&7][span<<8|below] + shift
		s := t.saturation[value<<8|span]
		turn := &t.turns[h]

		// p, and q or t, of Pillow's hsv2rgb.
		v := float64(value)
		p := uint32(t.floor[uint(s)<<8|value])
		u := float64(t.share[s] * turn.part)
		exact, short := math.Float64bits(u), math.Float64bits(float64(float32(u)))
		middle := uint32(int32(float64(v*(1-math.Float64frombits(exact^(exact^short)&turn.rounds))) + 0.5))
		channels := uint32(value) | middle<<8 | p<<16
		dst[0] = byte(channels >> (turn.places[0] & 31))
		dst[1] = byte(channels >> (turn.places[1] & 31))
		dst[2] = byte(channels >> (turn.places[2] & 31))
	}
}

// atLeast returns 1 if a ≥ b, else 0, of numbers below 2⁶³.
func atLeast(a, b uint) uint { return uint(^(uint64(a) - uint64(b)) >> 63) }

// orders gives, by the bits r ≥ g, g ≥ b and r ≥ b, the formula of toHSV for a pixel's hue. It is twice the index of
// the highest channel (the first of equals), plus 1 if the second of the other two in the order r g b r g is the
// lowest.
var orders = [8]uint8{
	0b000: 2*2 + 1, // r < g < b: blue, then r, g: the lowest is r
	0b001: 0,       // impossible
	0b010: 2*1 + 1, // r < b ≤ g: green, then b, r
	0b011: 2*1 + 0, // b ≤ r < g
	0b100: 2*2 + 0, // g ≤ r < b
	0b101: 2*0 + 0, // g < b ≤ r
	0b110: 0,       // impossible
	0b111: 2*0 + 1, // b ≤ g ≤ r
}

// tables of hues.
type tables struct {
	hue        [8][1 << 16]uint8 // indices: order; span, and the highest channel minus the middle one
	saturation [1 << 16]uint8    // index: value and span
	floor      [1 << 16]uint8    // p; index: saturation and value
	share      [256]float64      // fs; index: saturation
	turns      [256]turn         // index: hue
}

// A turn holds the values that Pillow's hsv2rgb computes from a hue.
type turn struct {
	part   float64  // f for q, 1 − f for t
	rounds uint64   // all ones for q: its product with fs is rounded to float32
	places [3]uint8 // bit shifts for R, G and B: 0 is the value, 8 the middle channel, 16 the lowest
}

var hueTables = sync.OnceValue(func() *tables {
	t := new(tables)
	for value := range 256 {
		for span := range value + 1 {
			_, t.saturation[value<<8|span], _ = toHSV(byte(value), byte(value-span), byte(value-span))
		}
	}
	for span := 1; span < 256; span++ {
		for below := range span + 1 {
			high, middle, low := byte(span), byte(span-below), byte(0)
			at := span<<8 | below
			t.hue[0][at], _, _ = toHSV(high, low, middle)
			t.hue[1][at], _, _ = toHSV(high, middle, low)
			t.hue[2][at], _, _ = toHSV(middle, high, low)
			t.hue[3][at], _, _ = toHSV(low, high, middle)
			t.hue[4][at], _, _ = toHSV(middle, low, high)
			t.hue[5][at], _, _ = toHSV(low, middle, high)
		}
	}
	for s := range 256 {
		t.share[s] = float64(float32(float64(s) / 255))
		for v := range 256 {
			t.floor[s<<8|v] = lowOf(byte(s), byte(v))
		}
	}
	for h := range 256 {
		sextant, f := sextantOf(byte(h))
		places := [6][3]uint8{{0, 8, 16}, {8, 0, 16}, {16, 0, 8}, {16, 8, 0}, {8, 16, 0}, {0, 16, 8}}
		t.turns[h] = turn{part: 1 - float64(f), places: places[sextant]}
		if sextant%2 == 1 {
			t.turns[h].part, t.turns[h].rounds = float64(f), math.MaxUint64
		}
	}
	return t
})

// toHSV is Pillow's rgb2hsv_row (libImaging/Convert.c): C's float variables are float32, its expressions with constants
// are float64.
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
	hue = float32(math.Mod(float64(hue)/6+1, 1))
	return byte(float64(float64(hue) * 255)), byte(float64(float64(saturation) * 255)), value
}

// sextantOf returns a hue's sextant and its position there, 0 to 1. The last hue is in the first sextant again.
func sextantOf(h byte) (sextant int, f float32) {
	turn := float64(h) * 6 / 255
	floor := math.Floor(turn)
	return int(floor) % 6, float32(turn - floor)
}

// lowOf returns the lowest channel of a pixel.
func lowOf(s, v byte) byte { return rounded(float64(v) * (1 - float64(float32(float64(s)/255)))) }

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
	// channelBySextant has masks for each channel: the sextants where it is the highest, the middle, and the lowest. Hue 255 is
	// in sextant 6, which equals the first.
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

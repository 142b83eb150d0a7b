package libm

import "math"

// SinCos and Tan are practically correctly rounded. Python calls the C library's: one in 500 of glibc's results differs
// from the nearest float64 by the last bit, and fewer of these. Errors would show at the middle pixel of a turned or
// sheared image: rounding errors move its position off the centre, and bilinear and bicubic truncate.

// DegreesMax bounds angles: up to there the error of subtracting multiples of π/2 is negligible.
const DegreesMax = 1e6

// Radians is Python's math.radians.
func Radians(degrees float64) float64 { return float64(degrees * (math.Pi / 180)) }

// A pair is a number in double-double precision: the sum of two, where the lower is at most the upper's rounding error.
type pair struct{ high, low float64 }

// pairOf returns a + b, |a| ≥ |b|.
func pairOf(a, b float64) pair {
	sum := a + b
	return pair{sum, b - (sum - a)}
}

func (p pair) negative() pair { return pair{-p.high, -p.low} }

func (p pair) times(q pair) pair {
	product := float64(p.high * q.high)
	return pairOf(product, math.FMA(p.high, q.high, -product)+(float64(p.high*q.low)+float64(p.low*q.high)))
}

// dividedBy returns p/d.
func (p pair) dividedBy(d float64) pair {
	quotient := p.high / d
	return pairOf(quotient, (math.FMA(-quotient, d, p.high)+p.low)/d)
}

// reduced returns n and x - n·π/2 in -π/4..π/4, for 0 ≤ x ≤ Radians(DegreesMax).
func reduced(x float64) (n int, y pair) {
	if x <= math.Pi/4 {
		return 0, pair{x, 0}
	}
	n, t, b := quarters(x)
	r := t - b
	c := float64(float64(n) * piOver2C)
	return n, pairOf(r, ((t-r)-b)-c)
}

// sinCosPairs returns the sine and the cosine of an angle in radians, by their Taylor series.
func sinCosPairs(x float64) (sin, cos pair) {
	n, y := reduced(math.Abs(x))
	square := y.times(y)
	sin, cos = pair{1, 0}, pair{1, 0}
	for k := 24.0; k > 0; k -= 2 { // 1 - y²/(k·(k+1))·(…), and 1 - y²/((k-1)·k)·(…)
		s, c := square.times(sin).dividedBy(k*(k+1)), square.times(cos).dividedBy((k-1)*k)
		sin, cos = pairOf(1, -s.high), pairOf(1, -c.high)
		sin.low -= s.low
		cos.low -= c.low
	}
	sin = sin.times(y)
	switch n & 3 {
	case 1:
		sin, cos = cos, sin.negative()
	case 2:
		sin, cos = sin.negative(), cos.negative()
	case 3:
		sin, cos = cos.negative(), sin
	}
	if math.Signbit(x) {
		sin = sin.negative()
	}
	return sin, cos
}

// SinCos returns the sine and the cosine of an angle in radians.
func SinCos(x float64) (sin, cos float64) {
	s, c := sinCosPairs(x)
	return s.high + s.low, c.high + c.low
}

// Tan returns the tangent of an angle in radians.
func Tan(x float64) float64 {
	sin, cos := sinCosPairs(x)
	quotient := sin.high / cos.high
	remainder := math.FMA(-quotient, cos.high, sin.high) + (sin.low - float64(quotient*cos.low))
	return quotient + remainder/cos.high
}

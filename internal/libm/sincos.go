package libm

import "math"

// SinCos and Tan are as good as correctly rounded. Python calls the C library's: glibc's differ from the nearest float64 in one of
// 500 by the last bit, these in fewer still. It shows where a turned or sheared image has a pixel in its middle: its place is there
// but for a rounding error, and bilinear and bicubic cut fractions off.

// DegreesMax bounds angles: up to there multiples of π/2 are taken off without an error that counts.
const DegreesMax = 1e6

// Radians is Python's math.radians.
func Radians(degrees float64) float64 { return float64(degrees * (math.Pi / 180)) }

// A pair is a number in twice the precision: the sum of two, of which the lower is no more than the upper's rounding error.
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

// over returns p/d.
func (p pair) over(d float64) pair {
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
		s, c := square.times(sin).over(k*(k+1)), square.times(cos).over((k-1)*k)
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
	rest := math.FMA(-quotient, cos.high, sin.high) + (sin.low - float64(quotient*cos.low))
	return quotient + rest/cos.high
}

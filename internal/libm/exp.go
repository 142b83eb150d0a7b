// Package libm has the functions of C's math library that pixels depend on, with the same bits on every platform.
// Package math's results differ between platforms in the last bit, because of assembly and fused multiply-adds.
//
// Everything consists of additions, products and quotients, each rounded once: float64() around a product prevents the
// compiler from fusing it. Sin and Cos are fast and precise enough for weights of a filter. SinCos and Tan are slower,
// and practically correctly rounded, for matrices of affine maps.
package libm

import "math"

const (
	ln2High = 6.93147180369123816490e-01 // the upper 32 bits of ln 2, so that small multiples are exact
	ln2Low  = 1.90821492927058770002e-10
)

// Exp returns e^x for |x| < 700: 2^k · e^r with |r| ≤ ln 2 / 2, e^r by its Taylor polynomial of degree 14. Its error is a few ulps.
func Exp(x float64) float64 {
	k := math.RoundToEven(x / math.Ln2)
	r := x - float64(k*ln2High) - float64(k*ln2Low)
	sum := 1.0
	for n := 14.0; n >= 1; n-- {
		sum = 1 + float64(sum*(r/n))
	}
	return math.Ldexp(sum, int(k))
}

// Log returns the natural logarithm of x > 0: x = 2^k · m with √½ ≤ m < √2, ln m = 2 artanh((m−1)/(m+1)) by its series.
// Its error is a few ulps.
func Log(x float64) float64 {
	m, k := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m, k = 2*m, k-1
	}
	z := (m - 1) / (m + 1)
	z2 := float64(z * z)
	sum := 0.0
	for n := 27.0; n >= 3; n -= 2 {
		sum = float64(z2 * (sum + 1/n))
	}
	series := float64(2 * float64(z*(1+sum)))
	return float64(float64(k)*ln2High) + (series + float64(float64(k)*ln2Low))
}

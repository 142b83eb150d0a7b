package libm

import "math"

// π/2 in three parts of up to 33 bits, and the remainder: multiples of the first two by less than 2²⁰ are exact.
const (
	piOver2A = 1.57079632673412561417e+00
	piOver2B = 6.07710050630396597660e-11
	piOver2C = 2.02226624879595063154e-21
)

// quarters returns the number n of quarter turns nearest to x ≥ 0, and two parts. Their difference minus n·piOver2C is x - n·π/2.
func quarters(x float64) (n int, upper, lower float64) {
	n = int(float64(x*(2/math.Pi)) + 0.5)
	f := float64(n)
	return n, x - float64(f*piOver2A), float64(f * piOver2B)
}

// Sin returns the sine of |x| < 100. Sin and Cos are FreeBSD's (msun s_sin.c, k_sin.c, k_cos.c), with errors of about
// 0.51 ulp. Pillow calls the C library's, with errors up to 0.55: that makes no difference to a
// table of 22-bit weights.
func Sin(x float64) float64 {
	if x < 0 {
		return -Sin(-x)
	}
	n, y, tail := reduce(x)
	switch n & 3 {
	case 0:
		return kernelSin(y, tail)
	case 1:
		return kernelCos(y, tail)
	case 2:
		return -kernelSin(y, tail)
	}
	return -kernelCos(y, tail)
}

// Cos returns the cosine of |x| < 100.
func Cos(x float64) float64 {
	n, y, tail := reduce(math.Abs(x))
	switch n & 3 {
	case 0:
		return kernelCos(y, tail)
	case 1:
		return -kernelSin(y, tail)
	case 2:
		return -kernelCos(y, tail)
	}
	return kernelSin(y, tail)
}

// reduce returns n and y + tail = x - n·π/2 in -π/4..π/4, for 0 ≤ x < 100.
func reduce(x float64) (n int, y, tail float64) {
	n, t, w := quarters(x)
	r := t - w
	w = float64(float64(n)*piOver2C) - ((t - r) - w)
	y = r - w
	return n, y, (r - y) - w
}

func kernelSin(x, tail float64) float64 {
	const (
		s1 = -1.66666666666666324348e-01
		s2 = 8.33333333332248946124e-03
		s3 = -1.98412698298579493134e-04
		s4 = 2.75573137070700676789e-06
		s5 = -2.50507602534068634195e-08
		s6 = 1.58969099521155010221e-10
	)
	z := float64(x * x)
	v := float64(z * x)
	r := s2 + float64(z*(s3+float64(z*(s4+float64(z*(s5+float64(z*s6)))))))
	return x - ((float64(z*(float64(0.5*tail)-float64(v*r))) - tail) - float64(v*s1))
}

func kernelCos(x, tail float64) float64 {
	const (
		c1 = 4.16666666666666019037e-02
		c2 = -1.38888888888741095749e-03
		c3 = 2.48015872894767294178e-05
		c4 = -2.75573143513906633035e-07
		c5 = 2.08757232129817482790e-09
		c6 = -1.13596475577881948265e-11
	)
	z := float64(x * x)
	r := float64(z * (c1 + float64(z*(c2+float64(z*(c3+float64(z*(c4+float64(z*(c5+float64(z*c6)))))))))))
	half := float64(0.5 * z)
	w := 1 - half
	return w + (((1 - w) - half) + (float64(z*r) - float64(x*tail)))
}

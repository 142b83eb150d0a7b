package libm

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

// TestTrigonometry compares with package math, which may differ in the last bit or two.
func TestTrigonometry(t *testing.T) {
	for i := range 20000 {
		x := (float64(i) - 10000) * 0.03655
		if i%50 == 0 {
			x *= 40
		}
		sin, cos := SinCos(x)
		wantSin, wantCos := math.Sincos(x)
		testenv.Require(t, math.Abs(sin-wantSin) <= 3e-16 && math.Abs(cos-wantCos) <= 3e-16,
			"sine and cosine of %v: %v, %v, want %v, %v", x, sin, cos, wantSin, wantCos)
		got, want := Tan(x), math.Tan(x)
		testenv.Require(t, math.Abs(got-want) <= 1e-15*(1+want*want), "tangent of %v: %v, want %v", x, got, want)
	}
}

// TestTrigonometryIsC has values of glibc 2.36 where reduction, series or signs could go wrong.
func TestTrigonometryIsC(t *testing.T) {
	for _, c := range []struct{ degrees, sin, cos, tan float64 }{
		{0, 0.0, 1.0, 0.0},
		{30, 0.49999999999999994, 0.8660254037844387, 0.5773502691896257},
		{45, 0.7071067811865475, 0.7071067811865476, 0.9999999999999999},
		{60, 0.8660254037844386, 0.5000000000000001, 1.7320508075688767},
		{90, 1.0, 6.123233995736766e-17, 1.633123935319537e+16},
		{135, 0.7071067811865476, -0.7071067811865475, -1.0000000000000002},
		{180, 1.2246467991473532e-16, -1.0, -1.2246467991473532e-16},
		{270, -1.0, -1.8369701987210297e-16, 5443746451065123.0},
		{-13.7, -0.23683814606561868, 0.9715491199976461, -0.24377372300660669},
		{-359.5, 0.008726535498373636, 0.9999619230641713, 0.008726867790758491},
		{-116.64486694335938, -0.8938033333791817, -0.4484591411045863, 1.9930541078451014},
		{1000000.0, -0.9848077530125356, 0.17364817766507232, -5.671281819680279},
	} {
		sin, cos := SinCos(Radians(c.degrees))
		tan := Tan(Radians(c.degrees))
		testenv.Check(t, sin == c.sin && cos == c.cos && tan == c.tan,
			"%v°: sine %v, cosine %v, tangent %v, want %v, %v, %v", c.degrees, sin, cos, tan, c.sin, c.cos, c.tan)
	}
}

func TestExpLog(t *testing.T) {
	for x := -20.0; x < 20; x += 0.0137 {
		got, want := Exp(x), math.Exp(x)
		testenv.Check(t, math.Abs(got-want) <= 4e-16*want, "exp(%v) = %v, want %v", x, got, want)
	}
	for x := 1e-6; x < 1e6; x *= 1.0137 {
		got, want := Log(x), math.Log(x)
		testenv.Check(t, math.Abs(got-want) <= 4e-16*max(1, math.Abs(want)), "log(%v) = %v, want %v", x, got, want)
	}
	testenv.Check(t, Log(1) == 0 && Exp(0) == 1, "log(1) = %v, Exp(0) = %v", Log(1), Exp(0))
}

// TestFMA32 compares with whole numbers of any size.
func TestFMA32(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	number := func() float32 {
		return float32(math.Ldexp(float64(1+rng.IntN(1<<24)), rng.IntN(60)-50)) * float32(1-2*rng.IntN(2))
	}
	exact := func(x float32) *big.Float { return new(big.Float).SetPrec(400).SetFloat64(float64(x)) }
	for range 200_000 {
		a, b, c := number(), number(), number()
		if rng.IntN(2) == 0 { // a product that lies half way between two float32, or almost
			a, b = float32(1+2*rng.IntN(1<<5)), float32(1<<23+rng.IntN(1<<23))
		}
		product := exact(a).Mul(exact(a), exact(b))
		want, _ := product.Add(product, exact(c)).Float32()
		testenv.Equal(t, FMA32(a, b, c), want, "%g·%g + %g", a, b, c)
	}
}

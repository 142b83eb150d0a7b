package libm

import "math"

// FMA32 returns a·b + c, rounded once to float32, as processors do it. The product is exact in float64.
func FMA32(a, b, c float32) float32 {
	product := float64(a) * float64(b)
	sum := product + float64(c)
	part := sum - product
	lost := (product - (sum - part)) + (float64(c) - part)
	// What the sum lost decides in float32 where the sum lies half way between two numbers: an odd last bit keeps it from there.
	if bits := math.Float64bits(sum); lost != 0 && bits&1 == 0 {
		if (lost > 0) == (sum > 0) {
			bits++
		} else {
			bits--
		}
		sum = math.Float64frombits(bits)
	}
	return float32(sum)
}

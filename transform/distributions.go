package transform

import (
	"math"

	"github.com/imgfeed/imgfeed/internal/libm"
)

// Draws of other distributions than even ones, made of even ones by additions, products and roots, which every platform rounds alike.

// normal returns a number of the normal distribution with mean 0 and deviation 1: Marsaglia's polar method, whose second number is
// left.
func (d *RNG) normal() float64 {
	for {
		x, y := d.uniform(-1, 1), d.uniform(-1, 1)
		if s := float64(x*x) + float64(y*y); 0 < s && s < 1 {
			return float64(x * math.Sqrt(float64(-2*libm.Log(s))/s))
		}
	}
}

// gamma returns a number of the gamma distribution of shape alpha > 0 and scale 1: Marsaglia and Tsang, "A simple method for generating
// gamma variables" (2000). A shape below 1 is one above it times a power of an even number.
func (d *RNG) gamma(alpha float64) float64 {
	boost := 1.0
	if alpha < 1 {
		boost = libm.Exp(max(libm.Log(1-d.unit())/alpha, -690))
		alpha++
	}
	a := alpha - 1./3
	b := 1 / math.Sqrt(9*a)
	for {
		x := d.normal()
		v := 1 + float64(b*x)
		if v <= 0 {
			continue
		}
		v = float64(float64(v*v) * v)
		if libm.Log(1-d.unit()) < float64(float64(x*x)/2)+float64(a*(1-v+libm.Log(v))) {
			return float64(float64(a*v) * boost)
		}
	}
}

// dirichlet fills weights, whose sum is 1, from the Dirichlet distribution that has alpha for all.
func (d *RNG) dirichlet(alpha float64, weights []float32) {
	var drawn [mixWidthMax]float64
	sum := 0.0
	for i := range weights {
		drawn[i] = d.gamma(alpha)
		sum += drawn[i]
	}
	for i := range weights {
		weights[i] = float32(drawn[i] / sum)
	}
}

// distinct fills places with indices of weights, none of them twice, each drawn by the weights of those that are left.
func (d *RNG) distinct(weights []float64, places []int) {
	var left [opsMax]float64
	copy(left[:], weights)
	for i := range places {
		places[i] = d.weighted(left[:len(weights)])
		left[places[i]] = 0
	}
}

package plan

import (
	"math"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

func TestPermutationIsBijective(t *testing.T) {
	for _, size := range []int{1, 2, 3, 7, 1023, 1024, 1025, 2047, 2048, 2049, 4096, 5000, 65537, 100003} {
		p := newPermutation("x", 1, 2, 3, size)
		seen := make([]bool, size)
		for j := range size {
			v := p.at(j)
			testenv.Require(t, v >= 0 && v < size && !seen[v], "size %d: at(%d) = %d: out of range or met before", size, j, v)
			seen[v] = true
		}
	}
}

// TestPermutationIsUniform counts, over many epochs, where small and large sizes put their elements, and how often
// neighbours stay neighbours: χ² within six standard deviations of its mean.
func TestPermutationIsUniform(t *testing.T) {
	const epochs, cells = 4000, 8
	for _, size := range []int{8, 1000, 1500, 4097} {
		for _, j := range []int{0, 1, size / 2, size - 1} {
			var value, step [cells]float64
			for epoch := range epochs {
				p := newPermutation("u", 5, epoch, 0, size)
				v := p.at(j)
				value[v*cells/size]++
				next := p.at((j + 1) % size)
				step[(next-v+size)%size*cells/size]++
			}
			checkUniform(t, size, j, "value", value[:])
			if size > 100 { // for 8 elements a step of 0 cannot be
				checkUniform(t, size, j, "step", step[:])
			}
		}
	}
}

func checkUniform(t *testing.T, size, j int, what string, got []float64) {
	t.Helper()
	total := 0.0
	for _, n := range got {
		total += n
	}
	want, chi2 := total/float64(len(got)), 0.0
	for _, n := range got {
		chi2 += (n - want) * (n - want) / want
	}
	df := float64(len(got) - 1)
	testenv.Check(t, chi2 <= df+6*math.Sqrt(2*df), "size %d, element %d: %s is not uniform: χ² = %.1f, %v", size, j, what, chi2, got)
}

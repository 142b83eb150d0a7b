package server

import (
	"math"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

// TestBucketOf compares with logarithms, and at the boundary.
func TestBucketOf(t *testing.T) {
	sorted, err := sortBuckets([][2]int{{20, 40}, {10, 10}, {40, 20}, {30, 25}})
	testenv.Require(t, err == nil && sorted[0] == [2]int{40, 20} && sorted[3] == [2]int{20, 40}, "%v, %v", sorted, err)
	for w := int32(1); w < 90; w += 4 {
		for h := int32(1); h < 90; h += 3 {
			best, nearest := 0, math.Inf(1)
			for k, b := range sorted {
				if d := math.Abs(math.Log(float64(w)/float64(h)) - math.Log(float64(b[1])/float64(b[0]))); d < nearest-1e-12 {
					best, nearest = k, d
				}
			}
			got := bucketOf(sorted, w, h)
			testenv.Check(t, got == best, "%d×%d is in bucket %v, want %v", w, h, sorted[got], sorted[best])
		}
	}
	testenv.Equal(t, bucketOf(sorted, math.MaxInt32, 1), 3, "the bucket of the widest image")
	for _, bad := range [][][2]int{{{0, 1}}, {{1, 1 << 20}}, {{2, 2}, {1, 1}}, make([][2]int, bucketsMax+1)} {
		_, err := sortBuckets(bad)
		testenv.Check(t, err != nil, "%.3v is taken", bad)
	}
}

package pixelcodec

import (
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

// TestPrefetcher checks that the steps cover the memory, in whole lines but for the last.
func TestPrefetcher(t *testing.T) {
	for _, n := range []int{0, 1, 64, 100, 139_000} {
		for _, steps := range []int{0, 1, 3, 112} {
			var p prefetcher
			p.Prefetch(make([]byte, n))
			p.begin(steps)
			testenv.Check(t, p.step%64 == 0, "%d bytes in %d steps: %d bytes a step", n, steps, p.step)
			for range max(steps, 1) {
				p.fetch()
			}
			testenv.Check(t, len(p.memory) == 0, "%d bytes in %d steps: %d are left", n, steps, len(p.memory))
		}
	}
}

package server

import (
	"encoding/json"
	"runtime"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

// drain runs an epoch and gives every slot back at once.
func (c *client) drain(epoch int64) (images int) {
	c.t.Helper()
	for b := range c.batches(epoch, 0) {
		images += b.Count
	}
	return images
}

// mallocs returns how often two epochs of so many samples allocate, and closes the client.
func (c *client) mallocs(samples int) float64 {
	c.t.Helper()
	defer c.close()
	c.drain(0)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	n := c.drain(1) + c.drain(2)
	runtime.ReadMemStats(&after)
	testenv.Require(c.t, n == 2*samples, "%d images, want %d", n, 2*samples)
	return float64(after.Mallocs - before.Mallocs)
}

// TestNothingIsAllocatedForASample compares epochs with few and with many samples in a batch: what a batch costs is
// allowed, what a sample costs is not. Client and server share the process, so a batch's messages count twice.
func TestNothingIsAllocatedForASample(t *testing.T) {
	const samples = 2000
	ts := startServer(t, pixelsSet(t, samples), nil)
	mallocs := func(batch int) float64 {
		c := ts.dial().hello().open(openRequest{Transform: json.RawMessage(`[{"op":"RandomCrop","size":4},{"op":"RandomHorizontalFlip"}]`), BatchSize: batch, Shuffle: true, Seed: of[int64](1)})
		return c.mallocs(samples)
	}
	small, large := mallocs(50), mallocs(500)
	perBatch := (small - large) / (2*samples/50 - 2*samples/500)
	perSample := (large - perBatch*2*samples/500) / (2 * samples)
	testenv.Check(t, perSample <= 0.5, // the race detector has pools drop what they hold
		"%.2f allocations a sample in batches of 500 (%.0f in all, %.0f in batches of 50)", perSample, large, small)
	t.Logf("allocations for %d samples: %.0f in 80 batches, %.0f in 8", 2*samples, small, large)
}

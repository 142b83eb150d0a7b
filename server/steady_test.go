package server

import (
	"encoding/json"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/internal/image/pixelcodec"
	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/shard"
)

// pixelSet writes a set of samples images of size×size noise in the pixels encoding and returns the folder above it.
func pixelSet(t testing.TB, samples, size int) string {
	t.Helper()
	codec, err := pixelcodec.New(pixelcodec.Params{}, kernel.Active())
	if err != nil {
		t.Fatal(err)
	}
	params, err := json.Marshal(codec.Params())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	w, err := shard.NewSetWriter(filepath.Join(dir, "train-shards"), shard.SetOptions{
		Split: "train", Encoding: shard.Encoding{Name: "pixels", Params: params}, Classes: []string{"noise"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	rng := rand.New(rand.NewPCG(1, 1))
	rgb := make([]byte, size*size*3)
	for i := range rgb {
		rgb[i] = byte(120 + rng.IntN(16))
	}
	for _, key := range keysInOrder(samples) {
		blob, err := codec.Encode(nil, rgb, 3*size, size, size)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Append(shard.Sample{Key: key, Width: size, Height: size, Format: imagefile.Encoded, Image: blob}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// drain runs an epoch and gives every slot back at once.
func (c *client) drain(epoch int64) (images int) {
	c.t.Helper()
	c.start(startRequest{Epoch: epoch})
	for {
		switch m := c.receive().(type) {
		case batchMessage:
			images += m.Count
			c.send(releaseRequest{Slot: *m.Slot})
		case endMessage:
			return images
		default:
			c.t.Fatalf("got %#v", m)
		}
	}
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
	if n != 2*samples {
		c.t.Fatalf("%d images, want %d", n, 2*samples)
	}
	return float64(after.Mallocs - before.Mallocs)
}

// TestNothingIsAllocatedForASample compares epochs with few and with many samples in a batch: what a batch costs is
// allowed, what a sample costs is not. Client and server share the process, so a batch's messages count twice.
func TestNothingIsAllocatedForASample(t *testing.T) {
	const samples = 2000
	ts := startServer(t, pixelSet(t, samples, 32), nil)
	mallocs := func(batch int) float64 {
		c := ts.dial().hello().open(openRequest{Transform: json.RawMessage(`"cifar"`), BatchSize: batch, Shuffle: true, Seed: of[int64](1)})
		return c.mallocs(samples)
	}
	small, large := mallocs(50), mallocs(500)
	perBatch := (small - large) / (2*samples/50 - 2*samples/500)
	if perSample := (large - perBatch*2*samples/500) / (2 * samples); perSample > 0.5 { // the race detector has pools drop what they hold
		t.Errorf("%.2f allocations a sample in batches of 500 (%.0f in all, %.0f in batches of 50)", perSample, large, small)
	}
	t.Logf("allocations for %d samples: %.0f in 80 batches, %.0f in 8", 2*samples, small, large)
}

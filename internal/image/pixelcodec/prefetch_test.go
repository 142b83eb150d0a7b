package pixelcodec

import (
	"bytes"
	"image"
	"math/rand/v2"
	"testing"

	"github.com/imgfeed/imgfeed/internal/kernel"
)

// TestPrefetch checks that what is fetched early, of any size and whatever lies there, changes no pixel, and that it is
// fetched once.
func TestPrefetch(t *testing.T) {
	const w, h = 70, 45
	rgb := make([]byte, 3*w*h)
	rng := rand.NewChaCha8([32]byte{7})
	rng.Read(rgb)
	r := image.Rect(5, 3, 66, 44)
	for _, name := range Names() {
		codec, err := New(Params{Codec: name}, kernel.Active())
		if err != nil {
			t.Fatal(err)
		}
		blob, err := codec.Encode(nil, rgb, 3*w, w, h)
		if err != nil {
			t.Fatal(err)
		}
		want := make([]byte, 3*r.Dx()*r.Dy())
		if err := codec.Decode(want, 3*r.Dx(), blob, r); err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{0, 1, 63, 64, 4096, 1 << 20} {
			next := make([]byte, n)
			codec.Prefetch(next)
			got := make([]byte, len(want))
			if err := codec.Decode(got, 3*r.Dx(), blob, r); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s, %d bytes fetched: %v, or other pixels", name, n, err)
			}
		}
	}
}

// TestPrefetcher checks that the steps cover the memory, in whole lines but for the last.
func TestPrefetcher(t *testing.T) {
	for _, n := range []int{0, 1, 64, 100, 139_000} {
		for _, steps := range []int{0, 1, 3, 112} {
			var p prefetcher
			p.Prefetch(make([]byte, n))
			p.begin(steps)
			if p.step%64 != 0 {
				t.Errorf("%d bytes in %d steps: %d bytes a step", n, steps, p.step)
			}
			for range max(steps, 1) {
				p.fetch()
			}
			if len(p.memory) != 0 {
				t.Errorf("%d bytes in %d steps: %d are left", n, steps, len(p.memory))
			}
		}
	}
}

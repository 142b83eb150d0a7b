package pointwise

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/testenv"
)

// TestLevels compares the kernels with the generic code for images of every width, and looks for bytes that were changed around them.
func TestLevels(t *testing.T) {
	levels := kernel.Available()[1:]
	if len(levels) == 0 {
		t.Skip("no accelerated kernels in this build (GOEXPERIMENT=simd on amd64 or arm64) or for this processor")
	}
	rng := rand.New(rand.NewPCG(3, 4))
	const room = 256
	for w := 1; w <= 140; w++ {
		h := 1 + rng.IntN(5)
		src := testImage(rng, w, h)
		for _, a := range slices.Concat(adjustments(rng), tensorAdjustments(rng), []adjustment{{"permute", 120}, {"permute", 210}}) {
			want := a.run(New(kernel.Generic), src, w, h)
			for _, level := range levels {
				memory := bytes.Repeat([]byte{0xA5}, len(src)+2*room)
				copy(memory[room:], src)
				inside := memory[room : room+len(src) : room+len(src)]
				a.inPlace(New(level), inside, src, w, h)
				testenv.Same(t, inside, want, "%v: %s(%v) of %d×%d", level, a.op, a.value, w, h)
				edge := bytes.Repeat([]byte{0xA5}, room)
				testenv.Same(t, memory[:room], edge, "%v: %s(%v) of %d×%d: before the image", level, a.op, a.value, w, h)
				testenv.Same(t, memory[room+len(src):], edge, "%v: %s(%v) of %d×%d: behind the image", level, a.op, a.value, w, h)
			}
		}
	}
}

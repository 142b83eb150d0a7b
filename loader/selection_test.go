package loader

import (
	"fmt"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/loader/plan"
	"github.com/imgfeed/imgfeed/transform"
)

// TestSelectionsServeTheSameBytes serves selections with one and with several threads: the pixels, too, are those that the plan
// says, with draws of its own for every repetition.
func TestSelectionsServeTheSameBytes(t *testing.T) {
	const n = 60
	set := newMemorySet(t, n)
	weights := make([]float64, n)
	for i := range weights {
		weights[i] = float64(1 + i%5)
	}
	for name, cfg := range map[string]plan.SelectionConfig{
		"repeats": {Repeats: 3, Positions: 2 * n}, "weights": {Weights: weights, Positions: 100}, "order": {List: []uint32{5, 4, 5, 3, 5, 2, 1}},
	} {
		cfg.Samples = n
		selection := testenv.Must(plan.NewSelection(cfg))(t)
		for _, threads := range []int{1, 4} {
			stream := testStream(t, set, plan.Config{Samples: n, BatchSize: 7, Seed: 2, Epoch: 1, Shuffle: name != "order", Selection: selection}, 3)
			got := testenv.Must(serve(t, newTestPool(t, threads), stream))(t)
			compareEpochs(t, fmt.Sprintf("%s with %d threads", name, threads), got, expect(t, set, stream))
		}
	}
}

// TestRepetitionsHaveDrawsOfTheirOwn serves one sample a hundred times.
func TestRepetitionsHaveDrawsOfTheirOwn(t *testing.T) {
	set := newMemorySet(t, 1)
	selection := testenv.Must(plan.NewSelection(plan.SelectionConfig{Samples: 1, Repeats: 100, Positions: 100}))(t)
	got := testenv.Must(serve(t, newTestPool(t, 2), testStream(t, set, plan.Config{Samples: 1, BatchSize: 10, Selection: selection}, 2)))(t)
	boxes := map[[transform.ParamsLen]int32]int{}
	for i := range 100 {
		boxes[[transform.ParamsLen]int32(got.params[i*transform.ParamsLen:])]++
	}
	if len(boxes) < 8 {
		t.Errorf("100 repetitions have %d different draws: %v", len(boxes), boxes)
	}
}

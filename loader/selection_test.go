package loader

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"testing"

	"github.com/imgfeed/imgfeed/internal/kernel"
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
	testenv.Check(t, len(boxes) >= 8, "100 repetitions have %d different draws: %v", len(boxes), boxes)
}

// substituteConfig is of an epoch in which each of a few samples cannot be read, one panics and one cannot be decoded.
func substituteConfig(t *testing.T) (*memorySet, plan.Config) {
	set := newMemorySet(t, 200)
	for _, index := range []int{3, 13, 23, 70, 71, 199} {
		set.bad[index] = io.ErrUnexpectedEOF
	}
	set.panics = 44
	set.blobs[150] = set.blobs[150][:9]
	return set, plan.Config{Fingerprint: "f", Samples: 200, Partitions: 4, Seed: 3, Epoch: 2, BatchSize: 10, Shuffle: true, World: 1}
}

// TestSubstitutesAreTheSameEverywhere: on any number of threads and ranks, and after a resume. What stands there is what the sample is
// at its own position of this epoch.
func TestSubstitutesAreTheSameEverywhere(t *testing.T) {
	set, cfg := substituteConfig(t)
	var want map[int]int
	for _, threads := range []int{1, 3, 7} {
		for _, world := range []int{1, 3} {
			got := map[int]int{}
			for rank := range world {
				cfg.World, cfg.Rank = world, rank
				maps.Copy(got, servedBy(t, set, cfg, threads))
			}
			if want == nil {
				want = got
			}
			testenv.Check(t, maps.Equal(got, want), "%d threads, world of %d: %v, and %v before", threads, world, got, want)
		}
	}
	testenv.Check(t, len(want) == 8, "substitutes %v, want 8", want)
	for index, by := range want {
		testenv.Check(t, by != index && by%10 == index%10 && by%4 == index%4 && set.bad[by] == nil, "sample %d stands for %d", by, index)
	}
	cfg.World, cfg.Rank, cfg.Consumed = 1, 0, 100
	for index, by := range servedBy(t, set, cfg, 2) {
		testenv.Check(t, want[index] == by, "resumed, sample %d stands for %d; %d did", by, index, want[index])
	}
}

// servedBy serves an epoch, compares it sample by sample, and returns what stood for what.
func servedBy(t *testing.T, set *memorySet, cfg plan.Config, threads int) map[int]int {
	t.Helper()
	sc := testStream(t, set, cfg, 3)
	sc.OnError = Substitute
	got := testenv.Must(serve(t, newTestPool(t, threads), sc))(t)
	by, planned, at := map[int]int{}, []int{}, 0
	for n, b := range got.batches {
		planned = sc.Plan.Batch(n, planned)
		for _, bad := range b.Bad {
			testenv.Check(t, planned[bad.Position] == bad.Index && got.indices[at+bad.Position] == int64(bad.By) && bad.Err != nil,
				"batch %d: %+v, and the slot says %d", n, bad, got.indices[at+bad.Position])
			by[bad.Index] = bad.By
		}
		at += b.Count
	}
	engine, size := transform.NewEngine(kernel.Generic), sc.Views.OutputBytes()
	for i, index := range got.indices {
		record, _, err := set.Record(int(index), nil, false)
		testenv.OK(t, err)
		pix := make([]byte, size)
		rng := transform.NewRNG(cfg.Seed, cfg.Epoch, int(index))
		testenv.Must(engine.Apply(sc.Views[0], transform.Output{Pix: pix}, sourceOf(set, &record), rng))(t)
		testenv.Require(t, string(pix) == string(got.images[i*size:(i+1)*size]) && got.labels[i] == int64(record.Label),
			"position %d holds something else than sample %d", i, index)
	}
	return by
}

// TestAClassWithoutAWholeSample ends the epoch, after so many tries and no more.
func TestAClassWithoutAWholeSample(t *testing.T) {
	set := newMemorySet(t, 400)
	for index := 3; index < 400; index += 10 {
		set.bad[index] = io.ErrUnexpectedEOF
	}
	cfg := testStream(t, set, plan.Config{Samples: 400, BatchSize: 400}, 1)
	cfg.Plan = mustPlan(t, plan.Config{Samples: 400, BatchSize: 4})
	cfg.OnError = Substitute
	before := set.reads.Load()
	got, err := serve(t, newTestPool(t, 1), cfg)
	bad, ok := errors.AsType[*SampleError](err)
	testenv.Check(t, ok && bad.Index == 3 && errors.Is(err, io.ErrUnexpectedEOF) && len(got.batches) == 0,
		"%v, after %d batches", err, len(got.batches))
	testenv.Equal(t, set.reads.Load()-before, 4+substitutesMax, "reads of a batch whose substitutes are bad too")
}

package loader

import (
	"bytes"
	"testing"

	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/loader/plan"
	"github.com/imgfeed/imgfeed/transform"
)

const twoViews = `{"views": [[{"op":"RandomResizedCrop","size":8},{"op":"RandomHorizontalFlip"}], {"repeat": 2, "ops": [{"op":"RandomResizedCrop","size":[3,5]}]}]}`

// viewStream is a testStream of several views, and its slots.
func viewStream(t *testing.T, set sampleSet, cfg plan.Config, slots int) (StreamConfig, transform.Views) {
	t.Helper()
	views := testenv.Must(transform.ParseViews(twoViews, transform.Pillow13))(t)
	stream := testStream(t, set, cfg, 1)
	stream.Views = views
	made := make([]*Slot, slots)
	for i := range made {
		made[i] = NewSlot(i, cfg.BatchSize, views)
	}
	stream.Slots = NewSlotPool(made...)
	return stream, views
}

// TestViewsOfABatch serves several views of repeated samples: each is what its transform gives alone, with its own draws, on any
// number of threads.
func TestViewsOfABatch(t *testing.T) {
	const n, batch = 30, 7
	set := newMemorySet(t, n)
	selection := testenv.Must(plan.NewSelection(plan.SelectionConfig{Samples: n, Repeats: 2, Positions: 2 * n}))(t)
	engine := transform.NewEngine(kernel.Generic)
	for _, threads := range []int{1, 4} {
		cfg, views := viewStream(t, set, plan.Config{Samples: n, BatchSize: batch, Seed: 5, Epoch: 2, Shuffle: true, Selection: selection}, 3)
		stream := testenv.Must(newTestPool(t, threads).NewStream(cfg))(t)
		for b := range cfg.Plan.Batches() {
			got := testenv.Must(stream.Next(t.Context()))(t)
			again := cfg.Plan.Repetitions(b, nil)
			for i, index := range cfg.Plan.Batch(b, nil) {
				record, _, _ := set.Record(index, nil, false)
				for v, spec := range views {
					want := make([]byte, spec.OutputBytes())
					rng := transform.NewViewRNG(5, 2, index, again[i], v)
					params := testenv.Must(engine.Apply(spec, transform.Output{Pix: want}, sourceOf(set, &record), rng))(t)
					if !bytes.Equal(got.Slot.Images[v][i*len(want):][:len(want)], want) {
						t.Fatalf("%d threads, batch %d, position %d: view %d has other pixels", threads, b, i, v)
					}
					if drawn := params.Int32s(); [transform.ParamsLen]int32(got.Slot.Params[v][i*transform.ParamsLen:]) != drawn {
						t.Fatalf("%d threads, batch %d, position %d: view %d has other params", threads, b, i, v)
					}
				}
			}
			cfg.Slots.Put(got.Slot)
		}
		stream.Close()
	}
}

// TestBlankViews makes every view of a bad sample black.
func TestBlankViews(t *testing.T) {
	set := newMemorySet(t, 3)
	set.bad[1] = bytes.ErrTooLarge
	cfg, views := viewStream(t, set, plan.Config{Samples: 3, BatchSize: 3}, 1)
	cfg.OnError = Blank
	stream := openStream(t, newTestPool(t, 1), cfg)
	b, err := stream.Next(t.Context())
	testenv.Require(t, err == nil && len(b.Bad) == 1 && b.Slot.Labels[1] == BlankLabel, "%+v, %v", b, err)
	for v, spec := range views {
		size := spec.OutputBytes()
		others, bad := b.Slot.Images[v][:size], b.Slot.Images[v][size:2*size]
		testenv.Check(t, len(bytes.Trim(bad, "\x00")) == 0 && len(bytes.Trim(others, "\x00")) > 0, "view %d: the bad sample is not black, or the others are", v)
	}
}

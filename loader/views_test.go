package loader

import (
	"bytes"
	"errors"
	"image"
	"sync"
	"testing"

	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/loader/plan"
	"github.com/imgfeed/imgfeed/shard"
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
					testenv.Require(t, bytes.Equal(got.Slot.Images[v][i*len(want):][:len(want)], want),
						"%d threads, batch %d, position %d: view %d has other pixels", threads, b, i, v)
					drawn := params.Int32s()
					testenv.Require(t, [transform.ParamsLen]int32(got.Slot.Params[v][i*transform.ParamsLen:]) == drawn,
						"%d threads, batch %d, position %d: view %d has other params", threads, b, i, v)
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
		testenv.Check(t, len(bytes.Trim(bad, "\x00")) == 0 && len(bytes.Trim(others, "\x00")) > 0,
			"view %d: the bad sample is not black, or the others are", v)
	}
}

// lookedAt takes batches of a new stream up to one, closes it, and returns the batch and who looks at it.
func lookedAt(t *testing.T, cfg StreamConfig, number int) (Batch, *Previewer) {
	t.Helper()
	s := testenv.Must(newTestPool(t, 2).NewStream(cfg))(t)
	defer s.Close()
	testenv.Check(t, s.Previewer() == nil, "there is something to look at before the first batch")
	for {
		b := testenv.Must(s.Next(t.Context()))(t)
		if b.Number == number {
			p := s.Previewer()
			testenv.Require(t, p.Batch() == number && p.Len() == b.Count,
				"batch %d of %d samples is looked at, batch %d has %d", p.Batch(), p.Len(), number, b.Count)
			return b, p
		}
		cfg.Slots.Put(b.Slot)
	}
}

// checkViews compares what is shown of a position with what the consumer has.
func checkViews(t *testing.T, cfg StreamConfig, b Batch, position int, shown Preview) {
	t.Helper()
	index, label := b.Slot.Indices[position], b.Slot.Labels[position]
	testenv.Require(t, shown.Err == nil && int64(shown.Index) == index && int64(shown.Label) == label && len(shown.Views) == len(cfg.Views),
		"position %d: %+v, the consumer has sample %d", position, shown, index)
	for v, spec := range cfg.Views {
		height, width := spec.OutputSize()
		size := spec.OutputBytes()
		view := shown.Views[v]
		testenv.Check(t, view.Width == width && view.Height == height,
			"position %d: view %d has %d×%d pixels", position, v, view.Width, view.Height)
		testenv.Same(t, view.Pix, b.Slot.Images[v][position*size:(position+1)*size], "position %d: view %d", position, v)
	}
}

// TestPreviewOfViews shows all views of repeated samples, with their draws, beside what is stored.
func TestPreviewOfViews(t *testing.T) {
	const side = 9
	set := newMemorySet(t, 30)
	selection := testenv.Must(plan.NewSelection(plan.SelectionConfig{Samples: 30, Repeats: 2, Positions: 60}))(t)
	cfg, _ := viewStream(t, set, plan.Config{Samples: 30, BatchSize: 7, Seed: 5, Epoch: 2, Shuffle: true, Selection: selection}, 3)
	b, p := lookedAt(t, cfg, 4)
	for i := range b.Count {
		shown := p.Sample(i, side)
		checkViews(t, cfg, b, i, shown)
		record, _, _ := set.Record(shown.Index, nil, false)
		whole, w, h, err := transform.NewEngine(transform.ActiveLevel()).DecodeFull(sourceOf(set, &record))
		testenv.OK(t, err)
		if o := shown.Original; shown.Stored != image.Pt(w, h) || max(o.Width, o.Height) != min(side, max(w, h)) || len(o.Pix) != 3*o.Width*o.Height {
			t.Errorf("an image of %d × %d is shown as one of %v, in %d × %d and %d bytes", w, h, shown.Stored, o.Width, o.Height, len(o.Pix))
		} else if max(w, h) <= side && !bytes.Equal(o.Pix, whole) {
			t.Error("an image that was not made smaller has other pixels")
		}
	}
}

// TestPreviewOfASubstitute shows what the model has, and says for what it stands.
func TestPreviewOfASubstitute(t *testing.T) {
	set, cfg := substituteConfig(t)
	cfg.Shuffle = false
	for _, onError := range []OnError{Substitute, Blank} {
		sc := testStream(t, set, cfg, 2)
		sc.OnError = onError
		b, p := lookedAt(t, sc, 1)
		testenv.Require(t, len(b.Bad) == 1 && b.Bad[0].Position == 3, "%+v", b)
		for i := range b.Count {
			shown := p.Sample(i, 8)
			testenv.Equal(t, shown.Bad != nil, i == 3, "position %d is bad", i)
			if i != 3 || onError == Substitute {
				checkViews(t, sc, b, i, shown)
			} else if shown.Index != 13 || shown.Views != nil || shown.Label != BlankLabel || shown.Key != "k" || shown.Err != nil {
				t.Errorf("a blank sample: %+v", shown)
			}
		}
		third := p.Sample(3, 8)
		testenv.Check(t, onError != Substitute || third.Index != 13 && third.Bad.Index == 13,
			"position 3 shows sample %d: %+v", third.Index, third.Bad)
		set.bad[10] = errors.ErrUnsupported // it was there when it was served
		shown := p.Sample(0, 8)
		testenv.Check(t, errors.Is(shown.Err, errors.ErrUnsupported) && shown.Views == nil && shown.Original.Pix == nil,
			"a sample that cannot be read again: %+v", shown)
		delete(set.bad, 10)
	}
}

// TestWhole reads every image of a golden set as it is stored. That the pixels are Pillow's the tests in Python compare.
func TestWhole(t *testing.T) {
	set := testenv.Opened(shard.OpenSet("../shard/testdata/v1/train-shards"))(t)
	samples := testenv.Must(FromShards(set))(t)
	for i := range set.Len() {
		record, _ := testenv.Must2(set.Read(i, nil))(t)
		image, label := testenv.Must2(Whole(samples, i))(t)
		size := image.Width == int(record.Width) && image.Height == int(record.Height)
		testenv.Check(t, size && label == record.Label && len(image.Pix) == 3*image.Width*image.Height,
			"sample %d is %d×%d with label %d and %d bytes: %+v", i, image.Width, image.Height, label, len(image.Pix), record.Entry)
	}
	_, _, err := Whole(samples, set.Len())
	testenv.Check(t, errors.Is(err, shard.ErrNotFound), "a sample beyond the end: %v", err)
}

// TestPreviewersKnowTheirBatch looks at a stream whose batches are handed out meanwhile, each with a bad sample: who looks at a batch knows
// the bad samples of that one.
func TestPreviewersKnowTheirBatch(t *testing.T) {
	const batches = 2000
	s := &Stream{cfg: testStream(t, newMemorySet(t, batches), plan.Config{Samples: batches, BatchSize: 1}, 1)}
	var consumer sync.WaitGroup
	consumer.Go(func() {
		for n := range batches {
			b := &pendingBatch{stream: s, number: n, bads: []BadSample{{By: n}}}
			b.holders.Store(2)
			s.head = b
			s.handOut()
		}
	})
	for last := -1; last < batches-1; {
		p := s.Previewer()
		if p == nil {
			continue
		}
		last = p.Batch()
		testenv.Require(t, len(p.bad) == 1 && p.bad[0].By == last, "batch %d has the bad samples %+v", last, p.bad)
	}
	consumer.Wait()
	testenv.Equal(t, s.Stats().Batches, batches, "batches that are counted")
}

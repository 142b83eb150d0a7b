package plan

import (
	"math"
	"slices"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

// TestBuckets counts what an epoch of buckets holds: each batch one bucket's samples, each sample once, and the same batches in any
// world, from any on.
func TestBuckets(t *testing.T) {
	of := make([]uint16, 101)
	for i := range of {
		of[i] = []uint16{3, 0, 0, 1, 3, 3}[i*i%7%6] // none in bucket 2
	}
	for _, shuffle := range []bool{false, true} {
		for _, size := range []int{1, 4, 7, 200} {
			s := mustSelect(t, SelectionConfig{Samples: len(of), Buckets: &Buckets{Of: of, BatchSize: size}})
			cfg := Config{Fingerprint: "s", Samples: len(of), World: 1, BatchSize: size, Seed: 4, Epoch: 2, Shuffle: shuffle, Selection: s, Policy: Uneven}
			all := bucketBatches(t, cfg, of)
			var seen []int
			short := make([]int, 4)
			for _, batch := range all {
				seen = append(seen, batch...)
				if len(batch) < size {
					short[of[batch[0]]]++
				}
			}
			testenv.Check(t, slices.Max(short) <= 1, "short batches by bucket: %v", short)
			sorted := slices.Sorted(slices.Values(seen))
			testenv.Check(t, len(sorted) == len(of) && slices.Equal(slices.Compact(sorted), sorted),
				"%d samples of %d", len(sorted), len(of))
			for world := 1; world <= 5; world++ {
				for done := 0; done <= len(all); done += 1 + len(all)/5 {
					dealt := make([][]int, len(all)-done)
					for rank := range world {
						c := cfg
						c.Rank, c.World, c.Consumed = rank, world, done*size
						for b, batch := range bucketBatches(t, c, of) {
							dealt[rank+b*world] = batch
						}
						c.Policy = Pad
						padded := bucketBatches(t, c, of)
						testenv.Check(t, len(padded) == ceilDiv(len(all)-done, world),
							"%d batches of %d for a rank of %d", len(padded), len(all)-done, world)
					}
					testenv.Require(t, slices.EqualFunc(dealt, all[done:], slices.Equal),
						"%d ranks from batch %d on get other batches", world, done)
				}
			}
		}
	}
}

// bucketBatches returns the batches of a plan, once it is what it says of itself.
func bucketBatches(t *testing.T, cfg Config, of []uint16) (batches [][]int) {
	t.Helper()
	p := testenv.Must(New(cfg))(t)
	samples := 0
	for b := range p.Batches() {
		batch := p.Batch(b, nil)
		testenv.Require(t, len(batch) > 0 && len(batch) == p.BatchLen(b) && len(p.Repetitions(b, nil)) == 0,
			"batch %d of %d samples, of which there should be %d", b, len(batch), p.BatchLen(b))
		for _, index := range batch {
			testenv.Require(t, int(of[index]) == p.Bucket(b),
				"batch %d of bucket %d has sample %d of bucket %d", b, p.Bucket(b), index, of[index])
		}
		batches = append(batches, batch)
		samples += len(batch)
	}
	testenv.Require(t, p.Samples() == samples, "%d samples, the plan says %d", samples, p.Samples())
	return batches
}

func TestBucketsDropLast(t *testing.T) {
	of := make([]uint16, 50)
	for i := range of {
		of[i] = uint16(i % 3)
	}
	s := mustSelect(t, SelectionConfig{Samples: 50, Buckets: &Buckets{Of: of, BatchSize: 4, Full: true}})
	cfg := Config{Fingerprint: "s", Samples: 50, World: 5, BatchSize: 4, Shuffle: true, Selection: s, Policy: DropLast}
	for _, batch := range bucketBatches(t, cfg, of) {
		testenv.Check(t, len(batch) == 4, "a batch of %d", len(batch))
	}
	p, err := New(cfg)
	testenv.Check(t, err == nil && p.Batches() == 12/5 && len(p.Partitions()) == 1, "%d batches, %v", p.Batches(), err)
}

func TestTheLastBucket(t *testing.T) {
	s := mustSelect(t, SelectionConfig{Samples: 2, Buckets: &Buckets{Of: []uint16{0, math.MaxUint16}, BatchSize: 4}})
	p, err := New(Config{Samples: 2, BatchSize: 4, Selection: s})
	testenv.Check(t, err == nil && p.Batches() == 2, "%d batches, %v", p.Batches(), err)
}

func TestBucketsRefused(t *testing.T) {
	of := make([]uint16, 10)
	for _, cfg := range []SelectionConfig{
		{Samples: 10, Buckets: &Buckets{Of: of[:9], BatchSize: 1}},
		{Samples: 10, Buckets: &Buckets{Of: of, BatchSize: 1}, Repeats: 2},
		{Samples: 10, Buckets: &Buckets{Of: of, BatchSize: 0}},
		{Samples: 10, Buckets: &Buckets{Of: of, BatchSize: 11, Full: true}},
	} {
		testenv.Fails(NewSelection(cfg))(t, nil, "%+v is taken", cfg)
	}
	s := mustSelect(t, SelectionConfig{Samples: 10, Buckets: &Buckets{Of: of, BatchSize: 4}})
	for _, cfg := range []Config{{BatchSize: 3}, {BatchSize: 4, Consumed: 3}} {
		cfg.Samples, cfg.Selection = 10, s
		testenv.Fails(New(cfg))(t, nil, "%+v is taken", cfg)
	}
}

// TestMixture counts what an epoch of three joined sets holds, of any world, from any position on.
func TestMixture(t *testing.T) {
	lengths, starts := []int{50, 7, 0, 30}, []int{0, 50, 57, 57, 87}
	for _, positions := range []int{1, 10, 64, 333} {
		s := mustSelect(t, SelectionConfig{Samples: 87, Joined: lengths, Mix: []float64{6, 3, 0, 1}, Positions: positions})
		cfg := Config{Fingerprint: "s", Samples: 87, World: 1, BatchSize: 3, Seed: 4, Epoch: 2, Selection: s, Policy: Uneven}
		all := picks(t, cfg)
		testenv.Require(t, len(all) == positions, "%d samples of %d", len(all), positions)
		var counts [4]int
		seen := map[pick]int{}
		for _, p := range all {
			part := slices.IndexFunc(starts[1:], func(end int) bool { return p.index < end })
			seen[p]++
			testenv.Require(t, seen[p] == 1, "%v comes twice", p)
			before := pick{p.index, p.repetition - 1}
			testenv.Require(t, p.repetition == 0 || slices.Contains(all, before), "%v comes, and not the repetition before", p)
			counts[part]++
		}
		for i, weight := range []float64{0.6, 0.3, 0, 0.1} {
			want := weight * float64(positions)
			testenv.Check(t, math.Abs(float64(counts[i])-want) < 1,
				"%d samples of set %d in %d, want %.1f", counts[i], i, positions, want)
			if passes := counts[i] / max(lengths[i], 1); passes > 0 {
				for index := starts[i]; index < starts[i+1]; index++ {
					testenv.Check(t, slices.Contains(all, pick{index, passes - 1}),
						"sample %d does not come in pass %d of its set", index, passes-1)
				}
			}
		}
		for world := 1; world <= 5; world++ {
			for consumed := 0; consumed <= positions; consumed += 1 + positions/7 {
				dealt := make([]pick, positions-consumed)
				for rank := range world {
					c := cfg
					c.Rank, c.World, c.Consumed = rank, world, consumed
					for i, p := range picks(t, c) {
						dealt[rank+i*world] = p
					}
				}
				testenv.Require(t, slices.Equal(dealt, all[consumed:]), "%d ranks from %d on get another sequence", world, consumed)
			}
		}
		cfg.Epoch++
		testenv.Check(t, positions <= 1 || !slices.Equal(picks(t, cfg), all), "two epochs have the same order")
	}
}

func TestMixtureRefused(t *testing.T) {
	for name, cfg := range map[string]SelectionConfig{
		"another number of weights":   {Mix: []float64{1}, Positions: 5},
		"a negative weight":           {Mix: []float64{1, -1}, Positions: 5},
		"no number":                   {Mix: []float64{1, math.NaN()}, Positions: 5},
		"no weight":                   {Mix: []float64{0, 0}, Positions: 5},
		"too large weights":           {Mix: []float64{math.MaxFloat64, math.MaxFloat64}, Positions: 5},
		"a weight for no samples":     {Mix: []float64{1, 1}, Joined: []int{5, 0}, Positions: 5},
		"no length":                   {Mix: []float64{1, 1}},
		"a list":                      {Mix: []float64{1, 1}, List: []uint32{1}, Positions: 1},
		"weights of samples":          {Mix: []float64{1, 1}, Weights: make([]float64, 5), Positions: 5},
		"repeats":                     {Mix: []float64{1, 1}, Repeats: 2, Positions: 5},
		"a set that was never joined": {Mix: []float64{1, 1}, Joined: []int{}, Positions: 5},
	} {
		cfg.Samples = 5
		if cfg.Joined == nil {
			cfg.Joined = []int{2, 3}
		}
		testenv.Fails(NewSelection(cfg))(t, nil, "%s is taken", name)
	}
}

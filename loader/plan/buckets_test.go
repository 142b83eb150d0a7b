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
			if slices.Max(short) > 1 {
				t.Errorf("short batches by bucket: %v", short)
			}
			if sorted := slices.Sorted(slices.Values(seen)); len(sorted) != len(of) || !slices.Equal(slices.Compact(sorted), sorted) {
				t.Errorf("%d samples of %d", len(sorted), len(of))
			}
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
						if padded := bucketBatches(t, c, of); len(padded) != ceilDiv(len(all)-done, world) {
							t.Errorf("%d batches of %d for a rank of %d", len(padded), len(all)-done, world)
						}
					}
					if !slices.EqualFunc(dealt, all[done:], slices.Equal) {
						t.Fatalf("%d ranks from batch %d on get other batches", world, done)
					}
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
		if len(batch) == 0 || len(batch) != p.BatchLen(b) || len(p.Repetitions(b, nil)) != 0 {
			t.Fatalf("batch %d of %d samples, of which there should be %d", b, len(batch), p.BatchLen(b))
		}
		for _, index := range batch {
			if int(of[index]) != p.Bucket(b) {
				t.Fatalf("batch %d of bucket %d has sample %d of bucket %d", b, p.Bucket(b), index, of[index])
			}
		}
		batches = append(batches, batch)
		samples += len(batch)
	}
	if p.Samples() != samples {
		t.Fatalf("%d samples, the plan says %d", samples, p.Samples())
	}
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
		if len(batch) != 4 {
			t.Errorf("a batch of %d", len(batch))
		}
	}
	if p, err := New(cfg); err != nil || p.Batches() != 12/5 || len(p.Partitions()) != 1 {
		t.Errorf("%d batches, %v", p.Batches(), err)
	}
}

func TestTheLastBucket(t *testing.T) {
	s := mustSelect(t, SelectionConfig{Samples: 2, Buckets: &Buckets{Of: []uint16{0, math.MaxUint16}, BatchSize: 4}})
	if p, err := New(Config{Samples: 2, BatchSize: 4, Selection: s}); err != nil || p.Batches() != 2 {
		t.Errorf("%d batches, %v", p.Batches(), err)
	}
}

func TestBucketsRefused(t *testing.T) {
	of := make([]uint16, 10)
	for _, cfg := range []SelectionConfig{
		{Samples: 10, Buckets: &Buckets{Of: of[:9], BatchSize: 1}},
		{Samples: 10, Buckets: &Buckets{Of: of, BatchSize: 1}, Repeats: 2},
		{Samples: 10, Buckets: &Buckets{Of: of, BatchSize: 0}},
		{Samples: 10, Buckets: &Buckets{Of: of, BatchSize: 11, Full: true}},
	} {
		if _, err := NewSelection(cfg); err == nil {
			t.Errorf("%+v is taken", cfg)
		}
	}
	s := mustSelect(t, SelectionConfig{Samples: 10, Buckets: &Buckets{Of: of, BatchSize: 4}})
	for _, cfg := range []Config{{BatchSize: 3}, {BatchSize: 4, Consumed: 3}} {
		cfg.Samples, cfg.Selection = 10, s
		if _, err := New(cfg); err == nil {
			t.Errorf("%+v is taken", cfg)
		}
	}
}

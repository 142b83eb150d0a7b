package plan

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

// all returns rank's samples, batch after batch.
func all(t *testing.T, cfg Config) []int {
	t.Helper()
	p := testenv.Must(New(cfg))(t)
	var out, batch []int
	for b := range p.Batches() {
		batch = p.Batch(b, batch)
		testenv.Require(t, len(batch) == p.BatchLen(b), "%+v: batch %d has %d samples, BatchLen says %d", cfg, b, len(batch), p.BatchLen(b))
		out = append(out, batch...)
	}
	testenv.Require(t, len(out) == p.Samples(), "%+v: %d samples, Samples() says %d", cfg, len(out), p.Samples())
	return out
}

// counts returns how often each sample stands in the shares of all ranks.
func counts(t *testing.T, cfg Config) []int {
	t.Helper()
	n := make([]int, cfg.Samples)
	for cfg.Rank = range cfg.World {
		for _, s := range all(t, cfg) {
			n[s]++
		}
	}
	return n
}

// randomConfigs yields configurations of many shapes, sizes around the worlds' multiples among them.
func randomConfigs(n int) []Config {
	rng := rand.New(rand.NewPCG(1, 2))
	cfgs := make([]Config, n)
	for i := range cfgs {
		c := Config{
			Fingerprint: fmt.Sprint("f", i), Samples: 1 + rng.IntN(200), Partitions: 1 + rng.IntN(9), World: 1 + rng.IntN(9),
			Seed: rng.Int64() - rng.Int64(), Epoch: rng.IntN(5), BatchSize: 1 + rng.IntN(17), Shuffle: i%4 != 0,
		}
		if i%10 == 0 { // a size beyond the tables
			c.Samples = tableMax*c.Partitions + rng.IntN(5000)
		}
		cfgs[i] = c
	}
	return cfgs
}

// TestPolicies counts the samples of all ranks: none comes twice unless ranks are padded, and none is missing unless the rest is dropped.
func TestPolicies(t *testing.T) {
	for _, cfg := range randomConfigs(300) {
		for _, cfg.Policy = range []Policy{Pad, DropLast, Uneven} {
			for s, n := range counts(t, cfg) {
				testenv.Require(t, (n != 0 || cfg.Policy == DropLast) && (n <= 1 || cfg.Policy == Pad), "%+v: sample %d stands %d times", cfg, s, n)
			}
			samples := (cfg.Samples + cfg.World - 1) / cfg.World
			batches := (samples + cfg.BatchSize - 1) / cfg.BatchSize
			if cfg.Policy == DropLast {
				batches = cfg.Samples / cfg.World / cfg.BatchSize
				samples = batches * cfg.BatchSize
			}
			for cfg.Rank = range cfg.World {
				p, _ := New(cfg)
				testenv.Require(t, cfg.Policy == Uneven || p.Samples() == samples && p.Batches() == batches,
					"%+v: %d samples in %d batches, want %d in %d", cfg, p.Samples(), p.Batches(), samples, batches)
			}
		}
	}
}

// TestPadMatchesDistributedSampler compares an unshuffled padded plan of an undivided set with torch's rule:
// indices += indices[:padding], indices[rank::world].
func TestPadMatchesDistributedSampler(t *testing.T) {
	for n := 1; n < 40; n++ {
		for world := 1; world < 9; world++ {
			var indices []int
			for i := range (n + world - 1) / world * world {
				indices = append(indices, i%n)
			}
			for rank := range world {
				var want []int
				for i := rank; i < len(indices); i += world {
					want = append(want, indices[i])
				}
				got := all(t, Config{Samples: n, World: world, Rank: rank, BatchSize: 3})
				testenv.Require(t, slices.Equal(got, want), "n=%d world=%d rank=%d: %v, want %v", n, world, rank, got, want)
			}
		}
	}
}

// TestElastic changes the world after every batch: what was consumed and what follows is each sample once.
func TestElastic(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, cfg := range randomConfigs(100) {
		cfg.Policy = Uneven
		seen := make([]int, cfg.Samples)
		for consumed := 0; consumed < cfg.Samples; {
			cfg.Consumed, cfg.World, cfg.BatchSize = consumed, 1+rng.IntN(7), 1+rng.IntN(40)
			for cfg.Rank = range cfg.World {
				p := testenv.Must(New(cfg))(t)
				if p.Batches() > 0 {
					for _, s := range p.Batch(0, nil) {
						seen[s]++
					}
				}
				consumed = p.ConsumedAfter(0)
			}
		}
		for s, n := range seen {
			testenv.Require(t, n == 1, "%+v: sample %d stands %d times", cfg, s, n)
		}
	}
}

// TestOwnPartitionOnly checks that the world that a set was built for needs one partition a rank.
func TestOwnPartitionOnly(t *testing.T) {
	for _, cfg := range randomConfigs(200) {
		cfg.World = cfg.Partitions
		cfg.Consumed = cfg.Samples / 3 / cfg.World * cfg.World
		for cfg.Rank = range cfg.World {
			p, _ := New(cfg)
			parts := p.Partitions()
			testenv.Require(t, cfg.Samples < cfg.World || slices.Equal(parts, []int{cfg.Rank}), "%+v: partitions %v", cfg, parts)
		}
	}
}

func TestShuffleDependsOnItsKey(t *testing.T) {
	base := Config{Fingerprint: "a", Samples: 3000, BatchSize: 100, Shuffle: true, Seed: 1}
	first := all(t, base)
	testenv.Require(t, slices.Equal(first, all(t, base)), "the same plan differs")
	for name, change := range map[string]func(*Config){
		"fingerprint": func(c *Config) { c.Fingerprint = "b" },
		"seed":        func(c *Config) { c.Seed = -1 },
		"epoch":       func(c *Config) { c.Epoch = 1 },
	} {
		cfg := base
		change(&cfg)
		testenv.Check(t, !slices.Equal(first, all(t, cfg)), "another %s gives the same order", name)
	}
	batched := base
	batched.BatchSize = 7
	testenv.Check(t, slices.Equal(first, all(t, batched)), "the batch size changes the order")
}

// TestGolden pins the order: a change of it would break every checkpoint.
func TestGolden(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		want []int
	}{
		{Config{Fingerprint: "golden", Samples: 12, Seed: 7}, []int{3, 2, 11, 8, 6, 10, 9, 0, 7, 5, 1, 4}},
		{Config{Fingerprint: "golden", Samples: 1281167, Seed: 7, Epoch: 3}, []int{
			623741, 334581, 1190763, 532774, 537336, 816103, 207420, 393611, 1092234, 142094, 914421, 145325}},
		{Config{Fingerprint: "golden", Samples: 1281167, Seed: -7, Epoch: 3, Partitions: 8, World: 8, Rank: 5}, []int{
			96341, 359805, 150245, 1010973, 504109, 1023437, 42445, 126245, 1216733, 791685, 237061, 1076757}},
	} {
		c.cfg.Shuffle, c.cfg.BatchSize = true, 12
		testenv.DeepEqual(t, testenv.Must(New(c.cfg))(t).Batch(0, nil), c.want, "%+v", c.cfg)
	}
}

func TestConfigErrors(t *testing.T) {
	good := Config{Samples: 10, BatchSize: 2}
	for field, change := range map[string]func(*Config){
		"samples":    func(c *Config) { c.Samples = 0 },
		"partitions": func(c *Config) { c.Partitions = -1 },
		"epoch":      func(c *Config) { c.Epoch = -1 },
		"world":      func(c *Config) { c.World = -1 },
		"rank":       func(c *Config) { c.Rank = 1 },
		"batch_size": func(c *Config) { c.BatchSize = 0 },
		"consumed":   func(c *Config) { c.Consumed = 11 },
		"policy":     func(c *Config) { c.Policy = 9 },
	} {
		cfg := good
		change(&cfg)
		_, err := New(cfg)
		var ce *ConfigError
		testenv.Check(t, errors.As(err, &ce) && strings.HasPrefix(ce.Reason, field+" is "), "bad %s: %v", field, err)
	}
	good.BatchSize = 1e9
	testenv.Fails(New(good))(t, "1 to 16777216")
}

func BenchmarkBatch(b *testing.B) {
	p, _ := New(Config{Samples: 1281167, BatchSize: 256, Shuffle: true})
	dst := make([]int, 256)
	for i := 0; b.Loop(); i++ {
		dst = p.Batch(i%p.Batches(), dst)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/256, "ns/sample")
}

func TestPermutationIsBijective(t *testing.T) {
	for _, size := range []int{1, 2, 3, 7, 1023, 1024, 1025, 2047, 2048, 2049, 4096, 5000, 65537, 100003} {
		p := newPermutation("x", 1, 2, 3, size)
		seen := make([]bool, size)
		for j := range size {
			v := p.at(j)
			testenv.Require(t, v >= 0 && v < size && !seen[v], "size %d: at(%d) = %d: out of range or met before", size, j, v)
			seen[v] = true
		}
	}
}

// TestPermutationIsUniform counts, over many epochs, where small and large sizes put their elements, and how often
// neighbours stay neighbours: χ² within six standard deviations of its mean.
func TestPermutationIsUniform(t *testing.T) {
	const epochs, cells = 4000, 8
	for _, size := range []int{8, 1000, 1500, 4097} {
		for _, j := range []int{0, 1, size / 2, size - 1} {
			var value, step [cells]float64
			for epoch := range epochs {
				p := newPermutation("u", 5, epoch, 0, size)
				v := p.at(j)
				value[v*cells/size]++
				next := p.at((j + 1) % size)
				step[(next-v+size)%size*cells/size]++
			}
			checkUniform(t, size, j, "value", value[:])
			if size > 100 { // for 8 elements a step of 0 cannot be
				checkUniform(t, size, j, "step", step[:])
			}
		}
	}
}

func checkUniform(t *testing.T, size, j int, what string, got []float64) {
	t.Helper()
	total := 0.0
	for _, n := range got {
		total += n
	}
	want, chi2 := total/float64(len(got)), 0.0
	for _, n := range got {
		chi2 += (n - want) * (n - want) / want
	}
	df := float64(len(got) - 1)
	testenv.Check(t, chi2 <= df+6*math.Sqrt(2*df), "size %d, element %d: %s is not uniform: χ² = %.1f, %v", size, j, what, chi2, got)
}

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
			testenv.Check(t, len(sorted) == len(of) && slices.Equal(slices.Compact(sorted), sorted), "%d samples of %d", len(sorted), len(of))
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
						testenv.Check(t, len(padded) == ceilDiv(len(all)-done, world), "%d batches of %d for a rank of %d", len(padded), len(all)-done, world)
					}
					testenv.Require(t, slices.EqualFunc(dealt, all[done:], slices.Equal), "%d ranks from batch %d on get other batches", world, done)
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
			testenv.Require(t, int(of[index]) == p.Bucket(b), "batch %d of bucket %d has sample %d of bucket %d", b, p.Bucket(b), index, of[index])
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
	testenv.Equal(t, testenv.Must(New(Config{Samples: 2, BatchSize: 4, Selection: s}))(t).Batches(), 2, "batches")
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
			testenv.Check(t, math.Abs(float64(counts[i])-want) < 1, "%d samples of set %d in %d, want %.1f", counts[i], i, positions, want)
			if passes := counts[i] / max(lengths[i], 1); passes > 0 {
				for index := starts[i]; index < starts[i+1]; index++ {
					testenv.Check(t, slices.Contains(all, pick{index, passes - 1}), "sample %d does not come in pass %d of its set", index, passes-1)
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

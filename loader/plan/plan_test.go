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
		testenv.Require(t, len(batch) == p.BatchLen(b),
			"%+v: batch %d has %d samples, BatchLen says %d", cfg, b, len(batch), p.BatchLen(b))
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
				testenv.Require(t, (n != 0 || cfg.Policy == DropLast) && (n <= 1 || cfg.Policy == Pad),
					"%+v: sample %d stands %d times", cfg, s, n)
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
		p := testenv.Must(New(c.cfg))(t)
		testenv.DeepEqual(t, p.Batch(0, nil), c.want, "%+v", c.cfg)
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

package plan

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

// A pick is what a position of a batch holds.
type pick struct{ index, repetition int }

// picks returns what a rank is served from here to the end of the epoch.
func picks(t *testing.T, cfg Config) []pick {
	t.Helper()
	p := testenv.Must(New(cfg))(t)
	var out []pick
	for b := range p.Batches() {
		again := append(p.Repetitions(b, nil), make([]int, p.BatchLen(b))...) // zeros without a selection
		for i, index := range p.Batch(b, nil) {
			out = append(out, pick{index, again[i]})
		}
	}
	testenv.Require(t, len(out) == p.Samples(), "%d samples, Samples() says %d", len(out), p.Samples())
	return out
}

// selections returns selections of every kind from a set of n samples, and none, by name.
func selections(t *testing.T, n int) map[string]*Selection {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(n), 6))
	var half, twice []uint32
	weights := make([]float64, n)
	for i := range n {
		if i%2 == 0 {
			half = append(half, uint32(i))
		}
		twice = append(twice, uint32(rng.IntN(n)))
		weights[i] = rng.Float64() * float64(i%3)
	}
	weights[0] = 1
	rng.Shuffle(len(half), func(i, j int) { half[i], half[j] = half[j], half[i] })
	made := map[string]*Selection{"none": nil}
	for name, cfg := range map[string]SelectionConfig{
		"subset":            {List: half},
		"order":             {List: twice},
		"weights":           {Weights: weights},
		"many weights":      {Weights: weights, Positions: 3*n + 1},
		"weights of subset": {List: half, Weights: weights[:len(half)], Positions: n},
		"repeats":           {Repeats: 3},
		"all repeats":       {Repeats: 3, Positions: 3 * n},
		"all of all":        {List: half, Weights: weights[:len(half)], Repeats: 2, Positions: n + 3},
		"repeats of order":  {List: twice, Repeats: 2, Positions: 2 * n},
		"shorter":           {Positions: (n + 1) / 2},
	} {
		cfg.Samples = n
		made[name] = mustSelect(t, cfg)
	}
	return made
}

// selected calls f with plans of every kind of selection, shuffled and not, of the world 1.
func selected(t *testing.T, f func(name string, cfg Config)) {
	for _, n := range []int{1, 2, 7, 64, 203} {
		for name, s := range selections(t, n) {
			for _, shuffle := range []bool{false, true} {
				f(fmt.Sprintf("%s of %d, shuffle %t", name, n, shuffle), Config{
					Fingerprint: "s", Samples: n, Partitions: 1 + n%3, World: 1, BatchSize: 3, Seed: 4, Epoch: 2, Shuffle: shuffle, Selection: s,
				})
			}
		}
	}
}

// TestRanksShareTheSequence deals every sequence to 1, 2, 4 and 8 ranks, by every policy: rank r has the positions r, r + w, … of what
// one rank alone is served, padded from its beginning.
func TestRanksShareTheSequence(t *testing.T) {
	selected(t, func(name string, cfg Config) {
		if cfg.Selection == nil {
			return // It is padded from the same partition, see TestPadMatchesDistributedSampler.
		}
		whole := picks(t, cfg)
		for _, cfg.World = range []int{1, 2, 4, 8} {
			for cfg.Rank = range cfg.World {
				for _, cfg.Policy = range []Policy{Pad, DropLast, Uneven} {
					var want []pick
					for q := cfg.Rank; q < len(whole) || cfg.Policy == Pad && q < ceilDiv(len(whole), cfg.World)*cfg.World; q += cfg.World {
						want = append(want, whole[q%len(whole)])
					}
					if cfg.Policy == DropLast {
						want = want[:len(whole)/cfg.World/cfg.BatchSize*cfg.BatchSize]
					}
					got := picks(t, cfg)
					testenv.Require(t, slices.Equal(got, want), "%s, rank %d of %d, %v: %v, want %v", name, cfg.Rank, cfg.World, cfg.Policy, got, want)
				}
			}
		}
	})
}

// TestResume stops after every batch, and goes on with the same world and with another.
func TestResume(t *testing.T) {
	selected(t, func(name string, cfg Config) {
		sequence := picks(t, cfg)
		for _, cfg.World = range []int{1, 2, 4, 8} {
			cfg.Rank = cfg.World - 1
			for _, cfg.Policy = range []Policy{Pad, DropLast, Uneven} {
				whole := picks(t, cfg)
				p, _ := New(cfg)
				for b := range p.Batches() {
					rest := cfg
					rest.Consumed = p.ConsumedAfter(b)
					got, want := picks(t, rest), whole[min(len(whole), (b+1)*cfg.BatchSize):]
					testenv.Require(t, slices.Equal(got, want),
						"%s: after batch %d of rank %d of %d: %v, want %v", name, b, rest.Rank, rest.World, got, want)
					rest.World, rest.Rank, rest.Policy = 1, 0, Uneven
					if got := picks(t, rest); !slices.Equal(got, sequence[rest.Consumed:]) {
						t.Fatalf("%s: after batch %d of %d ranks one alone goes on with %v, want %v", name, b, cfg.World, got, sequence[rest.Consumed:])
					}
				}
			}
		}
	})
}

// TestRepetitionsDiffer checks that no sample has the same draws twice in an epoch.
func TestRepetitionsDiffer(t *testing.T) {
	selected(t, func(name string, cfg Config) {
		seen := map[pick]bool{}
		for _, got := range picks(t, cfg) {
			testenv.Require(t, !seen[got], "%s: sample %d comes twice as repetition %d", name, got.index, got.repetition)
			seen[got] = true
		}
	})
}

// TestWhatIsSelected checks which samples come how often.
func TestWhatIsSelected(t *testing.T) {
	const n = 203
	made := selections(t, n)
	for _, shuffle := range []bool{false, true} {
		serve := func(name string) []pick {
			return picks(t, Config{Fingerprint: "w", Samples: n, Partitions: 4, BatchSize: 5, Shuffle: shuffle, Selection: made[name]})
		}
		cfg := Config{Fingerprint: "w", Samples: n, Partitions: 4, BatchSize: 5, Shuffle: shuffle}
		plain := all(t, cfg)
		cfg.Selection = mustSelect(t, SelectionConfig{Samples: n})
		testenv.DeepEqual(t, all(t, cfg), plain, "a selection of everything")
		for i, got := range serve("repeats") { // each sample of the plain sequence three times in a row
			testenv.Require(t, got == pick{plain[i/3], i % 3}, "repeats: position %d is %v", i, got)
		}
		testenv.DeepEqual(t, indicesOf(serve("shorter")), plain[:(n+1)/2], "shorter")
		for name, s := range map[string]*Selection{"subset": made["subset"], "order": made["order"]} {
			got := indicesOf(serve(name))
			var want []int
			for _, index := range s.list {
				want = append(want, int(index))
			}
			if shuffle {
				testenv.Check(t, !slices.Equal(got, want), "%s is not shuffled", name)
				slices.Sort(got)
				slices.Sort(want)
			}
			testenv.Require(t, slices.Equal(got, want), "%s: %v, want %v", name, got, want)
		}
		for _, got := range serve("weights") {
			testenv.Require(t, got.index%3 != 0 || got.index == 0, "sample %d has no weight, and is served", got.index)
		}
	}
}

func mustSelect(t *testing.T, cfg SelectionConfig) *Selection {
	t.Helper()
	return testenv.Must(NewSelection(cfg))(t)
}

func indicesOf(of []pick) (indices []int) {
	for _, p := range of {
		indices = append(indices, p.index)
	}
	return indices
}

// TestWeightedDrawsAreInProportion compares counts of a million draws with the weights: χ² within six standard deviations of its mean.
func TestWeightedDrawsAreInProportion(t *testing.T) {
	const draws = 1 << 20
	for name, weights := range map[string][]float64{
		"even":    slices.Repeat([]float64{3}, 100),
		"one":     {0, 0, 1, 0},
		"small":   {1e-3, 1, 0, 7, 2.5, 1e-2},
		"tiny":    {5e-324, 1e-300, 1e-300, 3e-300},
		"huge":    {math.MaxFloat64, math.MaxFloat64, math.MaxFloat64 / 3, 0},
		"powers":  {1, 2, 4, 8, 16, 32, 64, 128},
		"lengthy": append(slices.Repeat([]float64{1}, 1000), 1000),
	} {
		table := testenv.Must(newAliasTable(weights))(t)
		counts := make([]float64, len(weights))
		keys := newDrawKeys("x", 1, 2)
		for b := range draws {
			counts[table.draw(keys, b)]++
		}
		largest := slices.Max(weights)
		sum, chi2, df := 0.0, 0.0, -1.0
		for _, w := range weights {
			sum += w / largest
		}
		for i, w := range weights {
			want := w / largest / sum * draws
			switch {
			case w == 0 && counts[i] > 0:
				t.Errorf("%s: column %d has no weight and was drawn %v times", name, i, counts[i])
			case want > 5:
				chi2 += (counts[i] - want) * (counts[i] - want) / want
				df++
			}
		}
		testenv.Check(t, chi2 <= df+6*math.Sqrt(2*max(df, 1)),
			"%s: χ² = %.1f with %v degrees of freedom, %v", name, chi2, df, counts[:min(len(counts), 8)])
	}
}

// TestWeightedDrawsGolden pins the draws: a change of them would break every checkpoint.
func TestWeightedDrawsGolden(t *testing.T) {
	s := mustSelect(t, SelectionConfig{Samples: 10, Weights: []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, Positions: 20})
	got := all(t, Config{Fingerprint: "golden", Samples: 10, Seed: 7, Epoch: 3, BatchSize: 20, Selection: s})
	testenv.DeepEqual(t, got, []int{6, 1, 0, 3, 8, 5, 9, 9, 6, 7, 7, 3, 9, 9, 6, 4, 8, 7, 5, 9}, "the draws")
}

// TestARanksOwnOrder serves each rank its own list, from every batch on.
func TestARanksOwnOrder(t *testing.T) {
	const world = 3
	for rank := range world {
		list := []uint32{uint32(rank), 9, 5, uint32(rank + 3), 5, 0, 1}
		cfg := Config{
			Samples: 10, World: world, Rank: rank, BatchSize: 2, Partitions: 2,
			Selection: mustSelect(t, SelectionConfig{Samples: 10, List: list, OfRank: true}),
		}
		for _, cfg.Policy = range []Policy{Pad, DropLast, Uneven} {
			want := []int{rank, 9, 5, rank + 3, 5, 0, 1}
			if cfg.Policy == DropLast {
				want = want[:6]
			}
			whole := picks(t, cfg)
			testenv.Require(t, slices.Equal(indicesOf(whole), want), "rank %d: %v, want %v", rank, whole, want)
			for i, got := range whole {
				testenv.Check(t, got.repetition == i*world+rank, "rank %d, position %d: repetition %d", rank, i, got.repetition)
			}
			p, _ := New(cfg)
			for b := range p.Batches() {
				rest := cfg
				rest.Consumed = p.ConsumedAfter(b)
				got := picks(t, rest)
				testenv.Require(t, slices.Equal(got, whole[min(2*b+2, len(whole)):]), "rank %d, %v, after batch %d: %v", rank, cfg.Policy, b, got)
			}
		}
	}
}

func TestSelectedPartitions(t *testing.T) {
	selected(t, func(name string, cfg Config) {
		cfg.Partitions, cfg.Consumed = 5, cfg.positions()/5
		for _, cfg.World = range []int{1, 2, 5} {
			for cfg.Rank = range cfg.World {
				p := testenv.Must(New(cfg))(t)
				parts := p.Partitions()
				for _, index := range all(t, cfg) {
					testenv.Require(t, slices.Contains(parts, index%cfg.Partitions),
						"%s: sample %d is in partition %d, not in %v", name, index, index%cfg.Partitions, parts)
				}
			}
		}
	})
	only := func(list []uint32, weights []float64, shuffle bool) []int {
		s := mustSelect(t, SelectionConfig{Samples: 20, List: list, Weights: weights})
		p := testenv.Must(New(Config{Samples: 20, Partitions: 4, World: 2, Rank: 1, BatchSize: 1, Shuffle: shuffle, Selection: s}))(t)
		return p.Partitions()
	}
	testenv.DeepEqual(t, only([]uint32{0, 5, 4, 9, 8, 13}, nil, false), []int{1}, "an order whose rank 1 has partition 1 only")
	testenv.DeepEqual(t, only([]uint32{0, 5, 4, 9}, nil, true), []int{0, 1}, "a shuffled subset of the partitions 0 and 1")
	testenv.DeepEqual(t, only([]uint32{0, 5, 6, 7}, []float64{1, 0, 2, 0}, false), []int{0, 2},
		"weights for samples of the partitions 0 and 2")
}

func TestSelectionErrors(t *testing.T) {
	for want, cfg := range map[string]SelectionConfig{
		"no sample is selected":                         {Samples: 5, List: []uint32{}},
		"a set of 0 samples":                            {},
		"position 1 of the list holds sample 5":         {Samples: 5, List: []uint32{0, 5}},
		"repeats is -1":                                 {Samples: 5, Repeats: -1},
		"repeats is 65537":                              {Samples: 5, Repeats: 65537},
		"an epoch of -1 samples":                        {Samples: 5, Positions: -1},
		"an epoch of 11 samples, and there are 5":       {Samples: 5, Positions: 11, Repeats: 2},
		"4 weights for 5 samples":                       {Samples: 5, Weights: make([]float64, 4)},
		"all weights are 0":                             {Samples: 5, Weights: make([]float64, 5)},
		"weight 1 is NaN":                               {Samples: 2, Weights: []float64{1, math.NaN()}},
		"weight 0 is -1":                                {Samples: 2, Weights: []float64{-1, 2}},
		"weight 1 is +Inf":                              {Samples: 2, Weights: []float64{1, math.Inf(1)}},
		"a rank's own order is a list":                  {Samples: 2, OfRank: true},
		"a rank's own order is a list of samples, with": {Samples: 2, OfRank: true, List: []uint32{1}, Repeats: 2},
	} {
		_, err := NewSelection(cfg)
		testenv.Check(t, err != nil && strings.HasPrefix(err.Error(), "plan: "+want), "%v, want %q", err, want)
	}
	own := mustSelect(t, SelectionConfig{Samples: 4, List: []uint32{1, 2}, OfRank: true})
	for want, cfg := range map[string]Config{
		"samples is 5, want the 4 of its selection": {Samples: 5, Selection: own},
		"a rank's own order is not shuffled":        {Samples: 4, Shuffle: true, Selection: own},
		"consumed is 3, want a multiple of":         {Samples: 4, World: 2, Consumed: 3, Selection: own},
		"consumed is 5, want 0 to the number":       {Samples: 4, World: 2, Consumed: 5, Selection: own},
	} {
		cfg.BatchSize = 1
		_, err := New(cfg)
		testenv.Check(t, err != nil && strings.HasPrefix(err.Error(), "plan: "+want), "%v, want %q", err, want)
	}
}

func TestSelectedBatchesDoNotAllocate(t *testing.T) {
	n := 5000
	for name, s := range selections(t, n) {
		p := testenv.Must(New(Config{Samples: n, BatchSize: 256, Shuffle: true, Selection: s}))(t)
		dst, again := make([]int, 256), make([]int, 256)
		testenv.NoAllocations(t, 10, func() { dst, again = p.Batch(3, dst), p.Repetitions(3, again) }, "%s: a batch", name)
	}
}

// TestSelectionBytes compares the memory that is announced with what a selection keeps.
func TestSelectionBytes(t *testing.T) {
	const n = 1 << 16
	s := mustSelect(t, SelectionConfig{Samples: n, List: make([]uint32, n), Weights: slices.Repeat([]float64{1}, n)})
	keeps := int64(4*cap(s.list) + 8*cap(s.alias.threshold) + 4*cap(s.alias.alias))
	lasting, building := SelectionBytes(n, n)
	testenv.Check(t, lasting == keeps && building > lasting, "%d bytes, %d while it is made; it keeps %d", lasting, building, keeps)
}

func alternatives(t *testing.T, cfg Config, index, repetition int) []int {
	t.Helper()
	p := testenv.Must(New(cfg))(t)
	return slices.Collect(p.Alternatives(index, repetition))
}

// TestAlternativesAreEveryOther of the partition, once, and the same on any rank of any world and from any position of an epoch.
func TestAlternativesAreEveryOther(t *testing.T) {
	cfg := Config{Fingerprint: "ab", Samples: 30, Partitions: 3, World: 1, BatchSize: 4, Seed: 5, Epoch: 2, Shuffle: true}
	got := alternatives(t, cfg, 7, 0)
	want := []int{1, 4, 10, 13, 16, 19, 22, 25, 28}
	testenv.DeepEqual(t, slices.Sorted(slices.Values(got)), want, "the others, in order")
	other := cfg
	other.World, other.Rank, other.BatchSize, other.Consumed, other.Shuffle = 4, 3, 2, 8, false
	testenv.DeepEqual(t, alternatives(t, other, 7, 0), got, "the others by rank 3 of 4")
	// Other seeds, epochs, samples and repetitions begin elsewhere, at every position in the end.
	begins := map[int]bool{}
	for epoch := range 100 {
		cfg.Epoch = epoch
		begins[alternatives(t, cfg, 7, 1)[0]] = true
	}
	testenv.Check(t, len(begins) == len(want), "a hundred epochs begin with %v", begins)
}

// TestAlternativesAreSelected: what is left out of a selection, or has no weight, stands for nothing.
func TestAlternativesAreSelected(t *testing.T) {
	list := []uint32{9, 2, 4, 4, 6, 0}
	for name, c := range map[string]struct {
		weights []float64
		want    []int
	}{"list": {nil, []int{0, 2, 4, 4, 6}}, "weights": {[]float64{1, 0, 5, 0.5, 0, 2}, []int{0, 4, 4}}} {
		s := mustSelect(t, SelectionConfig{Samples: 10, List: list, Weights: c.weights})
		for seed := range int64(20) {
			got := alternatives(t, Config{Samples: 10, World: 1, BatchSize: 1, Selection: s, Seed: seed}, 9, 0)
			slices.Sort(got)
			testenv.DeepEqual(t, got, c.want, "%s, seed %d", name, seed)
		}
	}
}

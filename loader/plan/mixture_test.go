package plan

import (
	"math"
	"slices"
	"testing"
)

// TestMixture counts what an epoch of three joined sets holds, of any world, from any position on.
func TestMixture(t *testing.T) {
	lengths, starts := []int{50, 7, 0, 30}, []int{0, 50, 57, 57, 87}
	for _, positions := range []int{1, 10, 64, 333} {
		s := mustSelect(t, SelectionConfig{Samples: 87, Joined: lengths, Mix: []float64{6, 3, 0, 1}, Positions: positions})
		cfg := Config{Fingerprint: "s", Samples: 87, World: 1, BatchSize: 3, Seed: 4, Epoch: 2, Selection: s, Policy: Uneven}
		all := picks(t, cfg)
		if len(all) != positions {
			t.Fatalf("%d samples of %d", len(all), positions)
		}
		var counts [4]int
		seen := map[pick]int{}
		for _, p := range all {
			part := slices.IndexFunc(starts[1:], func(end int) bool { return p.index < end })
			if seen[p]++; seen[p] > 1 {
				t.Fatalf("%v comes twice", p)
			}
			if p.repetition > 0 && seen[pick{p.index, p.repetition - 1}] == 0 && !slices.Contains(all, pick{p.index, p.repetition - 1}) {
				t.Fatalf("%v comes, and not the repetition before", p)
			}
			counts[part]++
		}
		for i, weight := range []float64{0.6, 0.3, 0, 0.1} {
			if want := weight * float64(positions); math.Abs(float64(counts[i])-want) >= 1 {
				t.Errorf("%d samples of set %d in %d, want %.1f", counts[i], i, positions, want)
			}
			if passes := counts[i] / max(lengths[i], 1); passes > 0 {
				for index := starts[i]; index < starts[i+1]; index++ {
					if !slices.Contains(all, pick{index, passes - 1}) {
						t.Errorf("sample %d does not come in pass %d of its set", index, passes-1)
					}
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
				if !slices.Equal(dealt, all[consumed:]) {
					t.Fatalf("%d ranks from %d on get another sequence", world, consumed)
				}
			}
		}
		cfg.Epoch++
		if positions > 1 && slices.Equal(picks(t, cfg), all) {
			t.Error("two epochs have the same order")
		}
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
		if _, err := NewSelection(cfg); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

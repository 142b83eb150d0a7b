package plan

import (
	"slices"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

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
	if sorted := slices.Sorted(slices.Values(got)); !slices.Equal(sorted, want) {
		t.Fatalf("%v, want %v in some order", got, want)
	}
	other := cfg
	other.World, other.Rank, other.BatchSize, other.Consumed, other.Shuffle = 4, 3, 2, 8, false
	if again := alternatives(t, other, 7, 0); !slices.Equal(got, again) {
		t.Errorf("rank 3 of 4 has %v, rank 0 of 1 %v", again, got)
	}
	// Other seeds, epochs, samples and repetitions begin elsewhere, at every position in the end.
	begins := map[int]bool{}
	for epoch := range 100 {
		cfg.Epoch = epoch
		begins[alternatives(t, cfg, 7, 1)[0]] = true
	}
	if len(begins) != len(want) {
		t.Errorf("a hundred epochs begin with %v", begins)
	}
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
			if slices.Sort(got); !slices.Equal(got, c.want) {
				t.Errorf("%s, seed %d: %v, want %v", name, seed, got, c.want)
			}
		}
	}
}

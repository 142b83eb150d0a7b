package plan_test

import (
	"fmt"

	"github.com/imgfeed/imgfeed/loader/plan"
)

// batches prints what each rank of a world is served.
func batches(cfg plan.Config) {
	for rank := range cfg.World {
		cfg.Rank = rank
		p, err := plan.New(cfg)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("rank %d:", rank)
		for b := range p.Batches() {
			fmt.Print(" ", p.Batch(b, nil))
		}
		fmt.Println()
	}
}

// Ten samples go to two ranks in batches of two. Stopped after the first batch, when four samples are consumed, the epoch
// is finished by three ranks: no sample comes twice, none is left out.
func Example() {
	cfg := plan.Config{Samples: 10, Partitions: 2, World: 2, BatchSize: 2}
	batches(cfg)
	cfg.World, cfg.Consumed = 3, 4
	batches(cfg)
	// Output:
	// rank 0: [0 2] [4 6] [8]
	// rank 1: [1 3] [5 7] [9]
	// rank 0: [4 7]
	// rank 1: [5 8]
	// rank 2: [6 9]
}

// Ten samples do not go evenly into three ranks; the policy says what becomes of the rest.
func ExamplePolicy() {
	for _, policy := range []plan.Policy{plan.Pad, plan.DropLast, plan.Uneven} {
		fmt.Println(policy)
		batches(plan.Config{Samples: 10, World: 3, BatchSize: 2, Policy: policy})
	}
	// Output:
	// pad
	// rank 0: [0 3] [6 9]
	// rank 1: [1 4] [7 0]
	// rank 2: [2 5] [8 1]
	// drop_last
	// rank 0: [0 3]
	// rank 1: [1 4]
	// rank 2: [2 5]
	// uneven
	// rank 0: [0 3] [6 9]
	// rank 1: [1 4] [7]
	// rank 2: [2 5] [8]
}

// A shuffled plan depends on the fingerprint, the seed and the epoch only.
func ExamplePlan() {
	for epoch := range 2 {
		batches(plan.Config{Fingerprint: "e2ad6e99", Samples: 8, World: 1, BatchSize: 4, Shuffle: true, Seed: 1, Epoch: epoch})
	}
	// Output:
	// rank 0: [1 4 2 6] [3 0 5 7]
	// rank 0: [3 7 1 4] [6 2 5 0]
}

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

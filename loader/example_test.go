package loader_test

import (
	"context"
	"fmt"
	"io"

	"github.com/imgfeed/imgfeed/loader"
	"github.com/imgfeed/imgfeed/loader/plan"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/transform"
)

// An epoch of a set: two threads prepare batches in two slots, and the consumer takes them in order.
func Example() {
	if err := epoch("../shard/testdata/v1/train-shards"); err != nil {
		fmt.Println(err)
	}
	// Output:
	// batch 0: samples [2 1], labels [0 1], 6144 bytes of pixels
	// batch 1: samples [0 3], labels [0 1], 6144 bytes of pixels
	// batch 2: samples [4], labels [1], 3072 bytes of pixels
}

func epoch(dir string) error {
	shards, err := shard.OpenSet(dir)
	if err != nil {
		return err
	}
	defer shards.Close()
	set, err := loader.FromShards(shards)
	if err != nil {
		return err
	}
	spec, err := transform.Parse(`[{"op": "RandomResizedCrop", "size": 32}, {"op": "RandomHorizontalFlip"}]`)
	if err != nil {
		return err
	}
	order, err := plan.New(plan.Config{
		Fingerprint: shards.Manifest().Fingerprint, Samples: shards.Len(), Partitions: shards.Partitions(), BatchSize: 2, Shuffle: true, Seed: 1,
	})
	if err != nil {
		return err
	}
	pool := loader.NewPool(loader.PoolConfig{Threads: 2})
	defer pool.Close()
	slots := loader.NewSlotPool(loader.NewSlot(0, 2, transform.Views{spec}), loader.NewSlot(1, 2, transform.Views{spec}))
	stream, err := pool.NewStream(loader.StreamConfig{Dataset: set, Plan: order, Views: transform.Views{spec}, Layout: transform.NCHW, Slots: slots})
	if err != nil {
		return err
	}
	defer stream.Close()
	for {
		batch, err := stream.Next(context.Background())
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		n := batch.Count
		fmt.Printf("batch %d: samples %v, labels %v, %d bytes of pixels\n", batch.Number, batch.Slot.Indices[:n], batch.Slot.Labels[:n], n*spec.OutputBytes())
		slots.Put(batch.Slot)
	}
}

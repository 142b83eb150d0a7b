package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/imgfeed/imgfeed/cmd/internal/cliutil"
	"github.com/imgfeed/imgfeed/cmd/internal/seed"
	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/encoding/registry"
	"github.com/imgfeed/imgfeed/shard/pack"
)

const repackHelp = `Make another set of the samples of one that keeps the original files: as pixels, in other partitions, or in another order.

The set is what imgshard build makes of the original files with the same flags, to the byte. Partitions and seed are those
of SET unless given; with both the same, batches hold the same samples, and a checkpoint of the one goes on with the other.`

// repackFlags are the flags of imgshard repack.
type repackFlags struct {
	out        string
	partitions int
	seed       uint64
	size       bytesize.Size
	jobs       int
	force      bool
	encoding   *registry.Flags
}

func newRepackCommand() *cobra.Command {
	f := repackFlags{size: shard.ShardBytesDefault}
	c := &cobra.Command{
		Use:     "repack SET -o OUT",
		Short:   "Make another set of the samples of a set of original files",
		Long:    repackHelp,
		Example: "  imgshard repack /data/train-shards -o /nvme/train-pixels --resize 256",
		Args:    usageArgs(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			return runRepack(c, c.OutOrStdout(), c.ErrOrStderr(), args[0], f)
		},
	}
	fl := c.Flags()
	fl.StringVarP(&f.out, "output", "o", "", "where the new set shall stand")
	f.encoding = registry.AddFlags(fl, true)
	fl.IntVar(&f.partitions, "partitions", 0, "deal the samples to this many partitions (default as SET)")
	fl.Var((*seed.Packs)(&f.seed), "seed", "seed of the order of the samples (default as SET)")
	fl.Var(&f.size, "shard-size", shardSizeUsage)
	fl.IntVarP(&f.jobs, "jobs", "j", 0, "workers (default one for each CPU)")
	fl.BoolVar(&f.force, "force", false, "replace a finished set")
	return c
}

func runRepack(c *cobra.Command, stdout, stderr io.Writer, path string, f repackFlags) error {
	given := c.Flags().Changed
	switch {
	case f.out == "":
		return usageError{errors.New("repack needs -o OUT, where the new set shall stand")}
	case given("partitions") && (f.partitions < 1 || f.partitions > shard.PartitionsMax):
		return usageError{fmt.Errorf("--partitions %d: from 1 to %d partitions can be made", f.partitions, shard.PartitionsMax)}
	}
	for _, err := range []error{checkJobs(f.jobs), checkShardSize(f.size), cliutil.Output("--output", f.out)} {
		if err != nil {
			return usageError{err}
		}
	}
	stored, err := f.encoding.Encoding(false)
	if err != nil {
		return usageError{err}
	}
	set, err := openSet(path)
	if err != nil {
		return err
	}
	defer set.Close()
	options := pack.Options{Partitions: set.Partitions(), Seed: set.Manifest().Seed, ShardBytes: int64(f.size), Jobs: f.jobs, Replace: f.force, Encoding: stored}
	if given("partitions") {
		options.Partitions = f.partitions
	}
	if given("seed") {
		options.Seed = f.seed
	}
	ctx, stop := untilHangup(c.Context())
	defer stop()
	show := newProgress(stderr)
	options.Progress = show.update
	summary, err := pack.Repack(ctx, set, f.out, options)
	show.finish()
	switch {
	case err == nil:
		printSummary(stdout, summary)
	case errors.Is(err, context.Canceled):
		err = errors.New("interrupted; the unfinished set is removed")
	}
	return err
}

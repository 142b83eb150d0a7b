package imgshard

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/imgfeed/imgfeed/cmd/internal/cliutil"
	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/encoding"
	"github.com/imgfeed/imgfeed/shard/encoding/registry"
	"github.com/imgfeed/imgfeed/shard/pack"
	"github.com/imgfeed/imgfeed/shard/source"
)

const repackHelp = `Make another set of the samples of one that keeps the original files: in another encoding, other partitions, or another order.

The set is what imgshard build makes of the original files with the same flags, to the byte. Partitions and seed are those
of SET unless given; with both the same, batches hold the same samples, and a checkpoint of the one goes on with the other.`

func newRepackCommand() *cobra.Command {
	var f packFlags
	var selected source.Selection
	c := &cobra.Command{
		Use:     "repack SET -o OUT",
		Short:   "Make another set of the samples of a set of original files",
		Long:    repackHelp,
		Example: "  imgshard repack /data/train-shards -o /nvme/train-pixels --resize 256",
		Args:    cobra.ExactArgs(1),
		RunE:    func(c *cobra.Command, args []string) error { return runRepack(c, args[0], f, selected) },
	}
	fl := c.Flags()
	f.register(fl, true)
	addForceFlag(fl, &f.force)
	fl.StringVarP(&f.out, "output", "o", "", "where the new set shall stand")
	fl.Var(cliutil.Int(&f.partitions, 1, shard.PartitionsMax), "partitions", "deal the samples to this many partitions (default as SET)")
	fl.Var(cliutil.Seed(&f.seed), "seed", "seed of the order of the samples (default as SET)")
	addJobsFlag(fl, &f.jobs, "workers (default one for each CPU)")
	addJSONFlag(c)
	addSelectFlags(fl, &selected, "keys or by their indices in SET, one a line")
	return c
}

func runRepack(c *cobra.Command, path string, f packFlags, selected source.Selection) error {
	if f.out == "" {
		return cliutil.Usagef("repack needs -o OUT, where the new set shall stand")
	}
	stored, err := f.encoding.Encoding(false)
	if err = cmp.Or(f.check(), err); err != nil {
		return cliutil.Usage(err)
	}
	set, err := openSet(c, path, false)
	if err != nil {
		return err
	}
	defer set.Close()
	if !c.Flags().Changed("partitions") {
		f.partitions = set.Partitions()
	}
	if !c.Flags().Changed("seed") {
		f.seed = set.Manifest().Seed
	}
	return withProgress(c.Context(), c.ErrOrStderr(), "the unfinished set is removed", func(ctx context.Context, show *progress) error {
		options := f.options(stored, show)
		options.Select = selected
		summary, err := pack.Repack(ctx, set, f.out, options)
		show.finish()
		if err == nil {
			printSelection(c.ErrOrStderr(), selected)
			printSummary(c, summary, show.took())
		}
		return err
	})
}

// shardBytesMin keeps a slip of the unit from making a million files.
const shardBytesMin = bytesize.Size(1 << 20)

// jobsMax is far more than helps with the slowest source. A larger number is a slip that would take all of a machine's memory.
const jobsMax = 4096

// addJobsFlag adds the number of workers, by default one for each CPU.
func addJobsFlag(fl *pflag.FlagSet, jobs *int, usage string) {
	fl.VarP(cliutil.Int(jobs, 0, jobsMax), "jobs", "j", usage)
}

// packFlags are the flags that build and repack share.
type packFlags struct {
	out        string
	partitions int
	seed       uint64
	size       bytesize.Size
	jobs       int
	force      bool
	encoding   *registry.Flags
}

// register lists the flags with the same text in both commands.
func (f *packFlags) register(fl *pflag.FlagSet, repack bool) {
	f.size = shard.ShardBytesDefault
	f.encoding = registry.AddFlags(fl, repack)
	fl.Var(&f.size, "shard-size", fmt.Sprintf("limit of a shard, e.g. 256MB or 1GiB; it has at most %s samples", bytesize.Grouped(shard.ShardSamplesMax)))
}

func addForceFlag(fl *pflag.FlagSet, force *bool) {
	fl.BoolVar(force, "force", false, "replace a finished set")
}

// check refuses values that cannot be meant.
func (f *packFlags) check() error {
	if f.size < shardBytesMin {
		return fmt.Errorf("--shard-size %v: a shard has at least 1MiB", &f.size)
	}
	return cliutil.Writable("--output", f.out)
}

// options returns the packer's options.
func (f *packFlags) options(stored encoding.Encoding, show *progress) pack.Options {
	return pack.Options{
		Partitions: f.partitions, Seed: f.seed, ShardBytes: int64(f.size), Jobs: f.jobs, Replace: f.force, Encoding: stored, Progress: show.update,
	}
}

package imgshard

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/imgfeed/imgfeed/cmd/internal/cliutil"
	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/encoding"
	"github.com/imgfeed/imgfeed/shard/encoding/registry"
	"github.com/imgfeed/imgfeed/shard/pack"
	"github.com/imgfeed/imgfeed/shard/storage"
)

const repackHelp = `Make a new set from one that keeps the original files, with another encoding, other partitions, or another order.

The result equals that of imgshard build with the original files and the same flags, byte for byte. Partitions and seed
default to those of SET. If both are the same, batches hold the same samples, and checkpoints work with either set.`

func newRepackCommand() *cobra.Command {
	var f packFlags
	c := &cobra.Command{
		Use:     "repack SET -o OUT",
		Short:   "Change the encoding, partitions or order of a set",
		Long:    repackHelp,
		Example: "  imgshard repack /data/train-shards -o /nvme/train-pixels --resize 256",
		Args:    cobra.ExactArgs(1),
		RunE:    func(c *cobra.Command, args []string) error { return runRepack(c, args[0], f) },
	}
	f.register(c, "", " (default as SET)")
	f.registerEncoding(c.Flags(), true)
	addSelectFlags(c.Flags(), &f.Select)
	return c
}

func runRepack(c *cobra.Command, path string, f packFlags) error {
	if f.out == "" {
		return cliutil.Usagef("repack needs an output folder: -o OUT")
	}
	stored, err := f.chooseEncoding(false)
	if err = cmp.Or(f.check(), err); err != nil {
		return cliutil.Usage(err)
	}
	set, err := openSet(c, path)
	if err != nil {
		return err
	}
	defer set.Close()
	if !c.Flags().Changed("partitions") {
		f.Partitions = set.Partitions()
	}
	if !c.Flags().Changed("seed") {
		f.Seed = set.Manifest().Seed
	}
	return withProgress(c.Context(), c.ErrOrStderr(), "the unfinished set is removed", func(ctx context.Context, show *progress) error {
		f.Encoding, f.Progress = stored, show.update
		summary, err := pack.Repack(ctx, set, f.out, f.Options)
		show.finish()
		if err == nil {
			printSelection(c.ErrOrStderr(), f.Select)
			printSummary(c, summary, show)
		}
		return err
	})
}

// shardBytesMin prevents that a wrong unit makes a million files.
const shardBytesMin = 1 << 20

// jobsMax exceeds the useful number of workers for the slowest source. A larger number is a typing error that would exhaust the memory.
const jobsMax = 4096

// addJobsFlag adds the flag --jobs.
func addJobsFlag(fl *pflag.FlagSet, jobs *int, usage string) {
	fl.VarP(cliutil.Int(jobs, 0, jobsMax), "jobs", "j", usage)
}

// packFlags are the flags that build and repack share.
type packFlags struct {
	pack.Options
	out      string
	encoding string             // name of an encoding
	values   map[string]*string // values of the encodings' options, by name
}

// register lists the flags of all commands that pack; output and asSet say the defaults.
func (f *packFlags) register(c *cobra.Command, output, asSet string) {
	fl := c.Flags()
	f.ShardBytes = shard.ShardBytesDefault
	fl.StringVarP(&f.out, "output", "o", "", "output folder"+output)
	fl.Var(cliutil.Int(&f.Partitions, 1, shard.PartitionsMax), "partitions", "number of partitions; a rank needs only its own"+asSet)
	fl.Var(cliutil.Seed(&f.Seed), "seed", "seed of the order of the samples"+asSet)
	addJobsFlag(fl, &f.Jobs, "number of workers (default one for each CPU; use more if the source is slow)")
	addForceFlag(fl, &f.Replace)
	addJSONFlag(c)
}

// registerEncoding lists the flags of commands that store images, with one for each option of an encoding. repack chooses the lossless
// encoding by default.
func (f *packFlags) registerEncoding(fl *pflag.FlagSet, repack bool) {
	defaults := fmt.Sprintf(" (default %s; %s for small images)", registry.Methods()[0].Name, registry.Lossless().Name)
	if repack {
		f.encoding, defaults = registry.Lossless().Name, ""
	}
	var choices []string
	f.values = map[string]*string{}
	for _, m := range registry.Methods() {
		choices = append(choices, m.Name+" ("+m.Summary+")")
		for _, o := range m.Options {
			f.values[o.Name] = fl.String(o.Name, "", m.Name+": "+o.Help)
		}
	}
	last := len(choices) - 1
	fl.StringVar(&f.encoding, "encoding", f.encoding,
		"how images are stored: "+strings.Join(choices[:last], ", ")+" or "+choices[last]+defaults)
	usage := fmt.Sprintf("limit of a shard, e.g. 256MB or 1GiB; at most %s samples", bytesize.Grouped(shard.ShardSamplesMax))
	fl.Var((*bytesize.Size)(&f.ShardBytes), "shard-size", usage)
}

// chooseEncoding returns the encoding for a source with small images, or with others.
func (f *packFlags) chooseEncoding(small bool) (encoding.Encoding, error) {
	values := map[string]string{}
	for name, value := range f.values {
		values[name] = *value
	}
	return registry.Choose(f.encoding, values, small)
}

func addForceFlag(fl *pflag.FlagSet, force *bool) {
	fl.BoolVar(force, "force", false, "replace a finished set")
}

// check refuses invalid values.
func (f *packFlags) check() error {
	if f.ShardBytes < shardBytesMin {
		return fmt.Errorf("--shard-size %v: a shard has at least 1MiB", (*bytesize.Size)(&f.ShardBytes))
	}
	return cliutil.Writable("--output", f.out)
}

const copyHelp = `Copy a set, or all sets of a folder, from folders, buckets (s3://bucket/prefix) or web servers to folders or buckets.

Checksums are checked on the way. Files that B already has are kept if their checksums are right, so copying an intact
set over a damaged one repairs it. The manifest is written last: B never holds a partial set. After an interruption, the
same command continues with the unfinished file.`

func newCopyCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "copy A B",
		Short:   "Copy a set to another folder or a bucket",
		Long:    copyHelp,
		Example: "  imgshard copy /data/imagenet s3://bucket/imagenet\n  imgshard copy s3://bucket/imagenet/val /nvme/val",
		Args:    cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			const resume = "the same command continues from here"
			return withProgress(c.Context(), c.ErrOrStderr(), resume, func(ctx context.Context, show *progress) error {
				sets, err := shard.FindSets(args[0])
				if err != nil {
					return err
				}
				for _, split := range slices.Sorted(maps.Keys(sets)) {
					from, to := sets[split], args[1]
					if from != args[0] {
						to = storage.Join(to, split)
					}
					began := time.Now()
					copied, err := shard.Copy(ctx, from, to, func(done, total int64) {
						show.update(pack.Progress{Split: split, Stage: "copying", Bytes: done, Total: total})
					})
					show.finish()
					if err != nil {
						return err
					}
					fmt.Fprintf(outcome(c), "%s: %s copied, %s kept; %s in %.1f s, at %s\n",
						split, bytesize.Counted(copied.Files, "file", "files"), bytesize.Grouped(copied.Kept),
						bytesize.Format(copied.Bytes), time.Since(began).Seconds(), to)
				}
				return nil
			})
		},
	}
}

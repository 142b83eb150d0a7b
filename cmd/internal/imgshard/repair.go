package imgshard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/imgfeed/imgfeed/cmd/internal/cliutil"
	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/pack"
	"github.com/imgfeed/imgfeed/shard/source"
)

const repairHelp = `Put back what is damaged in the shard set SET, from the originals or from another set.

SRC is what SET was built from, with the same flags that say what looking at it cannot tell (--classes, --field, …); or a set of the same
samples: a copy of SET, or one that keeps the original files.

SET is verified first. Damaged records are taken from SRC by their keys, made again by the settings that the set was built with, and
proved by the checksums that were stored when it was built. A shard that is missing, cut short, or whose index is damaged, is made anew
altogether. Each shard is written beside the damaged one and put in its place by a rename, so that the set is, to the byte, what the build had
written; it may be interrupted at any moment. A server takes it up by imgfeed reload.

What cannot be repaired is listed, and stays as it was; the exit status is 1 then. A partition whose folder is not here is not
repaired: copy it.`

// repairFlags are the flags of imgshard repair.
type repairFlags struct {
	from    []string
	jobs    int
	sources source.Options
}

func newRepairCommand() *cobra.Command {
	var f repairFlags
	c := &cobra.Command{
		Use:   "repair SET --from SRC",
		Short: "Put back what is damaged in a shard set",
		Long:  repairHelp,
		Example: "  imgshard repair /nvme/train-shards --from /data/train\n" +
			"  imgshard repair /nvme/train-shards --from /backup/train-shards && imgfeed reload",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return runRepair(c, args[0], f)
		},
	}
	fl := c.Flags()
	fl.StringArrayVar(&f.from, "from", nil, "the originals, or another set; more than once for several files of one dataset, as for build")
	addJobsFlag(fl, &f.jobs, "workers (default one for each CPU)")
	addSourceFlags(fl, &f.sources)
	return c
}

func runRepair(c *cobra.Command, path string, f repairFlags) error {
	switch {
	case len(f.from) == 0:
		return cliutil.Usagef("repair needs --from SRC, where the originals are")
	case slices.Contains(f.from, source.StandardInput):
		return cliutil.Usagef("--from cannot be standard input, which is read once: name a file or folder")
	}
	for _, from := range f.from {
		if err := cliutil.Local("--from", from); err != nil {
			return cliutil.Usage(err)
		}
	}
	if err := checkSourceFlags(f.sources); err != nil {
		return cliutil.Usage(err)
	}
	dir, err := setDir(path)
	if err != nil {
		return err
	}
	m, err := shard.ReadManifest(dir)
	if err != nil {
		return err
	}
	from, err := openOriginals(f, m.Split, dir)
	if err != nil {
		return err
	}
	if from.Set != nil {
		defer from.Set.Close()
	}
	var report pack.RepairReport
	err = withProgress(c.Context(), c.ErrOrStderr(), "what was put back so far stays, and the rest is as it was", func(ctx context.Context, show *progress) (err error) {
		report, err = pack.Repair(ctx, dir, from, pack.RepairOptions{
			Jobs: f.jobs, Progress: show.update, Problem: func(err error) { fmt.Fprintln(c.ErrOrStderr(), "found:", finding(err)) },
		})
		return err
	})
	printRepair(c.OutOrStdout(), c.ErrOrStderr(), dir, &report, err == nil)
	if err == nil && len(report.Whole) < report.Damaged {
		err = fmt.Errorf("%s: %s damaged still", dir, bytesize.Counted(report.Damaged-len(report.Whole), "shard is", "shards are"))
	}
	return err
}

// finding returns an error's text without the advice to repair it.
func finding(err error) string {
	if damage, ok := errors.AsType[*shard.CorruptError](err); ok {
		return damage.Finding()
	}
	return err.Error()
}

// printRepair prints what was repaired and what could not be.
func printRepair(out, diag io.Writer, dir string, report *pack.RepairReport, finished bool) {
	if report.Damaged == 0 && finished {
		fmt.Fprintf(out, "%s: every checksum is right, and nothing is to be repaired\n", dir)
	}
	for _, left := range report.Left {
		fmt.Fprintln(diag, "not repaired:", left)
	}
	if report.Damaged > 0 {
		fmt.Fprintf(out, "%s: %s put back, %d of %s as built\n", dir, bytesize.Counted(report.Records, "record", "records"), len(report.Whole),
			bytesize.Counted(report.Damaged, "damaged shard is", "damaged shards are"))
	}
}

// openOriginals finds where the samples of a split come from: a set, as much of it as is whole, or a split of a source.
func openOriginals(f repairFlags, split, damaged string) (pack.Originals, error) {
	if len(f.from) == 1 {
		if sets, err := shard.FindSets(f.from[0]); err == nil {
			dir := sets[split]
			if dir == "" {
				return pack.Originals{}, fmt.Errorf("%s has no set of the split %s", f.from[0], split)
			}
			if same, err := sameFolder(dir, damaged); err != nil || same {
				return pack.Originals{}, errors.Join(err, cliutil.Usagef("--from %s is the set that is to be repaired", f.from[0]))
			}
			set, err := shard.OpenWhole(dir, nil)
			return pack.Originals{Set: set}, err
		}
	}
	splits, err := source.OpenAll(f.from, f.sources)
	if err != nil {
		return pack.Originals{}, err
	}
	var names []string
	for _, s := range splits {
		if s.Name == split || len(splits) == 1 {
			return pack.Originals{Split: s}, nil
		}
		names = append(names, s.Name)
	}
	return pack.Originals{}, fmt.Errorf("%s has the splits %s, and the set is of %s", strings.Join(f.from, " "), strings.Join(names, ", "), split)
}

func sameFolder(a, b string) (bool, error) {
	x, errX := filepath.EvalSymlinks(a)
	y, errY := filepath.EvalSymlinks(b)
	return x == y, errors.Join(errX, errY)
}

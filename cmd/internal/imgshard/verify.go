package imgshard

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/imgfeed/imgfeed/cmd/internal/cliutil"
	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/encoding"
	"github.com/imgfeed/imgfeed/shard/encoding/registry"
	"github.com/imgfeed/imgfeed/shard/pack"
)

func newVerifyCommand() *cobra.Command {
	var jobs int
	var images, complete bool
	cmd := &cobra.Command{
		Use:   "verify SET",
		Short: "Check every checksum of a shard set",
		Long: `Read every byte of the shard set SET, or of all sets in the folder SET, and check all checksums, the order of the samples,
and the fingerprint.

Each missing file and each damaged record or section is reported on stderr, with file, record and offset; the exit status
is then 1. Partitions missing on this machine are not verified.

Checksums detect damage. --images also decodes each image, and compares the row index of each JPEG with a new one: for
sets from sources that you do not trust.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return verifyAll(cmd, args[0], func(dir string) error { return verify(cmd, dir, jobs, images, complete) })
		},
	}
	addJobsFlag(cmd.Flags(), &jobs, "number of shards to read in parallel (default one for each CPU)")
	cmd.Flags().BoolVar(&images, "images", false, "also decode every image, and compare its size and row index with the stored ones")
	cmd.Flags().BoolVar(&complete, "complete", false, "fail if a partition is missing on this machine")
	addJSONFlag(cmd)
	return cmd
}

// verifyAll verifies every set at path, even if one has errors.
func verifyAll(cmd *cobra.Command, path string, verify func(dir string) error) error {
	found, err := shard.FindAll(path)
	if err != nil {
		return err
	}
	errs := []error{found.Err()}
	for _, dir := range slices.Sorted(maps.Values(found.Sets)) {
		if err := verify(dir); err != nil {
			errs = append(errs, err)
		}
		if err := cmd.Context().Err(); err != nil {
			return err
		}
	}
	return errors.Join(errs...)
}

// A verifiedSet is the JSON about a set that was verified.
type verifiedSet struct {
	setFacts
	Read     int      `json:"read"` // samples that were read
	Bytes    int64    `json:"bytes"`
	Missing  []int    `json:"missing"`  // partitions
	Problems []string `json:"problems"` // each names file, record and offset
	Seconds  float64  `json:"seconds"`
}

// verify verifies the set in dir. It prints each problem to stderr and a summary to stdout.
func verify(cmd *cobra.Command, dir string, jobs int, images, complete bool) error {
	out, diag, problems := outcome(cmd), cmd.ErrOrStderr(), []string{}
	options := shard.VerifyOptions{Jobs: jobs}
	m, err := shard.ReadManifest(dir)
	if err != nil {
		return err
	}
	if images {
		stored, err := registry.Open(m.Encoding)
		if err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
		options.NewCheck = func() func(*shard.Record) error { return encoding.NewWorker(stored).Check }
	}
	show := newProgress(diag)
	options.Progress = func(done, total int64) {
		show.update(pack.Progress{Split: dir, Stage: "verifying", Bytes: done, Total: total})
	}
	options.Problem = func(err error) {
		show.finish()
		problems = append(problems, err.Error())
		fmt.Fprintln(diag, "imgshard:", err)
	}
	began := time.Now()
	result, err := shard.Verify(cmd.Context(), dir, options)
	show.finish()
	if err != nil {
		return err
	}
	if wantsJSON(cmd) {
		out = io.Discard
		cliutil.PrintJSON(cmd.OutOrStdout(), verifiedSet{
			setFacts: factsOf(m, dir), Read: result.Samples, Bytes: result.Bytes,
			Missing: append([]int{}, result.Missing...), Problems: problems, Seconds: time.Since(began).Seconds(),
		})
	}
	if n := len(result.Missing); n > 0 {
		fmt.Fprintf(out, "%s: %s not on this machine, and not verified: %s\n", dir,
			bytesize.Counted(n, "partition is", "partitions are"), shard.PartitionNames(result.Missing))
	}
	fmt.Fprintf(out, "%s: read %s in %s, %s, in %.1f s\n", dir, bytesize.Counted(result.Samples, "sample", "samples"),
		bytesize.Counted(result.Shards, "shard", "shards"), bytesize.Format(result.Bytes), time.Since(began).Seconds())
	if result.Problems > 0 {
		return fmt.Errorf("%s: problems found: %d", dir, result.Problems)
	}
	fmt.Fprintf(out, "%s: every checksum is right\n", dir)
	if n := len(result.Missing); complete && n > 0 {
		return fmt.Errorf("%s: incomplete: %s missing: copy %s",
			dir, bytesize.Counted(n, "partition is", "partitions are"), shard.PartitionNames(result.Missing))
	}
	if images {
		fmt.Fprintf(out, "%s: every image decodes, and matches its entry\n", dir)
	}
	return nil
}

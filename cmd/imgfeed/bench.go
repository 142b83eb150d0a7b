package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/resample"
	"github.com/imgfeed/imgfeed/loader"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/transform"
)

// benchFlags are the flags of imgfeed bench.
type benchFlags struct {
	transform string
	split     string
	layout    string
	threads   int
	batch     int
	seconds   float64
	warmUp    float64
	seed      int64
	json      bool
	bitExact  bool
	resampler resample.Algorithm
}

func newBenchCommand() *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "bench DATA",
		Short: "Measure reading, decoding and transforming, without a client",
		Long: `Serve the samples of a shard set, shuffled and over and over, in batches that nobody looks at, and say how many
images a second that makes, what CPU time it takes, and how the workers spend theirs.

DATA is a shard set or a folder that holds sets. --transform takes a preset (` + strings.Join(transform.Presets(), ", ") + `), a JSON list of
operations, or "full", which decodes whole images and does nothing with them.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runBench(cmd, args[0], &f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.transform, "transform", "eval", "preset, JSON list of operations, or full")
	flags.StringVar(&f.split, "split", "", "split to measure, if DATA holds several")
	flags.StringVar(&f.layout, "layout", "NHWC", "layout of the batches, NHWC or NCHW")
	flags.IntVar(&f.threads, "threads", 0, "number of decoding threads (default one for each processor)")
	flags.IntVar(&f.batch, "batch", 256, "samples in a batch")
	flags.Float64Var(&f.seconds, "seconds", 5, "time to measure for")
	flags.Float64Var(&f.warmUp, "warm-up", 0, "seconds to work before that (default a quarter of --seconds); the first time a sample is read costs more")
	flags.Int64Var(&f.seed, "seed", 0, "seed of the order and of the random parameters")
	flags.BoolVar(&f.bitExact, "bit-exact", false, "refuse a transform whose results from the stored images are not those of the originals")
	flags.TextVar(&f.resampler, "resampler", resample.Pillow13, resamplerUsage+", for operations that name none")
	flags.BoolVar(&f.json, "json", false, "print the result as one JSON object")
	return cmd
}

func runBench(cmd *cobra.Command, data string, f *benchFlags) error {
	cfg := loader.BenchConfig{
		Threads: f.threads, BatchSize: f.batch, Seed: f.seed, BitExact: f.bitExact,
		Duration: time.Duration(f.seconds * float64(time.Second)), WarmUp: time.Duration(f.warmUp * float64(time.Second)),
	}
	if f.threads < 0 || f.threads > threadsMax || f.batch < 1 || !(f.seconds > 0) || !(f.warmUp >= 0) {
		return usageError{fmt.Errorf("--threads, --batch, --seconds and --warm-up must be positive, and there are %d threads at most", threadsMax)}
	}
	var err error
	if f.transform != "full" {
		if cfg.Spec, err = transform.ParseWith(f.transform, f.resampler); err != nil {
			return usageError{fmt.Errorf("--transform: %w", err)}
		}
	}
	switch strings.ToUpper(f.layout) {
	case "NHWC":
	case "NCHW":
		cfg.Layout = resample.NCHW
	default:
		return usageError{fmt.Errorf("--layout: unknown layout %q, want NHWC or NCHW", f.layout)}
	}
	dir, err := chooseSet(data, f.split)
	if err != nil {
		return err
	}
	if cfg.Set, err = shard.OpenSet(dir); err != nil {
		return err
	}
	defer cfg.Set.Close()
	result, err := loader.Bench(cmd.Context(), cfg)
	if err != nil {
		return err
	}
	if f.json {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(result)
	}
	printBench(cmd.OutOrStdout(), dir, &result)
	if notice := kernel.Notice(); notice != "" {
		fmt.Fprintln(cmd.OutOrStdout(), notice)
	}
	return nil
}

// chooseSet returns the folder of the set that is meant: the named split's, the only one, or train's.
func chooseSet(data, split string) (string, error) {
	found, err := shard.FindAll(data)
	if err != nil {
		return "", err
	}
	sets := found.Sets
	if len(sets) == 0 {
		return "", found.Err()
	}
	if split != "" {
		if dir, ok := sets[split]; ok {
			return dir, nil
		}
		return "", fmt.Errorf("%s has no split %q", data, split)
	}
	if dir, ok := sets["train"]; ok || len(sets) > 1 {
		if !ok {
			return "", fmt.Errorf("%s holds %d splits; choose one by --split", data, len(sets))
		}
		return dir, nil
	}
	for _, dir := range sets {
		return dir, nil
	}
	return "", fmt.Errorf("%s holds no set", data)
}

func printBench(w io.Writer, dir string, r *loader.BenchResult) {
	fmt.Fprintf(w, "%s (%s), %s kernels, %d threads, batches of %d %s\n", dir, r.Stored, r.Kernels, r.Threads, r.BatchSize, r.Layout)
	fmt.Fprintf(w, "transform           %s\n", r.Transform)
	for _, note := range r.Notes {
		fmt.Fprintf(w, "note                %s\n", note)
	}
	fmt.Fprintf(w, "images per second   %.0f\n", r.ImagesPerSecond)
	fmt.Fprintf(w, "measured            %d images in %.2f s, %.1f MB read\n", r.Images, r.Seconds, float64(r.BytesRead)/1e6)
	fmt.Fprintf(w, "CPU seconds         %.2f (%.0f images in each)\n", r.CPUSeconds, r.ImagesPerCPU)
	images := float64(max(r.Images, 1))
	for _, stage := range []struct {
		name    string
		seconds float64
	}{{"read", r.Stages.Read}, {"decode", r.Stages.Decode}, {"resample", r.Stages.Resample}, {"wait", r.Stages.Wait}} {
		fmt.Fprintf(w, "  %-9s seconds %.2f (%.1f µs an image)\n", stage.name, stage.seconds, stage.seconds/images*1e6)
	}
}

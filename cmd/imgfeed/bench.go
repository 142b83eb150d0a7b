package main

import (
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/imgfeed/imgfeed/cmd/internal/cliutil"
	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/internal/image/resample"
	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/memory"
	"github.com/imgfeed/imgfeed/loader/plan"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/storage"
	"github.com/imgfeed/imgfeed/transform"
)

// benchFlags are the flags of imgfeed bench.
type benchFlags struct {
	store     storeFlags
	config    benchConfig
	transform string
	split     string
	json      bool
	gpuRate   float64
	resampler resample.Algorithm
}

func newBenchCommand() *cobra.Command {
	f := benchFlags{config: benchConfig{BatchSize: 256, Duration: 5 * time.Second}}
	cmd := &cobra.Command{
		Use:   "bench SET",
		Short: "Measure reading, decoding and transforming, without a client",
		Long: `Measure the server's work without a client: make batches of a shard set in random order, and show the images per second,
the CPU time, and the time that the decoding threads spend in each stage.

SET is a shard set, a folder with sets, or a dataset that is not packed, as for imgfeed serve. --transform takes a preset
(` + strings.Join(transform.Presets(), ", ") + `), a JSON list of operations, or "full", which decodes whole images and
discards them.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd, args[0])
		},
	}
	f.register(cmd.Flags())
	return cmd
}

// register lists the flags.
func (f *benchFlags) register(flags *pflag.FlagSet) {
	c := &f.config
	flags.StringVar(&f.transform, "transform", "eval", "preset, JSON list of operations, {\"views\": […]}, or full")
	flags.StringVar(&f.split, "split", "", "split to measure, if SET holds several")
	flags.Var(layoutFlag(&c.Layout), "layout", "layout of the batches, NHWC or NCHW")
	flags.Var(cliutil.Int(&c.Threads, 0, threadsMax), "threads", "number of decoding threads (default one for each CPU)")
	flags.Var(cliutil.Int(&c.BatchSize, 1, plan.BatchSizeMax), "batch-size", "samples in a batch")
	flags.Var(durationFlag(&c.Duration, time.Millisecond), "seconds", "length of the measurement")
	flags.Var(durationFlag(&c.WarmUp, 0), "warm-up", "time to run before the measurement (default a quarter of --seconds)")
	flags.Var(cliutil.Seed(&c.Seed), "seed", "seed of the order and of the random parameters")
	flags.BoolVar(&c.BitExact, "bit-exact", false, bitExactHelp)
	flags.TextVar(&f.resampler, "resampler", resample.Pillow13, resamplerUsage+"; default for operations")
	f.store.register(flags)
	flags.Float64Var(&f.gpuRate, "gpu-rate", 0, "images/s of one GPU, from your training's log: print how many GPUs this machine feeds")
	flags.BoolVar(&f.json, "json", false, "print the result as one JSON object")
}

func (f *benchFlags) run(cmd *cobra.Command, path string) error {
	closeStore, err := f.store.open(cmd.Context())
	if err != nil {
		return err
	}
	defer closeStore()
	c := f.config
	if cmd.Flags().Changed("gpu-rate") && !(f.gpuRate > 0) {
		return cliutil.Usagef("--gpu-rate %v: want a number above 0", f.gpuRate)
	}

	if f.transform != "full" {
		if c.Views, err = transform.ParseViews(f.transform, f.resampler); err != nil {
			return cliutil.Usagef("--transform: %w", err)
		}
	}
	// Without a limit the batches would end in an obscure error, once the memory is exhausted.
	need, limit := int64(benchSlotsMin)*int64(c.BatchSize)*int64(c.Views.OutputBytes()), memory.OfMachine()/2
	if need > limit {
		return cliutil.Usagef("--batch-size %d: %d such batches take %s, and half of the memory is %s",
			c.BatchSize, benchSlotsMin, bytesize.Format(need), bytesize.Format(limit))
	}
	x := indexer{client: f.store.client, log: slog.Default(), progress: cmd.ErrOrStderr()}
	if path, err = x.set(cmd.Context(), absolute(path)); err != nil {
		return err
	}
	if c.Set, err = openChosen(f.store.client, path, f.split); err != nil {
		return err
	}
	defer c.Set.Close()
	c.Reading = giveProcessors(0)
	result, err := measure(cmd.Context(), c)
	if err != nil {
		return err
	}
	result.Notes = append(x.notes, result.Notes...)
	if f.json {
		return cliutil.PrintJSON(cmd.OutOrStdout(), result)
	}
	printBench(cmd.OutOrStdout(), c.Set.Dir(), &result)
	if notice := kernel.Notice(); notice != "" {
		fmt.Fprintln(cmd.OutOrStdout(), notice)
	}
	if f.gpuRate > 0 {
		fmt.Fprintf(cmd.OutOrStdout(), "feeds %.1f GPUs that take %v images/s each\n", result.ImagesPerSecond/f.gpuRate, f.gpuRate)
	}
	return nil
}

// openChosen opens the chosen set, which must be whole.
func openChosen(client *storage.Client, path, split string) (*shard.Set, error) {
	found, err := shard.FindIn(client, path)
	if err == nil && len(found.Sets) == 0 {
		err = found.Err()
	}
	if err == nil {
		split, err = chooseSplit(path, split, slices.Sorted(maps.Keys(found.Sets)))
	}
	if err != nil {
		return nil, err
	}
	set, err := found.Open(split, nil)
	if err == nil && set.Err() != nil {
		set.Close()
		return nil, set.Err()
	}
	return set, err
}

// chooseSplit chooses one of the splits at a path: the wanted one, the only one, or train.
func chooseSplit(path, wanted string, names []string) (string, error) {
	switch {
	case wanted != "" && slices.Contains(names, wanted):
		return wanted, nil
	case wanted != "":
		return "", fmt.Errorf("%s has no split %q, only %s", path, wanted, strings.Join(names, ", "))
	case len(names) == 1:
		return names[0], nil
	case slices.Contains(names, "train"):
		return "train", nil
	}
	return "", fmt.Errorf("%s holds %d splits, %s: choose one with --split", path, len(names), strings.Join(names, ", "))
}

func printBench(w io.Writer, dir string, r *benchResult) {
	threads := bytesize.Counted(r.Threads, "thread", "threads")
	fmt.Fprintf(w, "%s (%s), %s kernels, %s, batches of %d %s\n", dir, r.Encoding, r.Kernels, threads, r.BatchSize, r.Layout)
	fmt.Fprintf(w, "transform           %s\n", r.Transform)
	for _, note := range r.Notes {
		fmt.Fprintf(w, "note                %s\n", note)
	}
	fmt.Fprintf(w, "images per second   %s\n", bytesize.Rounded(r.ImagesPerSecond))
	fmt.Fprintf(w, "measured            %s in %.2f s, %s read\n",
		bytesize.Counted(int(r.Images), "image", "images"), r.Seconds, bytesize.Format(int64(r.BytesRead)))
	fmt.Fprintf(w, "CPU time            %.2f s of the whole process, %s images per CPU second\n", r.CPUSeconds,
		bytesize.Rounded(r.ImagesPerCPU))
	fmt.Fprintf(w, "time of the threads, in all and for an image\n")
	images := float64(max(r.Images, 1))
	for _, stage := range [][2]string{{"read", "read"}, {"decode", "decode"}, {"resample", "resample"}, {"wait", "wait for work"}} {
		seconds := r.Stages[stage[0]]
		fmt.Fprintf(w, "  %-17s %.2f s, %.1f µs\n", stage[1], seconds, seconds/images*1e6)
	}
}

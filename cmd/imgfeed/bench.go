package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/imgfeed/imgfeed/cmd/internal/cliutil"
	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/internal/image/resample"
	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/memory"
	"github.com/imgfeed/imgfeed/loader"
	"github.com/imgfeed/imgfeed/loader/plan"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/encoding/registry"
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

// benchSlotsMin is how many batches a measurement holds at least: one to finish, and two to go on with.
const benchSlotsMin = 3

// A benchConfig says what to measure.
type benchConfig struct {
	Set       *shard.Set
	Views     transform.Views // nil measures reading and decoding whole images, without a transform
	Layout    transform.Layout
	Threads   int // 0 means one for each processor
	BatchSize int
	Duration  time.Duration // length of the measurement
	WarmUp    time.Duration // length of the work before it; 0 means a quarter of Duration
	Seed      int64
	BitExact  bool                 // refuse to measure a transform that gives other results than on the original images
	Reading   func(processors int) // see loader.PoolConfig
}

// A benchResult is what was measured, warm-up excluded.
type benchResult struct {
	ImagesPerSecond float64            `json:"images_per_second"`
	CPUSeconds      float64            `json:"cpu_seconds"`           // user and system time of the process
	ImagesPerCPU    float64            `json:"images_per_cpu_second"` // on one core that does nothing else
	Seconds         float64            `json:"seconds"`               // time on the clock
	Images          int64              `json:"images"`
	BytesRead       int64              `json:"bytes_read"`    // stored bytes
	Stages          map[string]float64 `json:"stage_seconds"` // see loader.Counters.Seconds
	Threads         int                `json:"threads"`
	BatchSize       int                `json:"batch_size"`
	Transform       string             `json:"transform"`
	Encoding        string             `json:"encoding"` // encoding in words, including its codec and resize
	Layout          string             `json:"layout"`
	Kernels         string             `json:"kernels"`
	Notes           []string           `json:"notes,omitempty"` // sentences for the user
}

// A measurement serves samples of a set, drawn at random, in batches that nobody reads.
type measurement struct {
	benchConfig
	dataset *loader.Dataset
	order   *plan.Plan
	pool    *loader.Pool
}

// measure measures the engine alone. A bad sample is an error.
func measure(ctx context.Context, cfg benchConfig) (r benchResult, err error) {
	if cfg.WarmUp <= 0 {
		cfg.WarmUp = cfg.Duration / 4
	}
	m := measurement{benchConfig: cfg}
	if m.dataset, err = loader.FromShards(cfg.Set); err != nil {
		return r, err
	}
	if m.order, err = endlessPlan(cfg.Set, cfg.BatchSize, cfg.Seed); err != nil {
		return r, err
	}
	m.pool = loader.NewPool(loader.PoolConfig{Threads: cfg.Threads, Reading: cfg.Reading})
	defer m.pool.Close()
	r = benchResult{
		Threads: m.pool.Threads(), BatchSize: cfg.BatchSize, Encoding: registry.Describe(cfg.Set.Manifest().Encoding),
		Layout: cfg.Layout.String(), Kernels: transform.ActiveLevel().String(), Transform: "full",
	}
	work := func(ctx context.Context) error { return m.pool.DecodeWhole(ctx, m.dataset, m.order) }
	if cfg.Views != nil {
		note, err := loader.CheckBitExact(cfg.Set, cfg.Views, cfg.BitExact)
		if err != nil {
			return r, err
		}
		if note != "" {
			r.Notes = append(r.Notes, note)
		}
		r.Transform, work = cfg.Views.String(), m.serveBatches
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failed := make(chan error, 1)
	go func() { failed <- work(ctx) }()
	err = m.during(&r, failed)
	cancel()
	if err == nil {
		<-failed
	}
	return r, err
}

// during lets the work run until the time is over and an image is done, and counts the work after the warm-up.
func (m *measurement) during(r *benchResult, failed <-chan error) error {
	if err := m.wait(m.WarmUp, 0, failed); err != nil {
		return err
	}
	started, cpu, before := time.Now(), cpuSeconds(), m.pool.Counters()
	if err := m.wait(m.Duration, 1, failed); err != nil {
		return err
	}
	done := m.pool.Counters().Sub(before)
	r.Seconds, r.CPUSeconds = time.Since(started).Seconds(), cpuSeconds()-cpu
	r.Images, r.BytesRead, r.Stages = done.Images, done.BytesRead, done.Seconds()
	r.ImagesPerSecond = float64(done.Images) / r.Seconds
	if r.CPUSeconds > 0 {
		r.ImagesPerCPU = float64(done.Images) / r.CPUSeconds
	}
	return nil
}

// wait waits until d has passed and so many images are done, or until the work has failed.
func (m *measurement) wait(d time.Duration, images int64, failed <-chan error) error {
	for images += m.pool.Counters().Images; ; d = 10 * time.Millisecond {
		select {
		case err := <-failed:
			if err == nil {
				err = errors.New("the measurement ended early")
			}
			return err
		case <-time.After(d):
			if m.pool.Counters().Images >= images {
				return nil
			}
		}
	}
}

// serveBatches serves the plan as if to a client that reads nothing.
func (m *measurement) serveBatches(ctx context.Context) error {
	slots := make([]*loader.Slot, benchSlotsMin+m.pool.Threads()*8/m.BatchSize) // more for small batches
	for i := range slots {
		slots[i] = loader.NewSlot(i, m.BatchSize, m.Views)
	}
	free := loader.NewSlotPool(slots...)
	stream, err := m.pool.NewStream(loader.StreamConfig{Dataset: m.dataset, Plan: m.order, Views: m.Views, Layout: m.Layout, Slots: free})
	if err != nil {
		return err
	}
	defer stream.Close()
	for {
		batch, err := stream.Next(ctx)
		if err != nil {
			return err
		}
		free.Put(batch.Slot)
	}
}

// cpuSeconds returns the process's user and system time.
func cpuSeconds() float64 {
	var u unix.Rusage
	unix.Getrusage(unix.RUSAGE_SELF, &u) // never fails for the process itself
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// endlessPlan draws the samples that are here again and again, so that a measurement never reaches the end of an epoch.
func endlessPlan(set *shard.Set, batchSize int, seed int64) (*plan.Plan, error) {
	here := make([]uint32, 0, set.Len())
	for i := range set.Len() {
		if set.Has(i % set.Partitions()) {
			here = append(here, uint32(i))
		}
	}
	selection, err := plan.NewSelection(plan.SelectionConfig{
		Samples: set.Len(), List: here, Weights: slices.Repeat([]float64{1}, len(here)), Positions: plan.SamplesMax,
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", set.Dir(), err)
	}
	return plan.New(plan.Config{Samples: set.Len(), BatchSize: batchSize, Seed: seed, Selection: selection})
}

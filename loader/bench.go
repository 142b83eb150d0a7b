package loader

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/imgfeed/imgfeed/loader/plan"
	"github.com/imgfeed/imgfeed/loader/readahead"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/encoding/registry"
	"github.com/imgfeed/imgfeed/transform"
)

// BenchSlotsMin is how many batches [Bench] holds at least: one to finish, and two to go on with.
const BenchSlotsMin = 3

// BenchConfig says what [Bench] measures.
type BenchConfig struct {
	Set       *shard.Set
	Views     transform.Views // nil measures reading and decoding whole images, without a transform
	Layout    transform.Layout
	Threads   int // 0 means one for each processor
	BatchSize int
	Duration  time.Duration // length of the measurement
	WarmUp    time.Duration // length of the work before it; 0 means a quarter of Duration
	Seed      int64
	BitExact  bool                 // refuse to measure a transform that gives other results than on the original images
	Reading   func(processors int) // as in PoolConfig
}

// BenchResult is what [Bench] has measured, warm-up excluded.
type BenchResult struct {
	ImagesPerSecond float64            `json:"images_per_second"`
	CPUSeconds      float64            `json:"cpu_seconds"`           // user and system time of the process
	ImagesPerCPU    float64            `json:"images_per_cpu_second"` // on one core that does nothing else
	Seconds         float64            `json:"seconds"`               // time on the clock
	Images          int64              `json:"images"`
	BytesRead       int64              `json:"bytes_read"`    // stored bytes
	Stages          map[string]float64 `json:"stage_seconds"` // see Counters.Seconds
	Threads         int                `json:"threads"`
	BatchSize       int                `json:"batch_size"`
	Transform       string             `json:"transform"`
	Encoding        string             `json:"encoding"` // encoding in words, including its codec and resize
	Layout          string             `json:"layout"`
	Kernels         string             `json:"kernels"`
	Notes           []string           `json:"notes,omitempty"` // sentences for the user
}

// Bench measures the engine alone: it serves samples of the set, drawn at random, in batches that nobody reads. A bad sample is an error.
func Bench(ctx context.Context, cfg BenchConfig) (BenchResult, error) {
	if cfg.WarmUp <= 0 {
		cfg.WarmUp = cfg.Duration / 4
	}
	set, err := FromShards(cfg.Set)
	if err != nil {
		return BenchResult{}, err
	}
	order, err := endlessPlan(cfg.Set, cfg.BatchSize, cfg.Seed)
	if err != nil {
		return BenchResult{}, err
	}
	pool := NewPool(PoolConfig{Threads: cfg.Threads, Reading: cfg.Reading})
	defer pool.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	result := BenchResult{
		Threads: pool.Threads(), BatchSize: cfg.BatchSize, Encoding: registry.Describe(cfg.Set.Manifest().Encoding),
		Layout: cfg.Layout.String(), Kernels: transform.ActiveLevel().String(), Transform: "full",
	}
	work := func(ctx context.Context) error { return pool.decodeWhole(ctx, set, order) }
	if cfg.Views != nil {
		note, err := CheckBitExact(cfg.Set, cfg.Views, cfg.BitExact)
		if err != nil {
			return BenchResult{}, err
		}
		if note != "" {
			result.Notes = append(result.Notes, note)
		}
		result.Transform = cfg.Views.String()
		work = func(ctx context.Context) error { return pool.serveBatches(ctx, cfg, set, order) }
	}
	failed := make(chan error, 1)
	go func() { failed <- work(ctx) }()
	err = result.measure(pool, cfg, failed)
	cancel()
	if err == nil {
		<-failed
	}
	return result, err
}

// measure lets the work run until the time is over and an image is done, and counts the work after the warm-up.
func (r *BenchResult) measure(pool *Pool, cfg BenchConfig, failed <-chan error) error {
	if err := during(cfg.WarmUp, pool, 0, failed); err != nil {
		return err
	}
	started, cpu, before := time.Now(), cpuSeconds(), pool.Counters()
	if err := during(cfg.Duration, pool, 1, failed); err != nil {
		return err
	}
	done := pool.Counters().Sub(before)
	r.Seconds, r.CPUSeconds = time.Since(started).Seconds(), cpuSeconds()-cpu
	r.Images, r.BytesRead = done.Images, done.BytesRead
	r.ImagesPerSecond = float64(done.Images) / r.Seconds
	if r.CPUSeconds > 0 {
		r.ImagesPerCPU = float64(done.Images) / r.CPUSeconds
	}
	r.Stages = done.Seconds()
	return nil
}

// during waits for d to pass and for so many images, or for an error.
func during(d time.Duration, pool *Pool, images int64, failed <-chan error) error {
	for images += pool.Counters().Images; ; d = 10 * time.Millisecond {
		select {
		case err := <-failed:
			if err == nil {
				err = errors.New("loader: the measurement ended early")
			}
			return err
		case <-time.After(d):
			if pool.Counters().Images >= images {
				return nil
			}
		}
	}
}

// serveBatches serves the plan as if to a client that reads nothing.
func (p *Pool) serveBatches(ctx context.Context, cfg BenchConfig, set Dataset, order *plan.Plan) error {
	slots := make([]*Slot, BenchSlotsMin+p.Threads()*8/cfg.BatchSize) // more for small batches
	for i := range slots {
		slots[i] = NewSlot(i, cfg.BatchSize, cfg.Views)
	}
	supply := NewSlotPool(slots...)
	stream, err := p.NewStream(StreamConfig{Dataset: set, Plan: order, Views: cfg.Views, Layout: cfg.Layout, Slots: supply})
	if err != nil {
		return err
	}
	defer stream.Close()
	for {
		batch, err := stream.Next(ctx)
		if err != nil {
			return err
		}
		supply.Put(batch.Slot)
	}
}

// decodeWhole reads and decodes whole images over and over, a batch of the plan at a time, until ctx ends.
func (p *Pool) decodeWhole(ctx context.Context, set Dataset, order *plan.Plan) error {
	return p.do(ctx, math.MaxInt32, func(w *worker, k int) error {
		for _, index := range order.Batch(k%order.Batches(), nil) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			err := w.guard(set, index, func() error {
				if err := w.read(set, readahead.Sample{Index: index}, true); err != nil {
					return err
				}
				_, _, _, err := w.engine.DecodeFull(w.source(set))
				return err
			})
			if err != nil {
				return newSampleError(set, index, err)
			}
			w.publish()
		}
		return nil
	})
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
		return nil, fmt.Errorf("loader: %s: %w", set.Dir(), err)
	}
	return plan.New(plan.Config{Samples: set.Len(), BatchSize: batchSize, Seed: seed, Selection: selection})
}

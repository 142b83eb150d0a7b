package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/imgfeed/imgfeed/loader"
	"github.com/imgfeed/imgfeed/loader/plan"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/encoding/registry"
	"github.com/imgfeed/imgfeed/transform"
)

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

// wait waits for d to pass and for so many images, or for an error.
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

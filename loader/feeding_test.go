package loader

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/loader/plan"
)

// A testRemote makes pieces on another pool of the process, as a feeder does on another machine. fate says what becomes of a piece.
type testRemote struct {
	far    *Pool
	cfg    StreamConfig
	slot   *Slot
	parts  [2][][]byte
	fate   func() string
	pieces *atomic.Int64
}

func newTestRemote(far *Pool, cfg StreamConfig, fate func() string) *testRemote {
	return &testRemote{far: far, cfg: cfg, slot: NewSlot(0, PieceSamplesMax, cfg.Views), fate: fate, pieces: new(atomic.Int64)}
}

func (r *testRemote) Takes(offer any) bool { return offer == "this" }
func (r *testRemote) Samples() int         { return 5 }

var errTorn = errors.New("torn")

func (r *testRemote) Make(p *Piece, made []bool) error {
	r.pieces.Add(1)
	fate := r.fate()
	if fate == "refuse" {
		return nil
	}
	far := Piece{Seed: p.Seed, Epoch: p.Epoch, Slot: r.slot, Indices: p.Indices, Repetitions: p.Repetitions}
	if err := r.far.Make(context.Background(), &r.cfg, &far, made); err != nil {
		return err
	}
	r.parts[0] = p.Slot.AppendSamples(r.parts[0][:0], p.First, len(made))
	r.parts[1] = r.slot.AppendSamples(r.parts[1][:0], 0, len(made))
	for i, part := range r.parts[0] {
		copy(part, r.parts[1][i])
		if fate == "tear" {
			part[0]++
			return errTorn
		}
	}
	if fate == "part" {
		made[0] = false
	}
	return nil
}

// serveRemotes serves n remotes until the test ends; one that fails is back at once.
func serveRemotes(t testing.TB, p *Pool, n int, remote func() *testRemote) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for range n {
		r := remote()
		running.Go(func() {
			for ctx.Err() == nil {
				err := p.ServeRemote(ctx, r)
				testenv.Check(t, errors.Is(err, errTorn) || errors.Is(err, context.Canceled) || errors.Is(err, ErrClosed), "%v", err)
			}
		})
	}
	t.Cleanup(func() { cancel(); running.Wait() })
}

// awaitRemotes waits until a pool has so many remotes.
func awaitRemotes(t *testing.T, p *Pool, n int) {
	t.Helper()
	testenv.Until(t, func() bool {
		p.scheduler.mu.Lock()
		defer p.scheduler.mu.Unlock()
		return len(p.scheduler.remotes) == n
	})
}

// TestRemotes compares epochs with remotes that make everything, some samples, nothing, or break, with those without.
func TestRemotes(t *testing.T) {
	set := newMemorySet(t, 300)
	set.bad[17], set.bad[200] = errors.New("bad"), errors.New("bad")
	order := plan.Config{Samples: 300, Seed: 3, Epoch: 2, BatchSize: 32, Shuffle: true}
	for _, onError := range []OnError{Blank, Substitute} {
		config := func(offer any) StreamConfig {
			cfg := testStream(t, set, order, 4)
			cfg.OnError, cfg.Offer = onError, offer
			return cfg
		}
		want := testenv.Must(serve(t, newTestPool(t, 1), config(nil)))(t)
		for _, threads := range []int{-1, 1} {
			for _, offer := range []any{"this", "another", nil} {
				for _, fate := range []string{"", "refuse", "tear", "part", "any"} {
					t.Run(fmt.Sprint(onError, threads, offer, fate), func(t *testing.T) {
						near := NewPool(PoolConfig{Threads: threads})
						t.Cleanup(near.Close)
						far := newTestPool(t, 2)
						var pieces atomic.Int64
						serveRemotes(t, near, 3, func() *testRemote {
							r := newTestRemote(far, config("this"), func() string {
								if fate == "any" {
									return []string{"", "refuse", "tear", "part"}[rand.IntN(4)]
								}
								return fate
							})
							r.pieces = &pieces
							return r
						})
						awaitRemotes(t, near, 3) // else workers that stand by may make all before
						got, err := serve(t, near, config(offer))
						compareEpochs(t, fmt.Sprint(err), got, want)
						testenv.Check(t, err == nil && len(got.batches) == len(want.batches),
							"%d batches, and %d without remotes: %v", len(got.batches), len(want.batches), err)
						for i := range got.batches {
							testenv.Check(t, len(got.batches[i].Bad) == len(want.batches[i].Bad),
								"batch %d: %d bad samples, want %d", i, len(got.batches[i].Bad), len(want.batches[i].Bad))
						}
						made := pieces.Load() > 0
						testenv.Check(t, made == (offer == "this") || threads >= 0, "remotes made %d pieces", pieces.Load())
					})
				}
			}
		}
	}
}

// TestReserveIsWoken refuses a piece of the only batch. A worker that stands by makes its samples once the remote has taken all others.
func TestReserveIsWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := testStream(t, newMemorySet(t, 15), plan.Config{Samples: 15, BatchSize: 15}, 1)
		cfg.Offer = "this"
		near := NewPool(PoolConfig{Threads: NoThreads})
		defer near.Close()
		far := newTestPool(t, 1)
		pieces := 0
		r := newTestRemote(far, cfg, func() string {
			if pieces++; pieces == 1 {
				return "refuse"
			}
			time.Sleep(time.Hour) // the refused samples come to hand, and wait
			return ""
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go near.ServeRemote(ctx, r)
		synctest.Wait()
		_, err := serve(t, near, cfg)
		testenv.Check(t, err == nil && pieces == 3, "%d pieces, %v", pieces, err)
	})
}

// TestPrefetchBesideRemotes checks that of a set in a slow storage few samples are read ahead that remotes make.
func TestPrefetchBesideRemotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := newStoredSet(t, 4000)
		set.delay, set.memorySet.delay = 2*time.Millisecond, 2*time.Millisecond
		cfg := testStream(t, set, plan.Config{Samples: 4000, Seed: 3, BatchSize: 64, Shuffle: true}, 6)
		far := cfg
		farSet := newMemorySet(t, 4000)
		far.Dataset = farSet
		var reading atomic.Int64
		near := NewPool(PoolConfig{Threads: 1, ReadAheadBytes: 64 << 20, Reading: func(processors int) { reading.Store(int64(processors)) }})
		defer near.Close()
		serveRemotes(t, near, 3, func() *testRemote {
			return newTestRemote(newTestPool(t, 1), far, func() string { time.Sleep(5 * time.Millisecond); return "" })
		})
		cfg.Offer = "this"
		got := testenv.Must(serve(t, near, cfg))(t)
		made := int(farSet.reads.Load())
		used := 4000 - made - int(set.reads.Load())
		compareEpochs(t, "beside remotes", got, expect(t, set.memorySet, cfg))
		testenv.Until(t, func() bool { _, inFlight := set.state(); return inFlight == 0 })
		fetched, _ := set.state()
		testenv.Check(t, used != 0 && made >= 500 && fetched-used <= 4000/8,
			"%d samples were read ahead, %d of them used, and remotes made %d of 4000", fetched, used, made)
		testenv.Until(t, func() bool { return reading.Load() == 0 })
	})
}

// TestRemoteHangs closes a stream and a pool of which a remote has a piece that it does not make.
func TestRemoteHangs(t *testing.T) {
	set := newMemorySet(t, 100)
	cfg := testStream(t, set, plan.Config{Samples: 100, BatchSize: 10}, 4)
	cfg.Offer = "this"
	near := NewPool(PoolConfig{Threads: NoThreads})
	asked, answer := make(chan struct{}, 100), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error)
	r := newTestRemote(newTestPool(t, 1), cfg, func() string { asked <- struct{}{}; <-answer; return "refuse" })
	go func() { served <- near.ServeRemote(ctx, r) }()
	awaitRemotes(t, near, 1)
	s := testenv.Must(near.NewStream(cfg))(t)
	<-asked
	cancel()
	close(answer)
	err := <-served
	testenv.Check(t, errors.Is(err, context.Canceled), "%v", err)
	testenv.Equal(t, len(testenv.Must(drain(t, s, cfg))(t).batches), 10, "batches")
	s.Close()
	near.Close()
}

// TestRemotesAllocateNothing compares epochs of few and of many samples.
func TestRemotesAllocateNothing(t *testing.T) {
	mallocs := func(samples int) float64 {
		near := NewPool(PoolConfig{Threads: NoThreads})
		defer near.Close()
		r := &idleRemote{}
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error)
		go func() { served <- near.ServeRemote(ctx, r) }()
		cfg := testStream(t, newMemorySet(t, samples), plan.Config{Samples: samples, BatchSize: 50}, 4)
		cfg.Offer = "this"
		s := testenv.Must(near.NewStream(cfg))(t)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range samples / 50 {
			b := testenv.Must(s.Next(ctx))(t)
			cfg.Slots.Put(b.Slot)
		}
		runtime.ReadMemStats(&after)
		s.Close()
		cancel()
		<-served
		return float64(after.Mallocs - before.Mallocs)
	}
	few, many := mallocs(500), mallocs(5000)
	perSample := (many - few) / 4500
	testenv.Check(t, perSample <= 0.2, "%.2f allocations a sample (%.0f for 500, %.0f for 5000)", perSample, few, many)
}

// An idleRemote claims to have made everything.
type idleRemote struct{}

func (*idleRemote) Takes(any) bool { return true }
func (*idleRemote) Samples() int   { return 16 }
func (*idleRemote) Make(p *Piece, made []bool) error {
	for i := range made {
		made[i] = true
	}
	return nil
}

// TestThreads counts the workers that take every sample: one for each processor unless a number is given, and none with NoThreads.
func TestThreads(t *testing.T) {
	for threads, want := range map[int]int{0: runtime.GOMAXPROCS(0), 1: 1, 3: 3, NoThreads: 0} {
		testenv.Equal(t, newTestPool(t, threads).Threads(), want, "threads of a pool of %d", threads)
	}
}

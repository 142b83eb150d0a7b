package loader

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/imgfeed/imgfeed/internal/image/resample"
	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/loader/plan"
	"github.com/imgfeed/imgfeed/transform"
)

// TestStream serves whole epochs and the rest of some on any number of threads and slots: always the same, sample for sample.
func TestStream(t *testing.T) {
	set := newMemorySet(t, 203)
	for _, threads := range []int{1, 2, 7} {
		pool := newTestPool(t, threads)
		for _, slots := range []int{1, 2, 5} {
			for _, layout := range []resample.Layout{resample.NHWC, resample.NCHW} {
				cfg := testStream(t, set, plan.Config{
					Fingerprint: "f", Samples: 203, Seed: 3, Epoch: 2, BatchSize: 16, Shuffle: true, World: 2, Rank: 1,
				}, slots)
				cfg.Layout = layout
				got := testenv.Must(serve(t, pool, cfg))(t)
				compareEpochs(t, "", got, expect(t, set, cfg))
				for i, b := range got.batches {
					testenv.Require(t, b.Number == i && b.Consumed == cfg.Plan.ConsumedAfter(i) && b.Bad == nil, "batch %d is %+v", i, b)
				}
				testenv.Require(t, cfg.Slots.Free() == slots, "%d of %d slots are free afterwards", cfg.Slots.Free(), slots)
			}
		}
	}
}

// TestManyStreams runs several consumers of different speeds on one pool.
func TestManyStreams(t *testing.T) {
	set := newMemorySet(t, 150)
	pool := newTestPool(t, 3)
	var running sync.WaitGroup
	for rank := range 6 {
		running.Go(func() {
			cfg := testStream(t, set, plan.Config{
				Fingerprint: "f", Samples: 150, BatchSize: 7, Shuffle: true, World: 6, Rank: rank, Epoch: rank,
			}, 2+rank)
			got, err := serve(t, pool, cfg)
			if err != nil {
				t.Error(err)
				return
			}
			compareEpochs(t, fmt.Sprint("rank ", rank), got, expect(t, set, cfg))
		})
	}
	running.Wait()
	c := pool.Counters()
	testenv.Check(t, c.Decode > 0, "decoding took %v", c.Decode)
}

// TestSlowConsumerHoldsNobodyUp leaves one stream's batches untaken while another one runs to its end.
func TestSlowConsumerHoldsNobodyUp(t *testing.T) {
	set := newMemorySet(t, 100)
	pool := newTestPool(t, 1)
	cfg := testStream(t, set, plan.Config{Samples: 100, BatchSize: 10}, 2)
	slow := openStream(t, pool, cfg)
	testenv.Must(serve(t, pool, testStream(t, set, plan.Config{Samples: 100, BatchSize: 10}, 2)))(t)
	testenv.Until(t, func() bool { // two batches wait for the client
		return cfg.Slots.Waits().ClientNow && len(slow.order) == 2 && slow.Stats().Batches == 0
	})
}

func TestBadSampleFails(t *testing.T) {
	set := newMemorySet(t, 60)
	set.bad[33], set.bad[38] = io.ErrUnexpectedEOF, io.ErrClosedPipe
	pool := newTestPool(t, 4)
	cfg := testStream(t, set, plan.Config{Samples: 60, BatchSize: 10}, 4)
	s := testenv.Must(pool.NewStream(cfg))(t)
	e, err := drain(t, s, cfg)
	for range 2 { // it stays so
		var bad *SampleError
		testenv.Require(t, errors.As(err, &bad) && bad.Index == 33 && bad.Key == "k" && errors.Is(err, io.ErrUnexpectedEOF),
			"error %v, want that of sample 33", err)
		_, err = s.Next(t.Context())
	}
	testenv.Check(t, len(e.batches) == 3, "%d batches before the bad sample, want 3", len(e.batches))
	s.Close()
	testenv.Check(t, cfg.Slots.Free() == 4, "%d of 4 slots came back", cfg.Slots.Free())
}

func TestBadSampleIsBlank(t *testing.T) {
	set := newMemorySet(t, 60)
	set.bad[33], set.panics = io.ErrUnexpectedEOF, 7
	set.blobs[50] = set.blobs[50][:9]
	pool := newTestPool(t, 4)
	cfg := testStream(t, set, plan.Config{Samples: 60, BatchSize: 10}, 2)
	cfg.OnError = Blank
	got := testenv.Must(serve(t, pool, cfg))(t)
	size, blank := cfg.Views.OutputBytes(), 0
	for i, index := range got.indices {
		isBad := index == 33 || index == 7 || index == 50
		isBlank := bytes.Equal(got.images[i*size:(i+1)*size], make([]byte, size))
		testenv.Check(t, isBad == isBlank && isBad == (got.labels[i] == BlankLabel),
			"sample %d: label %d, black %v", index, got.labels[i], isBlank)
		testenv.Check(t, !isBad || slices.Equal(got.params[i*5:i*5+5], make([]int32, 5)),
			"sample %d: parameters %v", index, got.params[i*5:i*5+5])
	}
	for _, b := range got.batches {
		blank += len(b.Bad)
	}
	testenv.Check(t, blank == 3 && len(got.indices) == 60, "%d blank of %d samples, want 3 of 60", blank, len(got.indices))
}

// TestBlankWithoutRoom has a slot that is too small for the zeros of a bad sample, too: the stream ends, and the process goes on.
func TestBlankWithoutRoom(t *testing.T) {
	cfg := testStream(t, newMemorySet(t, 10), plan.Config{Samples: 10, BatchSize: 5}, 1)
	slot := NewSlot(0, 5, cfg.Views)
	slot.Images[0] = slot.Images[0][:10:10]
	cfg.Slots, cfg.OnError = NewSlotPool(slot), Blank
	_, err := serve(t, newTestPool(t, 2), cfg)
	var bad *SampleError
	testenv.Check(t, errors.As(err, &bad) && bad.Index == 0, "error %v, want sample 0's", err)
}

func TestPanicNamesItself(t *testing.T) {
	set := newMemorySet(t, 10)
	set.panics = 4
	_, err := serve(t, newTestPool(t, 2), testStream(t, set, plan.Config{Samples: 10, BatchSize: 5}, 2))
	var bad *SampleError
	testenv.Check(t, errors.As(err, &bad) && bad.Index == 4 && strings.Contains(err.Error(), "this sample panics"),
		"error %v, want sample 4's panic", err)
}

// TestCancel closes streams at every stage; all slots must come back and none may be written afterwards.
func TestCancel(t *testing.T) {
	set := newMemorySet(t, 500)
	set.delay = 200 * time.Microsecond
	pool := newTestPool(t, 3)
	for taken := range 6 {
		cfg := testStream(t, set, plan.Config{Samples: 500, BatchSize: 20}, 4)
		s := testenv.Must(pool.NewStream(cfg))(t)
		var lent []*Slot
		for range min(taken, 3) {
			b := testenv.Must(s.Next(t.Context()))(t)
			lent = append(lent, b.Slot)
		}
		time.Sleep(time.Duration(taken) * time.Millisecond)
		s.Close()
		testenv.Require(t, cfg.Slots.Free() == 4-len(lent), "%d slots came back, want %d", cfg.Slots.Free(), 4-len(lent))
		_, err := s.Next(t.Context())
		testenv.Require(t, errors.Is(err, ErrClosed), "Next after Close: %v", err)
		for range cfg.Slots.Free() {
			slot := <-cfg.Slots.free
			for i := range slot.Images[0] {
				slot.Images[0][i] = 0x11
			}
			lent = append(lent, slot)
		}
		time.Sleep(2 * time.Millisecond)
		for _, slot := range lent[min(taken, 3):] {
			testenv.Require(t, bytes.Count(slot.Images[0], []byte{0x11}) == len(slot.Images[0]), "a slot was written after Close")
		}
	}
}

// TestNextKeepsItsBatch ends the context of a Next that waits: the batch must come with the next call.
func TestNextKeepsItsBatch(t *testing.T) {
	set := newMemorySet(t, 20)
	set.gate = make(chan struct{}, 20)
	pool := newTestPool(t, 2)
	s := openStream(t, pool, testStream(t, set, plan.Config{Samples: 20, BatchSize: 10}, 2))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := s.Next(ctx)
	testenv.Require(t, errors.Is(err, context.DeadlineExceeded), "Next with a context that ends: %v", err)
	for range 20 {
		set.gate <- struct{}{}
	}
	for want := range 2 {
		testenv.Require(t, testenv.Must(s.Next(t.Context()))(t).Number == want, "another batch than %d", want)
	}
	_, err = s.Next(t.Context())
	testenv.Require(t, errors.Is(err, io.EOF), "after the last batch: %v, want io.EOF", err)
}

func TestPoolClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := newMemorySet(t, 100)
		set.delay = time.Millisecond
		pool := NewPool(PoolConfig{Threads: 2})
		cfg := testStream(t, set, plan.Config{Samples: 100, BatchSize: 10}, 3)
		s := testenv.Must(pool.NewStream(cfg))(t)
		pool.Close()
		testenv.Fails(s.Next(t.Context()))(t, ErrClosed, "Next")
		s.Close()
		testenv.Check(t, cfg.Slots.Free() == 3, "%d of 3 slots came back", cfg.Slots.Free())
		testenv.Fails(pool.NewStream(cfg))(t, ErrClosed, "NewStream on a closed pool")
	})
}

func TestStreamConfigErrors(t *testing.T) {
	testenv.Fails(newTestPool(t, 1).NewStream(StreamConfig{}))(t, nil, "an empty configuration is accepted")
}

// TestSteadyStateDoesNotAllocate counts the allocations of whole batches on two workers.
func TestSteadyStateDoesNotAllocate(t *testing.T) {
	set := newMemorySet(t, 64)
	set.blobs = slices.Repeat(set.blobs, 1000)
	pool := newTestPool(t, 2)
	cfg := testStream(t, set, plan.Config{Samples: 64000, BatchSize: 64, Shuffle: true}, 3)
	s := openStream(t, pool, cfg)
	take := func(n int) {
		for range n {
			b := testenv.Must(s.Next(t.Context()))(t)
			cfg.Slots.Put(b.Slot)
		}
	}
	take(200)
	// The least of three counts: the runtime, and what other tests have left, allocate at times.
	least := uint64(math.MaxUint64)
	for range 3 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		take(250)
		runtime.ReadMemStats(&after)
		least = min(least, after.Mallocs-before.Mallocs)
	}
	testenv.Check(t, least <= 36, "%d allocations for 250 batches of 64", least)
}

func TestCounters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := newMemorySet(t, 40)
		set.delay = 5 * time.Millisecond
		pool := newTestPool(t, 2)
		cfg := testStream(t, set, plan.Config{Samples: 40, BatchSize: 10}, 2)
		s := openStream(t, pool, cfg)
		testenv.Must(s.Next(t.Context()))(t)
		for range 3 {
			cfg.Slots.Put(newSlots(1, 10, cfg.Views[0])[0])
			testenv.Must(s.Next(t.Context()))(t)
		}
		c := pool.Counters()
		testenv.Check(t, c.Images == 40 && c.Read == 40*set.delay && c.BytesRead != 0, "counters %+v", c)
		testenv.Equal(t, s.Stats().Batches, 4, "batches")
	})
}

// TestWaitsWhileReadsAreUnderWay looks at two streams of a pool before the first reads of one of them, which take long, have ended. That
// one waits for the disk, the other does not, and workers without work count their time as reading.
func TestWaitsWhileReadsAreUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, fast := newStoredSet(t, 4), newMemorySet(t, 1<<10)
		set.delay, fast.delay = 10*time.Second, time.Millisecond
		pool := newTestPool(t, 2)
		slowConfig := testStream(t, set, plan.Config{Samples: 4, BatchSize: 2}, 1)
		s := openStream(t, pool, slowConfig)
		time.Sleep(time.Second)
		testenv.Equal(t, pool.Reading(), 2*time.Second, "the time for which two workers have waited for reads")
		fastConfig := testStream(t, fast, plan.Config{Samples: 1 << 10, BatchSize: 8}, 3)
		other := openStream(t, pool, fastConfig)
		go drain(t, other, fastConfig)
		time.Sleep(200 * time.Millisecond)
		slow, quick := slowConfig.Slots.Waits(), fastConfig.Slots.Waits()
		testenv.Check(t, !slow.ClientNow && slow.ReadsNow && slow.Reads >= time.Second && !quick.ClientNow && !quick.ReadsNow,
			"the streams wait %+v and %+v, want only the first one to wait for reads", slow, quick)
		testenv.Must(s.Next(t.Context()))(t)
		synctest.Wait() // the second worker may wake after the first has made both samples
		c := pool.Counters()
		testenv.Check(t, c.Read >= 18*time.Second && c.Read <= 20*time.Second, "after the reads: counters %+v", c)
		w := slowConfig.Slots.Waits()
		testenv.Check(t, w.ClientNow && !w.ReadsNow, "a stream whose batches are ready waits %+v", w)
	})
}

// TestBatchesAreHandedOutWhenTheyEnd has one of Go's processors for a worker that never waits and for the consumer. By the
// scheduler alone the consumer would get it every 10 ms, after dozens of these batches.
func TestBatchesAreHandedOutWhenTheyEnd(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const batch, slots = 4, 64
	set := newMemorySet(t, 400)
	set.spin = 20 * time.Microsecond
	cfg := testStream(t, set, plan.Config{Samples: 400, BatchSize: batch}, slots)
	s := openStream(t, newTestPool(t, 1), cfg)
	late := 0
	for number := range cfg.Plan.Batches() {
		b := testenv.Must(s.Next(t.Context()))(t)
		if int(set.reads.Load()) > (number+2)*batch {
			late++
		}
		cfg.Slots.Put(b.Slot)
	}
	testenv.Check(t, late <= cfg.Plan.Batches()/10, "%d of %d batches came when a later one was finished already", late, cfg.Plan.Batches())
}

// TestSelectionsServeTheSameBytes serves selections with one and with several threads: the pixels, too, are those that the plan
// says, with draws of its own for every repetition.
func TestSelectionsServeTheSameBytes(t *testing.T) {
	const n = 60
	set := newMemorySet(t, n)
	weights := make([]float64, n)
	for i := range weights {
		weights[i] = float64(1 + i%5)
	}
	for name, cfg := range map[string]plan.SelectionConfig{
		"repeats": {Repeats: 3, Positions: 2 * n}, "weights": {Weights: weights, Positions: 100}, "order": {List: []uint32{5, 4, 5, 3, 5, 2, 1}},
	} {
		cfg.Samples = n
		selection := testenv.Must(plan.NewSelection(cfg))(t)
		for _, threads := range []int{1, 4} {
			stream := testStream(t, set, plan.Config{Samples: n, BatchSize: 7, Seed: 2, Epoch: 1, Shuffle: name != "order", Selection: selection}, 3)
			got := testenv.Must(serve(t, newTestPool(t, threads), stream))(t)
			compareEpochs(t, fmt.Sprintf("%s with %d threads", name, threads), got, expect(t, set, stream))
		}
	}
}

// TestRepetitionsHaveDrawsOfTheirOwn serves one sample a hundred times.
func TestRepetitionsHaveDrawsOfTheirOwn(t *testing.T) {
	set := newMemorySet(t, 1)
	selection := testenv.Must(plan.NewSelection(plan.SelectionConfig{Samples: 1, Repeats: 100, Positions: 100}))(t)
	got := testenv.Must(serve(t, newTestPool(t, 2), testStream(t, set, plan.Config{Samples: 1, BatchSize: 10, Selection: selection}, 2)))(t)
	boxes := map[[transform.ParamsLen]int32]int{}
	for i := range 100 {
		boxes[[transform.ParamsLen]int32(got.params[i*transform.ParamsLen:])]++
	}
	testenv.Check(t, len(boxes) >= 8, "100 repetitions have %d different draws: %v", len(boxes), boxes)
}

// substituteConfig is of an epoch in which each of a few samples cannot be read, one panics and one cannot be decoded.
func substituteConfig(t *testing.T) (*memorySet, plan.Config) {
	set := newMemorySet(t, 200)
	for _, index := range []int{3, 13, 23, 70, 71, 199} {
		set.bad[index] = io.ErrUnexpectedEOF
	}
	set.panics = 44
	set.blobs[150] = set.blobs[150][:9]
	return set, plan.Config{Fingerprint: "f", Samples: 200, Partitions: 4, Seed: 3, Epoch: 2, BatchSize: 10, Shuffle: true, World: 1}
}

// TestSubstitutesAreTheSameEverywhere: on any number of threads and ranks, and after a resume. What stands there is what the sample is
// at its own position of this epoch.
func TestSubstitutesAreTheSameEverywhere(t *testing.T) {
	set, cfg := substituteConfig(t)
	var want map[int]int
	for _, threads := range []int{1, 3, 7} {
		for _, world := range []int{1, 3} {
			got := map[int]int{}
			for rank := range world {
				cfg.World, cfg.Rank = world, rank
				maps.Copy(got, servedBy(t, set, cfg, threads))
			}
			if want == nil {
				want = got
			}
			testenv.Check(t, maps.Equal(got, want), "%d threads, world of %d: %v, and %v before", threads, world, got, want)
		}
	}
	testenv.Check(t, len(want) == 8, "substitutes %v, want 8", want)
	for index, by := range want {
		testenv.Check(t, by != index && by%10 == index%10 && by%4 == index%4 && set.bad[by] == nil, "sample %d stands for %d", by, index)
	}
	cfg.World, cfg.Rank, cfg.Consumed = 1, 0, 100
	for index, by := range servedBy(t, set, cfg, 2) {
		testenv.Check(t, want[index] == by, "resumed, sample %d stands for %d; %d did", by, index, want[index])
	}
}

// servedBy serves an epoch, compares it sample by sample, and returns what stood for what.
func servedBy(t *testing.T, set *memorySet, cfg plan.Config, threads int) map[int]int {
	t.Helper()
	sc := testStream(t, set, cfg, 3)
	sc.OnError = Substitute
	got := testenv.Must(serve(t, newTestPool(t, threads), sc))(t)
	by, planned, at := map[int]int{}, []int{}, 0
	for n, b := range got.batches {
		planned = sc.Plan.Batch(n, planned)
		for _, bad := range b.Bad {
			testenv.Check(t, planned[bad.Position] == bad.Index && got.indices[at+bad.Position] == int64(bad.By) && bad.Err != nil,
				"batch %d: %+v, and the slot says %d", n, bad, got.indices[at+bad.Position])
			by[bad.Index] = bad.By
		}
		at += b.Count
	}
	engine, size := transform.NewEngine(kernel.Generic), sc.Views.OutputBytes()
	for i, index := range got.indices {
		record, _ := testenv.Must2(set.Record(int(index), nil, false))(t)
		pix := make([]byte, size)
		rng := transform.NewRNG(cfg.Seed, cfg.Epoch, int(index))
		testenv.Must(engine.Apply(sc.Views[0], transform.Output{Pix: pix}, sourceOf(set, &record), rng))(t)
		testenv.Require(t, string(pix) == string(got.images[i*size:(i+1)*size]) && got.labels[i] == int64(record.Label),
			"position %d holds something else than sample %d", i, index)
	}
	return by
}

// TestAClassWithoutAWholeSample ends the epoch, after so many tries and no more.
func TestAClassWithoutAWholeSample(t *testing.T) {
	set := newMemorySet(t, 400)
	for index := 3; index < 400; index += 10 {
		set.bad[index] = io.ErrUnexpectedEOF
	}
	cfg := testStream(t, set, plan.Config{Samples: 400, BatchSize: 400}, 1)
	cfg.Plan = mustPlan(t, plan.Config{Samples: 400, BatchSize: 4})
	cfg.OnError = Substitute
	before := set.reads.Load()
	got, err := serve(t, newTestPool(t, 1), cfg)
	bad, ok := errors.AsType[*SampleError](err)
	testenv.Check(t, ok && bad.Index == 3 && errors.Is(err, io.ErrUnexpectedEOF) && len(got.batches) == 0,
		"%v, after %d batches", err, len(got.batches))
	testenv.Equal(t, set.reads.Load()-before, 4+substitutesMax, "reads of a batch whose substitutes are bad too")
}

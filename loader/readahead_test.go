package loader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/imgfeed/imgfeed/internal/image/pixelcodec"
	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/loader/plan"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/storage"
)

// A storedSet is a memorySet whose samples are fetched from a storage that tests look at.
type storedSet struct {
	*memorySet
	bytes   int           // that a Fetch takes
	reading int           // that pay at a time
	block   chan struct{} // each Fetch waits for it; nil: none does
	delay   time.Duration // of each Fetch
	jitter  bool          // it is another one for each sample
	failed  map[int]bool  // samples whose Fetch fails
	wrong   bool          // the first Fetch of every third sample gives wrong bytes
	limit   time.Duration // of the Needs; those that are ready are kept by a cache then
	lost    bool          // the cache has lost every third sample that it said to keep
	down    error         // of each Fetch

	mu       sync.Mutex
	ready    map[int]bool
	asked    int
	fetched  []int
	inFlight int
}

func newStoredSet(t *testing.T, samples int) *storedSet {
	return &storedSet{memorySet: newMemorySet(t, samples), bytes: 1 << 20, reading: 4, ready: map[int]bool{}}
}

func (s *storedSet) WillNeed(i int) (shard.Need, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	ready := s.ready[i]
	return shard.Need{Ready: ready, Kept: ready && s.limit > 0, Bytes: s.bytes, ReadsMax: s.reading, Timeout: s.limit}, nil
}

func (s *storedSet) ReadKept(i int, buf []byte) (shard.Record, []byte, bool) {
	if s.lost && i%3 == 0 {
		return shard.Record{}, buf, false
	}
	record, buf, err := s.Record(i, buf, false)
	return record, buf, err == nil
}

func (s *storedSet) MayHang() bool { return s.limit > 0 }

func (s *storedSet) Fetch(i int, buf []byte) ([]byte, error) {
	s.mu.Lock()
	s.fetched = append(s.fetched, i)
	s.inFlight++
	s.mu.Unlock()
	if s.block != nil {
		<-s.block
	}
	time.Sleep(s.delay)
	if s.jitter {
		time.Sleep(time.Duration(i*7919%13) * 100 * time.Microsecond)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight--
	if first := slices.Index(s.fetched, i); s.failed[i] || s.wrong && i%3 == 0 && !slices.Contains(s.fetched[first+1:], i) {
		return nil, io.ErrUnexpectedEOF
	}
	if s.down != nil {
		return nil, s.down
	}
	n := copy(buf, s.blobs[i])
	clear(buf[n : n+pixelcodec.SlackBytes])
	return buf[:n], nil
}

func (s *storedSet) Check(i int, bytes []byte, err error) (shard.Record, error) {
	return recordOf(i, bytes), err
}

func (s *storedSet) setReady(ready bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.blobs {
		s.ready[i] = ready
	}
}

func (s *storedSet) state() (fetched, inFlight int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.fetched), s.inFlight
}

// TestPrefetchServesThePlan compares what is served with what a set in memory gives, whatever is read ahead: all or little, in time or
// not, failed or at hand.
func TestPrefetchServesThePlan(t *testing.T) {
	for name, change := range map[string]func(*storedSet){
		"all":       func(*storedSet) {},
		"some":      func(s *storedSet) { s.bytes = 3 << 20 },
		"large":     func(s *storedSet) { s.bytes = 100 << 20 },
		"at hand":   func(s *storedSet) { s.setReady(true) },
		"any order": func(s *storedSet) { s.jitter, s.reading = true, 32 },
		"may hang":  func(s *storedSet) { s.setReady(true); s.limit = time.Hour },
		"kept": func(s *storedSet) {
			s.setReady(true)
			s.limit, s.lost = time.Hour, true
		},
		"half may hang": func(s *storedSet) {
			for i := 0; i < len(s.blobs); i += 2 {
				s.ready[i] = true
			}
			s.limit = time.Hour
		},
		"half": func(s *storedSet) {
			for i := 0; i < len(s.blobs); i += 2 {
				s.ready[i] = true
			}
		},
	} {
		set := newStoredSet(t, 600)
		change(set)
		var reading atomic.Int64
		pool := NewPool(PoolConfig{Threads: 3, ReadAheadBytes: 16 << 20, Reading: func(processors int) { reading.Store(int64(processors)) }})
		taken := 2 * 600 // samples that were read ahead
		for epoch := range 2 {
			cfg := testStream(t, set, plan.Config{Samples: 600, BatchSize: 7, Shuffle: true, Epoch: epoch}, 4)
			got := testenv.Must(serve(t, pool, cfg))(t)
			taken -= int(set.reads.Swap(0))
			compareEpochs(t, fmt.Sprintf("%s, epoch %d", name, epoch), got, expect(t, set.memorySet, cfg))
			set.reads.Store(0)
		}
		testenv.Until(t, func() bool { return reading.Load() == 0 })
		fetched, _ := set.state()
		testenv.Check(t, name != "at hand" || fetched == 0 && set.asked <= 2*(256+600/16),
			"%d samples in memory are read, %d looked at", fetched, set.asked)
		testenv.Check(t, fetched == taken && (name != "all" || fetched != 0),
			"%s: %d samples were read ahead, and %d of them used", name, fetched, taken)
		pool.Close()
	}
}

// TestPrefetchOfABadSample leaves it to the worker to say what is wrong with a sample, when its batch is due.
func TestPrefetchOfABadSample(t *testing.T) {
	set := newStoredSet(t, 60)
	set.bad[33], set.failed = io.ErrUnexpectedEOF, map[int]bool{33: true}
	cfg := testStream(t, set, plan.Config{Samples: 60, BatchSize: 10}, 2)
	served, err := serve(t, newTestPool(t, 2), cfg)
	bad, ok := err.(*SampleError)
	testenv.Check(t, ok && bad.Index == 33 && errors.Is(err, io.ErrUnexpectedEOF) && len(served.batches) == 3,
		"%d batches, then %v; want 3 and an error of sample 33", len(served.batches), err)
}

// TestWrongBytesAreReadAgain serves a set whose reads fail once, and one whose bad samples are replaced: with what a set in memory gives.
func TestWrongBytesAreReadAgain(t *testing.T) {
	for _, threads := range []int{1, 4} {
		set := newStoredSet(t, 120)
		set.wrong = true
		cfg := testStream(t, set, plan.Config{Samples: 120, BatchSize: 10, Shuffle: true}, 3)
		got := testenv.Must(serve(t, newTestPool(t, threads), cfg))(t)
		compareEpochs(t, "read again", got, expect(t, set.memorySet, cfg))
		testenv.Check(t, len(set.fetched) == 160, "%d reads of 120 samples", len(set.fetched))
		memory, order := substituteConfig(t)
		memory.panics = -1
		served := testStream(t, memory, order, 3)
		served.OnError = Substitute
		want := testenv.Must(serve(t, newTestPool(t, 1), served))(t)
		stored := newStoredSet(t, 200)
		stored.failed, stored.blobs = map[int]bool{}, memory.blobs
		for i := range memory.bad {
			stored.failed[i] = true
		}
		served = testStream(t, stored, order, 3)
		served.OnError = Substitute
		compareEpochs(t, "substitutes from a storage", testenv.Must(serve(t, newTestPool(t, threads), served))(t), want)
	}
}

// TestStreamThatHangs serves a stream beside one whose reads hang. That one waits for its storage, which is down after a minute, also for
// a remote's piece, and is served again once the storage answers.
func TestStreamThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := newTestPool(t, 2)
		dead, alive := newStoredSet(t, 60), newStoredSet(t, 60)
		dead.block, dead.limit, dead.memorySet.bad[7] = make(chan struct{}), time.Minute, io.ErrUnexpectedEOF
		cfg := testStream(t, dead, plan.Config{Samples: 60, BatchSize: 10}, 3)
		cfg.OnError = Substitute
		stream := testenv.Must(pool.NewStream(cfg))(t)
		piece, made := Piece{Slot: newSlots(1, 8, cfg.Views[0])[0], Indices: []int{1, 2, 3, 4, 5, 6, 7, 8}}, make([]bool, 8)
		failed := make(chan error)
		go func() { failed <- pool.Make(t.Context(), &cfg, &piece, made) }()
		began := time.Now()
		other := testStream(t, alive, plan.Config{Samples: 60, BatchSize: 10}, 3)
		got := testenv.Must(serve(t, pool, other))(t)
		took := time.Since(began)
		testenv.Check(t, took <= time.Second, "beside a stream whose reads hang an epoch takes %v", took)
		compareEpochs(t, "beside a stream whose reads hang", got, expect(t, alive.memorySet, other))
		w := cfg.Slots.Waits()
		testenv.Check(t, !w.ClientNow && w.ReadsNow, "a stream whose reads hang waits %+v", w)
		_, err := stream.Next(t.Context())
		bad, is := errors.AsType[*SampleError](err)
		testenv.Check(t, is && bad.Index <= 3 && storage.IsDown(err) && time.Since(began) == dead.limit, "%v after %v", err, time.Since(began))
		err = <-failed
		testenv.Check(t, err == nil && !slices.Contains(made, true), "a piece: %v, %v", made, err)
		stream.Close()
		close(dead.block)
		cfg = testStream(t, dead, plan.Config{Samples: 60, BatchSize: 10}, 3)
		testenv.Equal(t, len(testenv.Must(serve(t, pool, cfg))(t).batches), 6, "batches of a storage that answers again")
	})
}

// TestPieceOfAStorageThatIsDown makes nothing of a piece but the samples in memory.
func TestPieceOfAStorageThatIsDown(t *testing.T) {
	set := newStoredSet(t, 8)
	set.down = storage.Overdue("a file", 0, 1, time.Minute)
	set.ready[3], set.ready[6] = true, true
	cfg := testStream(t, set, plan.Config{Samples: 8, BatchSize: 8}, 1)
	piece, made := Piece{Slot: newSlots(1, 8, cfg.Views[0])[0], Indices: []int{0, 1, 2, 3, 4, 5, 6, 7}}, make([]bool, 8)
	testenv.OK(t, newTestPool(t, 2).Make(t.Context(), &cfg, &piece, made))
	testenv.DeepEqual(t, made, []bool{3: true, 6: true, 7: false}, "samples that are made")
}

// TestPrefetchFromAStorageThatHangs closes a stream while its reads hang: that does not wait for them, and their memory comes back
// after them.
func TestPrefetchFromAStorageThatHangs(t *testing.T) {
	var mu sync.Mutex
	var told []int
	pool := NewPool(PoolConfig{Threads: 2, ReadAheadBytes: 16 << 20, Reading: func(processors int) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, processors)
	}})
	set := newStoredSet(t, 500)
	set.block = make(chan struct{})
	goroutines := runtime.NumGoroutine()
	stream := testenv.Must(pool.NewStream(testStream(t, set, plan.Config{Samples: 500, BatchSize: 10}, 3)))(t)
	testenv.Until(t, func() bool { _, inFlight := set.state(); return inFlight == set.reading })
	stream.Close()
	close(set.block)
	testenv.Until(t, func() bool { // the memory has come back
		mu.Lock()
		defer mu.Unlock()
		return slices.Equal(told, []int{1, 0})
	})
	testenv.Until(t, func() bool { return runtime.NumGoroutine() <= goroutines })
	pool.Close()
}

// TestPrefetchAllocatesNothing serves epochs of which one is four times as long as the other, from a storage and into memory that is short.
func TestPrefetchAllocatesNothing(t *testing.T) {
	pool := NewPool(PoolConfig{Threads: 2, ReadAheadBytes: 8 << 20})
	defer pool.Close()
	allocated := func(samples int) uint64 {
		set := newStoredSet(t, 100)
		set.bytes = 100 << 10
		selection := testenv.Must(plan.NewSelection(plan.SelectionConfig{Samples: 100, Repeats: samples / 100, Positions: samples}))(t)
		cfg := testStream(t, set, plan.Config{Samples: 100, BatchSize: 50, Selection: selection}, 3)
		set.fetched = make([]int, 0, samples)
		stream := testenv.Must(pool.NewStream(cfg))(t)
		defer stream.Close()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for {
			b, err := stream.Next(context.Background())
			if err != nil {
				break
			}
			cfg.Slots.Put(b.Slot)
		}
		runtime.ReadMemStats(&after)
		return after.Mallocs - before.Mallocs
	}
	allocated(1000)
	short, long := allocated(2000), allocated(8000)
	testenv.Check(t, long <= short+300, "6,000 samples more take %d allocations more", long-short)
}

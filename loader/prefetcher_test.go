package loader

import (
	"bytes"
	"context"
	"errors"
	"io"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/imgfeed/imgfeed/internal/image/pixelcodec"
	"github.com/imgfeed/imgfeed/loader/plan"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/storage"
)

// A storedSet is a memorySet whose samples lie in a storage that tests look at: sample i at offset i, with so many bytes.
type storedSet struct {
	*memorySet
	bytes  int64
	reads  int           // that pay at a time
	block  chan struct{} // each fetch waits for it; nil: none does
	delay  time.Duration // of each fetch
	failed map[int]bool  // samples whose fetch fails

	mu      sync.Mutex
	ready   map[int]bool
	asked   int
	fetched []int // in the order in which fetches began
	under   int
	most    int // under way at a time
	used    int // of what was fetched
}

func newStoredSet(t *testing.T, samples int) *storedSet {
	s := &storedSet{memorySet: newMemorySet(t, samples), bytes: 1 << 20, reads: 4, ready: map[int]bool{}}
	return s
}

func (s *storedSet) Range(i int) (storage.Range, error) {
	return storage.Range{File: storedFile{s}, Offset: int64(i), Length: s.bytes}, nil
}

func (s *storedSet) Read(i int, from Access) (shard.Record, []byte, error) {
	if from.Bytes == nil || from.Err != nil || s.bad[i] != nil {
		return s.memorySet.Read(i, from)
	}
	blob := s.blobs[i]
	if !bytes.Equal(from.Bytes[:len(blob)], blob) {
		return shard.Record{}, from.Buf, errors.New("other bytes")
	}
	record, buf, err := s.memorySet.Read(i, Access{Buf: from.Buf})
	record.Image = from.Bytes[:len(blob):len(from.Bytes)]
	s.mu.Lock()
	s.used++
	s.mu.Unlock()
	return record, buf, err
}

func (s *storedSet) setReady(ready bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.blobs {
		s.ready[i] = ready
	}
}

func (s *storedSet) state() (fetched []int, under int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.fetched), s.under
}

// storedFile is what a storedSet's samples lie in.
type storedFile struct{ set *storedSet }

func (f storedFile) ReadAt([]byte, int64) (int, error) { return 0, errors.ErrUnsupported }

func (f storedFile) Close() error { return nil }

func (f storedFile) Size() int64 { return int64(len(f.set.blobs)) }

func (f storedFile) ReadsMax() int { return f.set.reads }

func (f storedFile) WillNeed(offset, _ int64) bool {
	f.set.mu.Lock()
	defer f.set.mu.Unlock()
	f.set.asked++
	return f.set.ready[int(offset)]
}

func (f storedFile) Fetch(buf []byte, offset, length int64) ([]byte, error) {
	s := f.set
	s.mu.Lock()
	s.fetched = append(s.fetched, int(offset))
	s.under++
	s.most = max(s.most, s.under)
	s.mu.Unlock()
	if s.block != nil {
		<-s.block
	}
	time.Sleep(s.delay)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.under--
	if s.failed[int(offset)] {
		return nil, io.ErrUnexpectedEOF
	}
	n := copy(buf, s.blobs[offset])
	clear(buf[n : n+pixelcodec.SlackBytes])
	return buf[:length], nil
}

// eventually waits until something is true that a goroutine is about to bring about.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for began := time.Now(); !is(); time.Sleep(time.Millisecond) {
		if time.Since(began) > 10*time.Second {
			t.Fatalf("%s did not come about", what)
		}
	}
}

// indices returns all samples of a plan.
func indices(p *plan.Plan) (all []int) {
	for b := range p.Batches() {
		all = append(all, p.Batch(b, nil)...)
	}
	return all
}

func (m *readMemory) left() (users int, free int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.free {
		free += int64(e.to - e.from)
	}
	return len(m.users), free
}

// TestPrefetchOrder checks that samples are read in the plan's order, from where a checkpoint goes on, and no more at a time than pay.
func TestPrefetchOrder(t *testing.T) {
	for _, reads := range []int{1, 4} {
		set := newStoredSet(t, 300)
		set.reads, set.block, set.gate = reads, make(chan struct{}), make(chan struct{})
		cfg := testStream(t, set, plan.Config{Samples: 300, BatchSize: 8, Shuffle: true, Seed: 3, Epoch: 4, Consumed: 16}, 3)
		stream, err := newTestPool(t, 1).NewStream(cfg)
		if err != nil {
			t.Fatal(err)
		}
		want := indices(cfg.Plan)
		for n := range 40 {
			var fetched []int
			eventually(t, "the next reads", func() bool { fetched, _ = set.state(); return len(fetched) >= n+reads })
			first := slices.Index(want, fetched[0])
			if first > turnSamplesMax+chunkFor(8, 1) { // workers come to the first ones by themselves
				t.Fatalf("sample %d of the plan is read first", first)
			}
			// Several goroutines read at the same moment: of as many as may be under way the order is not known.
			slices.Sort(fetched[n : n+reads])
			if due := slices.Sorted(slices.Values(want[first+n : first+n+reads])); reads == 1 && !slices.Equal(fetched[n:n+reads], due) {
				t.Fatalf("%v is read, and due is %v", fetched[n:n+reads], due)
			}
			set.block <- struct{}{}
		}
		close(set.block)
		close(set.gate)
		stream.Close()
		set.mu.Lock()
		if set.most > reads {
			t.Errorf("%d reads were under way, and %d pay", set.most, reads)
		}
		set.mu.Unlock()
	}
}

// TestPrefetchIsBounded checks that no more is read ahead than there is memory for, by one stream and by two.
func TestPrefetchIsBounded(t *testing.T) {
	pool := NewPool(PoolConfig{Threads: 1, ReadAheadBytes: 40 << 20})
	defer pool.Close()
	gate := make(chan struct{})
	open := func() (*storedSet, *Stream) {
		set := newStoredSet(t, 1000)
		set.gate, set.reads = gate, 8
		stream, err := pool.NewStream(testStream(t, set, plan.Config{Samples: 1000, BatchSize: 10}, 2))
		if err != nil {
			t.Fatal(err)
		}
		return set, stream
	}
	fetched := func(s *storedSet) int { f, _ := s.state(); return len(f) }
	set, stream := open()
	eventually(t, "use of the memory", func() bool { return fetched(set) >= 39 }) // with a page or two for each
	set2, stream2 := open()
	time.Sleep(20 * time.Millisecond)
	if a, b := fetched(set), fetched(set2); a > 40 || b > 2 {
		t.Errorf("%d and %d samples of a MiB are read ahead, into 40 MiB", a, b)
	}
	closed := make(chan struct{})
	go func() { stream.Close(); close(closed) }()
	for done := false; !done; {
		select {
		case gate <- struct{}{}:
		case <-closed:
			done = true
		}
	}
	// The memory that the first had is the second's now.
	eventually(t, "use of the memory by the other stream", func() bool { return fetched(set2) >= 39 })
	close(gate)
	stream2.Close()
	if users, _ := pool.memory.left(); users != 0 || pool.memory.bytes != nil {
		t.Errorf("%d streams have memory after the last was closed", users)
	}
}

// TestPrefetchServesThePlan compares what is served with what a set in memory gives, whatever is read ahead: all or little, in time or not, failed or
// at hand.
func TestPrefetchServesThePlan(t *testing.T) {
	for name, change := range map[string]func(*storedSet){
		"all":     func(*storedSet) {},
		"some":    func(s *storedSet) { s.bytes = 3 << 20 },
		"large":   func(s *storedSet) { s.bytes = 100 << 20 },
		"fails":   func(s *storedSet) { s.failed = map[int]bool{3: true, 77: true, 200: true} },
		"at hand": func(s *storedSet) { s.setReady(true) },
		"half": func(s *storedSet) {
			for i := 0; i < len(s.blobs); i += 2 {
				s.ready[i] = true
			}
		},
	} {
		set := newStoredSet(t, 600)
		change(set)
		pool := NewPool(PoolConfig{Threads: 3, ReadAheadBytes: 16 << 20})
		for epoch := range 2 {
			cfg := testStream(t, set, plan.Config{Samples: 600, BatchSize: 7, Shuffle: true, Epoch: epoch}, 4)
			got, err := serve(t, pool, cfg)
			if err != nil {
				t.Fatal(err)
			}
			want := expect(t, set.memorySet, cfg)
			if !bytes.Equal(got.images, want.images) || !slices.Equal(got.labels, want.labels) || !slices.Equal(got.indices, want.indices) {
				t.Errorf("%s, epoch %d: other samples are served", name, epoch)
			}
		}
		eventually(t, name+": memory given back", func() bool { users, _ := pool.memory.left(); return users == 0 })
		fetched, _ := set.state()
		if name == "at hand" && (len(fetched) > 0 || set.asked > 2*(readyMax+600/probeAt)) {
			t.Errorf("%d samples at hand are read, %d looked at", len(fetched), set.asked)
		}
		if name == "all" && set.used == 0 {
			t.Error("nothing that was read ahead was used")
		}
		if unused := len(fetched) - set.used - len(set.failed)*2; unused > 0 {
			t.Errorf("%s: %d samples were read ahead and not used", name, unused)
		}
		pool.Close()
	}
}

// TestPrefetchRests leaves a set alone that is at hand, and notices when it no longer is.
func TestPrefetchRests(t *testing.T) {
	set := newStoredSet(t, 2000)
	set.bytes = 1000
	set.setReady(true)
	cfg := testStream(t, set, plan.Config{Samples: 2000, BatchSize: 100}, 1)
	stream, err := newTestPool(t, 1).NewStream(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	eventually(t, "rest", stream.prefetcher.resting.Load)
	set.setReady(false)
	for range 3 {
		b, err := stream.Next(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		cfg.Slots.Put(b.Slot)
	}
	eventually(t, "that samples are read again", func() bool { f, _ := set.state(); return len(f) > 0 })
}

// TestPrefetchOfABadSample leaves it to the worker to say what is wrong with a sample, when its batch is due.
func TestPrefetchOfABadSample(t *testing.T) {
	set := newStoredSet(t, 60)
	set.bad[33], set.failed = io.ErrUnexpectedEOF, map[int]bool{33: true}
	cfg := testStream(t, set, plan.Config{Samples: 60, BatchSize: 10}, 2)
	served, err := serve(t, newTestPool(t, 2), cfg)
	bad, ok := err.(*SampleError)
	if !ok || bad.Index != 33 || !errors.Is(err, io.ErrUnexpectedEOF) || len(served.batches) != 3 {
		t.Errorf("%d batches, then %v; want 3 and an error of sample 33", len(served.batches), err)
	}
}

// TestPrefetchFromAStorageThatHangs closes a stream while its reads hang: that does not wait for them, and their memory comes back after them.
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
	stream, err := pool.NewStream(testStream(t, set, plan.Config{Samples: 500, BatchSize: 10}, 3))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "all reads", func() bool { _, under := set.state(); return under == set.reads })
	within(t, "closing", stream.Close)
	if users, _ := pool.memory.left(); users != 1 {
		t.Error("the memory that is read into was given back")
	}
	close(set.block)
	eventually(t, "end of reading", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return slices.Equal(told, []int{processorsReading, 0})
	})
	eventually(t, "end of the readers", func() bool { return runtime.NumGoroutine() <= goroutines })
	within(t, "closing the pool", pool.Close)
}

// TestPrefetchAllocatesNothing serves epochs of which one is four times as long as the other, from a storage and into memory that is short.
func TestPrefetchAllocatesNothing(t *testing.T) {
	pool := NewPool(PoolConfig{Threads: 2, ReadAheadBytes: 8 << 20})
	defer pool.Close()
	allocated := func(samples int) uint64 {
		set := newStoredSet(t, 100)
		set.bytes = 100 << 10
		cfg := testStream(t, &repeatedSet{Dataset: set, step: 1, count: 100}, plan.Config{Samples: samples, BatchSize: 50}, 3)
		set.fetched = make([]int, 0, samples)
		stream, err := pool.NewStream(cfg)
		if err != nil {
			t.Fatal(err)
		}
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
	if long > short+2000 { // a read has three values of its own when it is prepared for the first time
		t.Errorf("6,000 samples more take %d allocations more", long-short)
	}
}

// TestPiecesOfMemory takes and gives pieces at random, which never overlap and come together again.
func TestPiecesOfMemory(t *testing.T) {
	m := &readMemory{max: 1 << 20}
	p := &prefetcher{wake: make(chan struct{}, 1), memory: m}
	var pieces []piece
	for k := range 5000 {
		if k%3 != 0 || len(pieces) == 0 {
			got, fits := m.take(p, nil, int64(1+k*7919%60000))
			if !fits {
				t.Fatal("a piece does not fit that is smaller than the memory")
			}
			if got.bytes == nil {
				continue
			}
			for _, other := range pieces {
				if got.from < other.to && other.from < got.to {
					t.Fatalf("%v overlaps %v", got.extent, other.extent)
				}
			}
			pieces = append(pieces, got)
			continue
		}
		i := k * 104729 % len(pieces)
		m.give(pieces[i])
		pieces = slices.Delete(pieces, i, i+1)
	}
	for _, one := range pieces {
		m.give(one)
	}
	if len(m.free) != 1 || m.free[0] != (extent{0, 1 << 20}) {
		t.Errorf("free is %v", m.free)
	}
	if _, fits := m.take(p, nil, 1<<20+1); fits {
		t.Error("more fits than there is")
	}
	m.leave(p)
	if m.bytes != nil {
		t.Error("the memory is kept")
	}
}

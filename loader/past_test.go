package loader

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/imgfeed/imgfeed/loader/plan"
)

func (s *diskSet) Room() float64 { return s.share }

func (s *diskSet) Direct(bytes int64, count int) (Direct, error) {
	if s.places == 0 {
		return nil, errors.New("no files")
	}
	time.Sleep(s.opening) // workers come to samples meanwhile
	d := &fakeDirect{set: s, memory: bytes, held: map[int64]int{}, waiting: map[int64]bool{}, passed: map[int64]bool{}}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.direct = append(s.direct, d)
	return d, nil
}

// fakeDirect reads a diskSet past its page cache, which it has none of.
type fakeDirect struct {
	set    *diskSet
	memory int64

	mu      sync.Mutex
	held    map[int64]int  // sample by number, from Start to Release
	waiting map[int64]bool // of which those that nobody has taken
	passed  map[int64]bool // numbers that were not started when they were wanted
	started []int          // past the page cache
	cached  []int          // through it
	taken   int
	most    int // held at a time
	closed  bool
}

func (d *fakeDirect) Start(n int64, i int, cached bool) (int64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.passed[n] {
		return d.set.size, nil
	}
	if len(d.held) >= d.set.places {
		return 0, nil
	}
	d.held[n], d.waiting[n] = i, true
	if d.most = max(d.most, len(d.held)); cached {
		d.cached = append(d.cached, i)
	} else {
		d.started = append(d.started, i)
	}
	return d.set.size, nil
}

func (d *fakeDirect) Take(n int64) (Record, bool, error) {
	d.mu.Lock()
	i, held := d.held[n], d.waiting[n]
	delete(d.waiting, n)
	d.passed[n] = !held
	d.taken++
	lost := held && d.set.lost > 0 && d.taken%d.set.lost == 0
	d.mu.Unlock()
	if !held || lost {
		return Record{}, held, errors.New("lost")
	}
	r, _, err := d.set.memorySet.Read(i, nil)
	return r, true, err
}

func (d *fakeDirect) Release(n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, held := d.held[n]; !held {
		panic("a number is released that is not held")
	}
	delete(d.held, n)
}

func (d *fakeDirect) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
}

// TestPastThePageCache serves a set of which a quarter has room in the page cache: always the same samples come into it, the others are
// read past it, and what is served is what it always is, also where reads fail or have no room.
func TestPastThePageCache(t *testing.T) {
	for _, c := range []struct{ places, lost int }{{1000, 0}, {3, 0}, {20, 3}} {
		set := newDiskSet(t, 300)
		set.share, set.places, set.lost, set.size = 0.25, c.places, c.lost, 1000
		if c.places < 1000 {
			set.opening = 200 * time.Microsecond
		}
		pool := newTestPool(t, 3)
		cached, past := map[int]bool{}, map[int]bool{}
		for epoch := range 2 {
			cfg := testStream(t, set, plan.Config{Samples: 300, BatchSize: 7, Shuffle: true, Epoch: epoch}, 4)
			got, err := serve(t, pool, cfg)
			if err != nil {
				t.Fatal(err)
			}
			want := expect(t, set.memorySet, cfg)
			if !bytes.Equal(got.images, want.images) || !slices.Equal(got.labels, want.labels) || !slices.Equal(got.indices, want.indices) {
				t.Errorf("%+v, epoch %d: other samples are served", c, epoch)
			}
		}
		for _, d := range set.direct {
			eventually(t, "the end of reading", func() bool { d.mu.Lock(); defer d.mu.Unlock(); return d.closed })
			for _, i := range d.started {
				past[i] = true
			}
			for _, i := range d.cached {
				cached[i] = true
			}
			if len(d.waiting) > 0 {
				t.Errorf("%+v: %d samples were read that nobody took: %v", c, len(d.waiting), d.waiting)
			}
			if d.most > c.places {
				t.Errorf("%+v: %d samples are held", c, d.most)
			}
		}
		if c.places < 1000 {
			continue
		}
		for i := range cached {
			if past[i] {
				t.Errorf("sample %d is read past the page cache in one epoch and through it in another", i)
			}
		}
		if len(past) < 150 || len(past) > 260 {
			t.Errorf("%d of 300 samples were read past the page cache, a quarter of which has room there", len(past))
		}
	}
}

// TestPartsComeIntoThePageCache checks that of a set that fits each sample comes into the page cache in one of so many epochs, by what is
// waited for and whether hints are dropped, and about as many in each.
func TestPartsComeIntoThePageCache(t *testing.T) {
	const samples = 1000
	set := newDiskSet(t, samples)
	set.places = 1
	for _, c := range []struct {
		slow   bool
		limit  WaitingFor
		epochs int
	}{{false, CPU, 2}, {false, Disk, 1}, {false, Client, 1}, {true, CPU, 16}, {true, Disk, 2}, {true, Client, 1}} {
		times := map[int]int{}
		for epoch := range c.epochs {
			p := pastCache{
				stream: &Stream{pool: newTestPool(t, 1), began: time.Now().Add(-time.Minute), epoch: epoch, cfg: StreamConfig{Dataset: set}},
				room:   1, slow: c.slow,
			}
			switch c.limit {
			case Disk:
				p.stream.pool.workers[0].counters.read.Store(1e9)
			case Client:
				p.stream.rest.begin(time.Second)
			}
			cached := 0
			for i := range samples {
				if !p.wants(i) {
					times[i]++
					cached++
				}
			}
			if mean := samples / c.epochs; cached < mean*9/10 || cached > mean*11/10 {
				t.Errorf("%+v: %d samples of %d come into the page cache in epoch %d", c, cached, samples, epoch)
			}
		}
		for i := range samples {
			if times[i] != 1 {
				t.Fatalf("%+v: sample %d is read through the page cache in %d of the epochs", c, i, times[i])
			}
		}
	}
}

// TestHintsThatAreDropped has everything read into a stream's memory where hints may be dropped, the sixteenth too that comes into the page
// cache, although it can be told without waiting what is there. A disk is given hints for its half.
func TestHintsThatAreDropped(t *testing.T) {
	for _, drops := range []bool{false, true} {
		set := newDiskSet(t, 100)
		set.drops, set.places, set.size, set.gate = drops, 1000, 1000, make(chan struct{})
		stream, err := newTestPool(t, 1).NewStream(testStream(t, set, plan.Config{Samples: 100, BatchSize: 10}, 2))
		if err != nil {
			t.Fatal(err)
		}
		var past, cached, hints int
		eventually(t, "that all samples are asked for", func() bool {
			asked, _ := set.state()
			hints = len(asked)
			set.mu.Lock()
			defer set.mu.Unlock()
			if len(set.direct) == 0 {
				return false
			}
			d := set.direct[0]
			d.mu.Lock()
			defer d.mu.Unlock()
			past, cached = len(d.started), len(d.cached)
			return past+cached+hints >= 99 // the worker waits with one
		})
		// Hinted all the same: what a worker may have come to before there was memory, with the sample that it has, and the next epoch's first.
		if early := turnSamples + 2; drops && (hints > early || cached < 2 || cached > 20) || !drops && (hints < 20 || cached > 0) || past < 20 {
			t.Errorf("drops %v: %d samples are read past the page cache, %d through it, and hints given for %d", drops, past, cached, hints)
		}
		close(set.gate)
		stream.Close()
	}
}

// TestNoWayPastThePageCache says once that there is none, and serves all the same.
func TestNoWayPastThePageCache(t *testing.T) {
	set := newDiskSet(t, 100)
	set.share = 0
	pool := newTestPool(t, 2)
	var log bytes.Buffer
	for range 3 {
		cfg := testStream(t, set, plan.Config{Samples: 100, BatchSize: 10}, 3)
		cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
		if got, err := serve(t, pool, cfg); err != nil || len(got.labels) != 100 {
			t.Errorf("%d samples, %v", len(got.labels), err)
		}
	}
	if n := strings.Count(log.String(), "no files"); n != 1 {
		t.Errorf("it is said %d times:\n%s", n, log.String())
	}
}

// TestMemoryForReadingAhead opens more streams than there is memory for, and closes them while samples are read.
func TestMemoryForReadingAhead(t *testing.T) {
	var mu sync.Mutex
	var told []bool
	pool := NewPool(PoolConfig{Threads: 1, ReadAheadBytes: 8 << 20, Reading: func(reading bool) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, reading)
	}})
	defer pool.Close()
	var streams []*Stream
	var sets []*diskSet
	for range 20 {
		set := newDiskSet(t, 50)
		set.share, set.places = 0, 10
		stream, err := pool.NewStream(testStream(t, set, plan.Config{Samples: 50, BatchSize: 10}, 1))
		if err != nil {
			t.Fatal(err)
		}
		if b, err := stream.Next(context.Background()); err != nil {
			t.Fatal(err)
		} else {
			stream.cfg.Slots.Put(b.Slot)
		}
		streams, sets = append(streams, stream), append(sets, set)
		if held := pool.ahead.held.Load(); held > 8<<20 {
			t.Errorf("%d streams hold %d bytes", len(streams), held)
		}
	}
	if len(sets[0].direct) == 0 || sets[0].direct[0].memory < directBytesMin {
		t.Error("the first stream has no memory to read into")
	}
	for _, s := range streams {
		s.Close()
	}
	eventually(t, "all memory", func() bool { return pool.ahead.held.Load() == 0 && pool.ahead.cold.Load() == 0 })
	eventually(t, "word that nothing is read", func() bool {
		mu.Lock()
		defer mu.Unlock()
		for k, reading := range told {
			if reading != (k%2 == 0) {
				t.Fatalf("told in turn that samples are read: %v", told)
			}
		}
		return len(told) > 0 && len(told)%2 == 0
	})
	for i, set := range sets {
		for _, d := range set.direct {
			if !d.closed {
				t.Error(fmt.Sprint("set ", i, " is still read"))
			}
		}
	}
}

// TestMemoryOfAStreamThatEnded is had by one that began before.
func TestMemoryOfAStreamThatEnded(t *testing.T) {
	pool := NewPool(PoolConfig{Threads: 1, ReadAheadBytes: 8 << 20})
	defer pool.Close()
	open := func(samples int) (*diskSet, *Stream) {
		set := newDiskSet(t, samples)
		set.places = 10
		stream, err := pool.NewStream(testStream(t, set, plan.Config{Samples: samples, BatchSize: 10}, 1))
		if err != nil {
			t.Fatal(err)
		}
		return set, stream
	}
	has := func(s *diskSet) bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.direct) > 0 }
	next := func(s *Stream) {
		b, err := s.Next(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		s.cfg.Slots.Put(b.Slot)
	}
	first, stream := open(100)
	next(stream)
	eventually(t, "memory for the first stream", func() bool { return has(first) })
	second, stream2 := open(10_000)
	defer stream2.Close()
	next(stream2)
	if has(second) {
		t.Error("there is memory for a second stream, and the first has it")
	}
	stream.Close()
	batches := 0
	eventually(t, "memory for the second stream", func() bool {
		if batches++; batches < 900 {
			next(stream2)
		}
		return has(second)
	})
}

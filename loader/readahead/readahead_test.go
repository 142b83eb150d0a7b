package readahead

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/imgfeed/imgfeed/shard"
)

// A slowSet has samples of a byte that take a second to fetch.
type slowSet struct {
	bytes  int
	reads  int           // that pay at a time
	hang   chan struct{} // Fetch waits for it; nil: it does not
	failed map[int]bool

	mu       sync.Mutex
	ready    func(i int) bool
	asked    int
	fetched  []int // in the order in which they began
	inFlight int
	most     int // in flight at a time
	waited   int
}

func newSlowSet(reads int) *slowSet {
	return &slowSet{bytes: 1 << 20, reads: reads, ready: func(int) bool { return false }}
}

func (s *slowSet) WillNeed(i int) (shard.Need, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if s.ready(i) {
		return shard.Need{Ready: true}, nil
	}
	return shard.Need{Bytes: s.bytes, ReadsMax: s.reads}, nil
}

func (s *slowSet) Fetch(i int, buf []byte) ([]byte, error) {
	s.mu.Lock()
	s.fetched = append(s.fetched, i)
	s.inFlight++
	s.most = max(s.most, s.inFlight)
	s.mu.Unlock()
	time.Sleep(time.Second + time.Duration(i)) // later ones end later
	if s.hang != nil {
		<-s.hang
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight--
	if s.failed[i] {
		return nil, io.ErrUnexpectedEOF
	}
	buf[0] = byte(i)
	return buf[:1], nil
}

func (s *slowSet) Check(_ int, bytes []byte, err error) (shard.Record, error) {
	return shard.Record{Image: bytes}, err
}

func (s *slowSet) Waited(int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waited++
}

func (s *slowSet) became(ready func(i int) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready = ready
}

// reversed is a plan of samples n-1 to 0.
func reversed(set Set, n int) Config {
	return Config{Set: set, Batches: n / 10, BatchSize: 10, Batch: func(k int, buf []int) []int {
		buf = buf[:0]
		for i := range 10 {
			buf = append(buf, n-1-10*k-i)
		}
		return buf
	}}
}

// use takes samples as a worker does, and returns how many of them were read ahead.
func use(t *testing.T, q *Queue, set *slowSet, n, first, end int) (ahead int) {
	t.Helper()
	for number := first; number < end; number++ {
		q.Begin(int64(number + 1))
		l, err := q.Take(int64(number))
		time.Sleep(2 * time.Second) // for decoding
		i := n - 1 - number
		switch {
		case l == nil && err == nil:
			continue
		case set.failed[i] != (err != nil), err == nil && l.Record.Image[0] != byte(i):
			t.Errorf("sample %d: %v, %v", i, l, err)
		}
		ahead++
		l.Release()
	}
	return ahead
}

// inPool runs a test with a pool of so many MiB, and checks that it has given its memory back in the end.
func inPool(t *testing.T, mib int64, test func(t *testing.T, p *Pool, ctx context.Context)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var told []int
		p := NewPool(mib<<20, func(processors int) { told = append(told, processors) })
		ctx, cancel := context.WithCancel(t.Context())
		test(t, p, ctx)
		cancel()
		synctest.Wait()
		if len(p.queues) > 0 || len(p.taken) > 0 {
			t.Errorf("%d queues have memory in the end: %v", len(p.queues), p.taken)
		}
		if len(told) > 0 && told[len(told)-1] != 0 {
			t.Errorf("%v processors", told)
		}
	})
}

// TestOrder reads in the order of the plan, no more at a time than pay, all samples and each once.
func TestOrder(t *testing.T) {
	for _, reads := range []int{1, 4, 64} {
		inPool(t, 64, func(t *testing.T, p *Pool, ctx context.Context) {
			set := newSlowSet(reads)
			set.failed = map[int]bool{7: true}
			q := p.Open(ctx, reversed(set, 600))
			q.Await(false)
			if ahead := use(t, q, set, 600, 0, 600); ahead != 600 || set.most != reads || set.waited == 0 {
				t.Errorf("%d reads: %d samples were read ahead, %d at a time, %d waited for", reads, ahead, set.most, set.waited)
			}
			// Goroutines that begin at the same moment do so in any order.
			for k := range set.fetched {
				if due := 599 - k; set.fetched[k] < due-reads || set.fetched[k] > due+reads || reads == 1 && set.fetched[k] != due {
					t.Fatalf("sample %d is read where %d is due", set.fetched[k], due)
				}
			}
		})
	}
}

// settle waits until nothing more happens.
func settle() {
	time.Sleep(time.Minute)
	synctest.Wait()
}

// TestBounds reads no more ahead than there is memory for, by one queue and by two, which share it.
func TestBounds(t *testing.T) {
	inPool(t, 40, func(t *testing.T, p *Pool, ctx context.Context) {
		one, two := newSlowSet(8), newSlowSet(8)
		ctx1, cancel := context.WithCancel(ctx)
		q1 := p.Open(ctx1, reversed(one, 1000))
		settle()
		q2 := p.Open(ctx, reversed(two, 1000))
		settle()
		if len(one.fetched) != 40 || len(two.fetched) != 0 {
			t.Errorf("%d and %d samples of a MiB are read ahead, into 40", len(one.fetched), len(two.fetched))
		}
		use(t, q1, one, 1000, 0, 30)
		settle()
		if held1, held2 := q1.held>>20, q2.held>>20; held1 > 20 || held2 != 20 {
			t.Errorf("the queues hold %d and %d MiB", held1, held2)
		}
		cancel()
		settle()
		if len(two.fetched) != 40 {
			t.Errorf("%d samples are read ahead once the other queue is over", len(two.fetched))
		}
		two.bytes = 41 << 20
		if use(t, q2, two, 1000, 0, 1000); len(two.fetched) > 41 {
			t.Errorf("%d samples are read, of which 40 fit", len(two.fetched))
		}
	})
}

// TestPause leaves samples alone that are in memory, and notices when they no longer are.
func TestPause(t *testing.T) {
	inPool(t, 40, func(t *testing.T, p *Pool, ctx context.Context) {
		set := newSlowSet(4)
		set.became(func(int) bool { return true })
		q := p.Open(ctx, reversed(set, 2000))
		q.Await(false)
		synctest.Wait()
		if !q.Paused() || set.asked != readyMax {
			t.Errorf("paused: %v, after %d samples", q.Paused(), set.asked)
		}
		if use(t, q, set, 2000, 0, 1000) > 0 || len(set.fetched) > 0 {
			t.Error("samples in memory were read")
		}
		q.Probe(make([]int, 160), 1000)
		if set.asked != readyMax+10 {
			t.Errorf("%d of 160 samples were looked at", set.asked-readyMax)
		}
		set.became(func(i int) bool { return i%2 == 0 })
		q.Probe([]int{1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31}, 1000)
		synctest.Wait()
		if ahead := use(t, q, set, 2000, 1000, 2000); ahead < 450 || len(set.fetched) != ahead {
			t.Errorf("%d of 500 samples were read ahead, %d read", ahead, len(set.fetched))
		}
	})
}

// TestHang ends a queue while its reads hang. Nobody waits for them, and their memory comes back after them.
func TestHang(t *testing.T) {
	inPool(t, 40, func(t *testing.T, p *Pool, ctx context.Context) {
		set := newSlowSet(4)
		set.hang = make(chan struct{})
		ctx, cancel := context.WithCancel(ctx)
		q := p.Open(ctx, reversed(set, 100))
		q.Await(false)
		var worker sync.WaitGroup
		worker.Go(func() {
			q.Begin(1)
			if l, err := q.Take(0); l != nil || !errors.Is(err, context.Canceled) {
				t.Errorf("a worker gets %v, %v", l, err)
			}
		})
		time.Sleep(time.Hour)
		cancel()
		worker.Wait()
		synctest.Wait()
		if q.held != 4<<20 {
			t.Errorf("%d bytes are read into", q.held)
		}
		close(set.hang)
	})
}

// TestRemotesTakeMost reads few samples ahead that remotes take, and gives back those that they took.
func TestRemotesTakeMost(t *testing.T) {
	inPool(t, 256, func(t *testing.T, p *Pool, ctx context.Context) {
		set := newSlowSet(8)
		q := p.Open(ctx, reversed(set, 4000))
		for batch := range 400 {
			first := 10 * batch
			use(t, q, set, 4000, first, first+2)
			q.Begin(int64(first + 10))
			q.Finish(int64(first), 10, 2)
		}
		if len(set.fetched) > 400*3+300 {
			t.Errorf("%d samples are read ahead, and workers take 800", len(set.fetched))
		}
	})
}

// TestAwait reads a piece at once.
func TestAwait(t *testing.T) {
	inPool(t, 40, func(t *testing.T, p *Pool, ctx context.Context) {
		set, began := newSlowSet(64), time.Now()
		q := p.Open(ctx, reversed(set, 60))
		if q.Await(true); len(set.fetched) != 40 || time.Since(began) > 2*time.Second {
			t.Errorf("%d samples are read after %v", len(set.fetched), time.Since(began))
		}
		if ahead := use(t, q, set, 60, 0, 60); ahead != 60 {
			t.Errorf("%d samples were read ahead", ahead)
		}
	})
}

// TestArena takes and gives extents at random, which never overlap, and all of it at the end.
func TestArena(t *testing.T) {
	p := NewPool(1<<20, nil)
	q := &Queue{pool: p, cfg: reversed(nil, 10)}
	var leases []*Lease
	for k := range 5000 {
		if k%3 != 0 || len(leases) == 0 {
			got, fits := p.takeLocked(q, shard.Need{Bytes: 1 + k*7919%60000})
			if !fits {
				t.Fatal("an extent does not fit that is smaller than the memory")
			}
			if got == nil {
				continue
			}
			for _, l := range leases {
				if got.from < l.to && l.from < got.to {
					t.Fatalf("%d to %d overlaps %d to %d", got.from, got.to, l.from, l.to)
				}
			}
			leases = append(leases, got)
			continue
		}
		i := k * 104729 % len(leases)
		p.giveLocked(leases[i])
		leases = slices.Delete(leases, i, i+1)
	}
	for _, one := range leases {
		p.giveLocked(one)
	}
	if len(p.taken) > 0 || q.held != 0 {
		t.Errorf("%v is taken, %d held", p.taken, q.held)
	}
	if got, _ := p.takeLocked(q, shard.Need{Bytes: 1 << 20}); got == nil || got.to-got.from != 1<<20 {
		t.Errorf("of the whole memory %+v is free", got)
	}
	if _, fits := p.takeLocked(q, shard.Need{Bytes: 1<<20 + 1}); fits {
		t.Error("more fits than there is")
	}
}

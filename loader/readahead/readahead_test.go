package readahead

import (
	"context"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/imgfeed/imgfeed/internal/testenv"
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
	limit    time.Duration // of the Needs
	batch    *Batch        // that use is in
	left     int           // its samples that use has not taken
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
	return shard.Need{Bytes: s.bytes, ReadsMax: s.reads, Timeout: s.limit}, nil
}

func (s *slowSet) MayHang() bool { return s.limit > 0 }

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
	return Config{Set: set, Batches: n / 10, Batch: func(k int, buf []int) []int {
		buf = buf[:0]
		for i := range 10 {
			buf = append(buf, n-1-10*k-i)
		}
		return buf
	}, Landed: func() {}, Waits: func(bool) {}, Down: func(int, time.Duration) {}}
}

// publish publishes a batch of the plan.
func publish(q *Queue, k int) *Batch { return q.Publish(k, q.cfg.Batch(k, nil), nil) }

// use takes samples as a worker does, batch after batch, and returns how many of them were read ahead.
func use(t *testing.T, q *Queue, set *slowSet, n, first, end int) (ahead int) {
	t.Helper()
	for number := first; number < end; number++ {
		if set.left == 0 {
			set.batch, set.left = publish(q, number/10), 10
		}
		var taken []Sample
		for len(taken) == 0 {
			if taken = set.batch.Take(1, nil); len(taken) == 0 {
				time.Sleep(100 * time.Millisecond)
			}
		}
		s, l := taken[0], taken[0].Lease
		time.Sleep(2 * time.Second) // for decoding
		testenv.Check(t, s.Index == n-1-10*(number/10)-s.Position, "sample %d of batch %d is %d", s.Position, number/10, s.Index)
		if l != nil {
			record, err := l.Record()
			testenv.Check(t, set.failed[s.Index] == (err != nil) && (err != nil || record.Image[0] == byte(s.Index)),
				"sample %d: %v, %v", s.Index, record, err)
			ahead++
		}
		set.batch.Take(0, taken)
		if set.left--; set.left == 0 {
			set.batch.Finish()
		}
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
		settle()
		testenv.Check(t, len(p.queues) == 0 && len(p.taken) == 0, "%d queues have memory in the end: %v", len(p.queues), p.taken)
		testenv.Check(t, len(p.sets) == 0 && p.free == p.max, "%d sets are known in the end, %d of %d bytes free", len(p.sets), p.free, p.max)
		testenv.Check(t, len(told) == 0 || told[len(told)-1] == 0, "%v processors", told)
	})
}

// TestOrder reads in the order of the plan, no more at a time than pay, all samples and each once.
func TestOrder(t *testing.T) {
	for _, reads := range []int{1, 4, 64} {
		inPool(t, 128, func(t *testing.T, p *Pool, ctx context.Context) {
			set := newSlowSet(reads)
			set.failed = map[int]bool{7: true}
			q := p.Open(ctx, reversed(set, 600))
			q.Await(false)
			ahead := use(t, q, set, 600, 0, 600)
			testenv.Check(t, ahead == 600 && set.most == reads && set.waited != 0,
				"%d reads: %d samples were read ahead, %d at a time, %d waited for", reads, ahead, set.most, set.waited)
			// Goroutines that begin at the same moment do so in any order.
			for k := range set.fetched {
				due := 599 - k
				testenv.Require(t, set.fetched[k] >= due-reads && set.fetched[k] <= due+reads && (reads != 1 || set.fetched[k] == due),
					"sample %d is read where %d is due", set.fetched[k], due)
			}
		})
	}
}

// holds returns how many bytes a queue holds, and how many reads it has in flight.
func holds(q *Queue) (bytes int64, reads int) {
	q.pool.mu.Lock()
	defer q.pool.mu.Unlock()
	return q.held, q.inFlight
}

// state returns how many reads began, and how many there were at a time, now and at most.
func (s *slowSet) state() (fetched, inFlight, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.fetched), s.inFlight, s.most
}

// settle waits until nothing more happens.
func settle() {
	time.Sleep(time.Minute)
	synctest.Wait()
}

// TestBounds reads no more ahead than there is memory for, by one queue and by two. What one holds leaves a part to the next.
func TestBounds(t *testing.T) {
	inPool(t, 40, func(t *testing.T, p *Pool, ctx context.Context) {
		one, two := newSlowSet(8), newSlowSet(8)
		ctx1, cancel := context.WithCancel(ctx)
		q1 := p.Open(ctx1, reversed(one, 1000))
		settle()
		q2 := p.Open(ctx, reversed(two, 1000))
		settle()
		ahead1, _, _ := one.state()
		ahead2, _, _ := two.state()
		testenv.Check(t, ahead1 >= 31 && ahead1 <= 32 && ahead2 >= 6, "%d and %d samples of a MiB are read ahead, into 40", ahead1, ahead2)
		use(t, q1, one, 1000, 0, 30)
		settle()
		held1, _ := holds(q1)
		held2, _ := holds(q2)
		testenv.Check(t, held1 <= 20<<20 && held2 >= 16<<20, "the queues hold %d and %d bytes", held1, held2)
		cancel()
		settle()
		ahead2, _, _ = two.state()
		testenv.Check(t, ahead2 >= 31, "%d samples are read ahead once the other queue is over", ahead2)
		two.mu.Lock()
		two.bytes = 41 << 20 // each beside the arena
		two.mu.Unlock()
		ahead := use(t, q2, two, 1000, 0, 100)
		held2, _ = holds(q2)
		testenv.Check(t, ahead == 100 && held2 <= 41<<20, "%d samples are read ahead, and %d bytes held", ahead, held2)
	})
}

// TestReadsOfASet has two queues of a set and one of another. The set has no more reads in flight than pay, also for queues that are over,
// and each queue its part of them.
func TestReadsOfASet(t *testing.T) {
	inPool(t, 64, func(t *testing.T, p *Pool, ctx context.Context) {
		set, other := newSlowSet(8), newSlowSet(8)
		set.hang = make(chan struct{})
		ctx1, cancel := context.WithCancel(ctx)
		q1 := p.Open(ctx1, reversed(set, 100))
		settle()
		cancel()
		p.Open(ctx, reversed(set, 100))
		q3 := p.Open(ctx, reversed(other, 100))
		settle()
		_, hang, _ := set.state()
		_, over := holds(q1)
		_, _, others := other.state()
		testenv.Check(t, hang == 8 && over == 8 && others == 8,
			"%d reads hang, %d of them of a queue that is over; another set had %d at a time", hang, over, others)
		testenv.Equal(t, use(t, q3, other, 100, 0, 100), 100, "samples of the other set were read ahead")
		close(set.hang)
		q4 := p.Open(ctx, reversed(set, 100))
		settle()
		_, _, most := set.state()
		held, _ := holds(q4)
		testenv.Check(t, most <= 8 && held != 0, "%d reads at a time of two queues; one holds %d bytes", most, held)
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
		testenv.Check(t, q.Paused() && set.asked == readyMax, "paused: %v, after %d samples", q.Paused(), set.asked)
		testenv.Check(t, use(t, q, set, 2000, 0, 1000) == 0 && len(set.fetched) == 0, "samples in memory were read")
		testenv.Check(t, set.asked == readyMax+1000/probeEvery, "%d of 1000 samples were looked at", set.asked-readyMax)
		set.became(func(i int) bool { return i%3 > 0 })
		ahead := use(t, q, set, 2000, 1000, 2000)
		testenv.Check(t, ahead >= 300 && len(set.fetched) == ahead, "%d of 333 samples were read ahead, %d read", ahead, len(set.fetched))
	})
}

// TestNoPauseWhereReadsMayHang looks at every sample of a set that may hang.
func TestNoPauseWhereReadsMayHang(t *testing.T) {
	inPool(t, 40, func(t *testing.T, p *Pool, ctx context.Context) {
		set := newSlowSet(4)
		set.limit = time.Minute
		set.became(func(i int) bool { return i != 100 })
		q := p.Open(ctx, reversed(set, 2000))
		q.Await(false)
		ahead := use(t, q, set, 2000, 0, 2000)
		testenv.Check(t, ahead == 1 && set.asked == 2000, "%d samples were read ahead, %d looked at", ahead, set.asked)
	})
}

// TestHang ends a queue while its reads hang. Nobody waits for them, they take no processors, and their memory comes back after them.
func TestHang(t *testing.T) {
	inPool(t, 40, func(t *testing.T, p *Pool, ctx context.Context) {
		set := newSlowSet(4)
		set.hang = make(chan struct{})
		ctx, cancel := context.WithCancel(ctx)
		q := p.Open(ctx, reversed(set, 100))
		q.Await(false)
		b := publish(q, 0)
		checkProcessors(t, p, processorsReading)
		time.Sleep(time.Hour)
		checkProcessors(t, p, 0)
		set.hang <- struct{}{} // one read ends
		synctest.Wait()
		checkProcessors(t, p, processorsReading)
		b.Take(0, b.Take(1, nil))
		time.Sleep(time.Hour)
		checkProcessors(t, p, 0)
		testenv.Check(t, !b.AtHand() && len(b.Take(1, nil)) == 0, "a worker gets a sample whose read hangs")
		cancel()
		synctest.Wait()
		held, _ := holds(q)
		testenv.Check(t, held == 4<<20, "%d bytes are read into", held)
		close(set.hang)
	})
}

func checkProcessors(t *testing.T, p *Pool, want int) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	testenv.Check(t, p.given == want, "reading takes %d processors, want %d", p.given, want)
}

// TestPatience says that a storage is down once it has not answered for a minute, and not while it does. Then it answers again.
func TestPatience(t *testing.T) {
	inPool(t, 40, func(t *testing.T, p *Pool, ctx context.Context) {
		set := newSlowSet(4)
		set.limit = time.Minute
		var waits atomic.Bool
		var down atomic.Int64
		down.Store(-1)
		cfg := reversed(set, 100)
		cfg.Waits = waits.Store
		ctx1, cancel := context.WithCancel(ctx)
		cfg.Down = func(index int, after time.Duration) {
			down.Store(int64(index))
			testenv.Equal(t, after, set.limit, "down after")
			cancel()
		}
		q := p.Open(ctx1, cfg)
		use(t, q, set, 100, 0, 20)
		set.hang = make(chan struct{})
		use(t, q, set, 100, 20, 50)
		b := publish(q, 5)
		publish(q, 6)
		for taken := b.Take(10, nil); len(taken) > 0; taken = b.Take(10, taken) {
			time.Sleep(time.Minute)
		}
		time.Sleep(59 * time.Second)
		testenv.Check(t, !b.Exhausted() && down.Load() < 0 && waits.Load(),
			"sample %d is down too soon; the stream waits: %v", down.Load(), waits.Load())
		time.Sleep(time.Second)
		synctest.Wait()
		index := down.Load()
		testenv.Check(t, index <= 49 && index >= 45 && !waits.Load(), "sample %d is down, and the stream waits: %v", index, waits.Load())
		close(set.hang)
		settle()
		set.hang = nil
		testenv.Equal(t, use(t, p.Open(ctx, reversed(set, 100)), set, 100, 0, 100), 100, "samples read ahead of a storage that answers again")
	})
}

// TestRemotesTakeMost reads few samples ahead that remotes take, and gives back those that they took.
func TestRemotesTakeMost(t *testing.T) {
	inPool(t, 256, func(t *testing.T, p *Pool, ctx context.Context) {
		set := newSlowSet(8)
		q := p.Open(ctx, reversed(set, 4000))
		for batch := range 400 {
			use(t, q, set, 4000, 10*batch, 10*batch+2)
			first, end := set.batch.TakeLast(100)
			testenv.Require(t, end == 10 && first != end, "a remote takes %d to %d", first, end)
			var taken []Sample // what it left, as its read ended late
			for !set.batch.Exhausted() {
				taken = append(taken, set.batch.Take(10, nil)...)
				time.Sleep(time.Second)
			}
			set.batch.Take(0, taken)
			set.batch.Finish()
			set.left = 0
		}
		fetched, _, _ := set.state()
		testenv.Check(t, fetched <= 400*3+300, "%d samples are read ahead, and workers take 800", fetched)
	})
}

// TestRemotesLeave has remotes take most of the batches, and then none: what was not planned for workers is read once they want it.
func TestRemotesLeave(t *testing.T) {
	inPool(t, 256, func(t *testing.T, p *Pool, ctx context.Context) {
		set := newSlowSet(8)
		q := p.Open(ctx, reversed(set, 600))
		for batch := range 30 {
			b := publish(q, batch)
			for first, end := b.TakeLast(3); first < end; first, end = b.TakeLast(3) {
			}
			b.Finish()
		}
		before, _, _ := set.state()
		for batch := 30; batch < 60; batch++ {
			b := publish(q, batch)
			for made := 0; made < 10; {
				taken := b.Take(1, nil)
				if len(taken) == 0 {
					b.Want()
					time.Sleep(time.Second)
				}
				made += len(b.Take(0, taken)) + len(taken)
			}
			b.Finish()
		}
		all, _, _ := set.state()
		testenv.Check(t, all-before >= 300 && all-before <= 310, "%d samples are read for workers that make 300", all-before)
	})
}

// TestAgain gives samples back: one whose bytes were wrong the first time, one that another replaces, and one of a remote.
func TestAgain(t *testing.T) {
	inPool(t, 40, func(t *testing.T, p *Pool, ctx context.Context) {
		set := newSlowSet(4)
		set.failed = map[int]bool{99: true}
		q := p.Open(ctx, reversed(set, 100))
		b := publish(q, 0)
		settle()
		taken := append(b.Take(1, nil), b.Take(1, nil)...)
		_, err := taken[0].Lease.Record()
		testenv.Require(t, err != nil && taken[0].Lease.Wrong(), "%v, which may be read again", err)
		delete(set.failed, 99)
		b.Again(&taken[0], 99)
		b.Again(&taken[1], 5)
		first, end := b.TakeLast(1)
		testenv.Require(t, first == 9 && end == 10, "a remote takes %d to %d", first, end)
		b.Again(&Sample{Position: 9}, 90)
		settle()
		served := map[int]int{}
		for taken = b.Take(10, taken); len(taken) > 0; taken = b.Take(10, taken) {
			for _, s := range taken {
				record, err := s.Lease.Record()
				testenv.Check(t, err == nil && record.Image[0] == byte(s.Index), "sample %d: %v, %v", s.Index, record, err)
				served[s.Position] = s.Index
			}
		}
		testenv.Check(t, len(served) == 10 && served[0] == 99 && served[1] == 5 && served[9] == 90 && b.Exhausted(), "served %v", served)
	})
}

// TestAwait awaits that a piece is read.
func TestAwait(t *testing.T) {
	inPool(t, 64, func(t *testing.T, p *Pool, ctx context.Context) {
		set, began := newSlowSet(64), time.Now()
		q := p.Open(ctx, reversed(set, 60))
		q.Await(true)
		testenv.Check(t, len(set.fetched) == 51 && time.Since(began) <= 2*time.Second,
			"%d samples are read after %v", len(set.fetched), time.Since(began))
		testenv.Equal(t, use(t, q, set, 60, 0, 60), 60, "samples were read ahead")
	})
}

// TestArena takes and gives extents at random, which never overlap, and all of it at the end.
func TestArena(t *testing.T) {
	p := NewPool(1<<20, nil)
	q := &Queue{pool: p, cfg: reversed(nil, 10), set: &setReads{}, reads: 1, over: true}
	var leases []*Lease
	for k := range 5000 {
		if k%3 != 0 || len(leases) == 0 {
			got := p.takeLocked(q, shard.Need{Bytes: 1 + k*7919%60000})
			if got == nil {
				continue
			}
			for _, l := range leases {
				testenv.Require(t, got.from >= l.to || l.from >= got.to, "%d to %d overlaps %d to %d", got.from, got.to, l.from, l.to)
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
	testenv.Check(t, len(p.taken) == 0 && q.held == 0, "%v is taken, %d held", p.taken, q.held)
	for _, bytes := range []int{1 << 20, 1<<20 + 1} { // a queue that holds nothing goes on
		got := p.takeLocked(q, shard.Need{Bytes: bytes})
		testenv.Check(t, got != nil && len(got.buf) >= bytes && (bytes > 1<<20) != (got.to > got.from),
			"for %d bytes there are %d", bytes, len(got.buf))
		p.giveLocked(got)
	}
}

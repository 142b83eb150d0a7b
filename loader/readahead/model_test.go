package readahead

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/shard"
)

// A modelSet has samples whose reads end when the test says so. It remembers what it was asked last about each.
type modelSet struct {
	rng   *rand.Rand
	bytes []int
	reads int

	mu      sync.Mutex
	ready   []bool
	state   []string // "", "ready", "in flight", "landed"
	pending []*modelRead
	last    map[int]*modelRead // of each sample
}

// A modelRead is one that has not ended.
type modelRead struct {
	index int
	end   chan error
}

func newModelSet(rng *rand.Rand, samples int) *modelSet {
	s := &modelSet{rng: rng, reads: 1 + rng.IntN(6), ready: make([]bool, samples), state: make([]string, samples), last: map[int]*modelRead{}}
	share := rng.IntN(11)
	for i := range s.ready {
		s.bytes = append(s.bytes, 1+rng.IntN(600<<10))
		s.ready[i] = rng.IntN(10) < share
	}
	return s
}

func (s *modelSet) MayHang() bool { return false }
func (s *modelSet) Waited(int)    {}

func (s *modelSet) WillNeed(i int) (shard.Need, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ready[i] {
		s.state[i] = "ready"
	}
	return shard.Need{Ready: s.ready[i], Bytes: s.bytes[i], ReadsMax: s.reads}, nil
}

func (s *modelSet) Fetch(i int, buf []byte) ([]byte, error) {
	if len(buf) < s.bytes[i] {
		return nil, fmt.Errorf("a buffer of %d bytes for %d", len(buf), s.bytes[i])
	}
	read := &modelRead{i, make(chan error)}
	s.mu.Lock()
	s.state[i], s.last[i], s.pending = "in flight", read, append(s.pending, read)
	s.mu.Unlock()
	err := <-read.end
	buf[0], buf[s.bytes[i]-1] = byte(i), byte(i>>8)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last[i] == read { // otherwise nobody wants it any more
		s.state[i] = "landed"
	}
	return buf[:s.bytes[i]], err
}

func (s *modelSet) Check(_ int, bytes []byte, err error) (shard.Record, error) {
	return shard.Record{Image: bytes}, err
}

// land ends a read, if there is one.
func (s *modelSet) land(err error) bool {
	s.mu.Lock()
	if len(s.pending) == 0 {
		s.mu.Unlock()
		return false
	}
	slices.SortStableFunc(s.pending, func(a, b *modelRead) int { return cmp.Compare(a.index, b.index) }) // so that a seed says all
	i := s.rng.IntN(len(s.pending))
	read := s.pending[i]
	s.pending = slices.Delete(s.pending, i, i+1)
	s.mu.Unlock()
	read.end <- err
	synctest.Wait()
	return true
}

// A modelBatch is a published batch as a plain list of what became of its samples.
type modelBatch struct {
	*Batch
	first   int
	samples []string // "", "taken", "made"
	held    []Sample
}

// A modelStream is a queue and what is expected of it. Sample i of the plan is sample i of the set.
type modelStream struct {
	*Queue
	t       *testing.T
	set     *modelSet
	rng     *rand.Rand
	size    int
	batches []*modelBatch
	next    int // batch to publish
	agains  int // samples that were given back
	old     *Batch
	dead    bool
}

func (m *modelStream) publish() {
	if m.next == m.cfg.Batches {
		return
	}
	indices := m.cfg.Batch(m.next, nil)
	b := &modelBatch{m.Publish(m.next, indices, m.old), indices[0], make([]string, m.size), nil}
	m.batches = append(m.batches, b)
	m.old, m.next = nil, m.next+1
}

// compare compares a batch with the list.
func (m *modelStream) compare(b *modelBatch) {
	m.t.Helper()
	atHand, left := 0, 0
	m.set.mu.Lock()
	defer m.set.mu.Unlock()
	for i, state := range b.samples {
		if state == "" {
			left++
			if at := m.set.state[b.first+i]; at == "landed" || at == "ready" && !m.interrupted(b, i) {
				atHand++
			}
		}
	}
	testenv.Require(m.t, b.Exhausted() == (left == 0), "%d samples are left, exhausted: %v", left, b.Exhausted())
	got := int(b.atHand.Load())
	testenv.Require(m.t, b.warm || got == atHand,
		"%d samples are at hand, want %d: %v, %v", got, atHand, b.samples, m.set.state[b.first:b.first+m.size])
	testenv.Require(m.t, !b.warm || b.AtHand() == (left > 0) || m.agains != 0,
		"a warm batch has %d samples left, at hand: %v", left, b.AtHand())
	testenv.Require(m.t, len(m.set.pending) <= m.set.reads, "%d reads are in flight, %d pay", len(m.set.pending), m.set.reads)
}

// interrupted reports whether the planner has only looked at a sample that is ready: one that comes before it was given back meanwhile, and
// the planner waits for room for that.
func (m *modelStream) interrupted(b *modelBatch, i int) bool {
	m.pool.mu.Lock()
	defer m.pool.mu.Unlock()
	return m.waiting && !b.warm && !slices.ContainsFunc(b.leases, func(l *Lease) bool { return l.Position == i })
}

// take lets a worker take samples: right ones, each once, whose bytes are there.
func (m *modelStream) take(b *modelBatch) {
	m.t.Helper()
	atHand, began := b.AtHand(), time.Now()
	taken := b.Take(1+m.rng.IntN(4), nil)
	testenv.Require(m.t, atHand == (len(taken) > 0) && time.Since(began) == 0,
		"at hand: %v, and a worker gets %d samples after %v", atHand, len(taken), time.Since(began))
	for _, s := range taken {
		testenv.Require(m.t, b.samples[s.Position] == "" && s.Index == b.first+s.Position,
			"sample %d of a batch from %d on is %d, and was %s", s.Position, b.first, s.Index, b.samples[s.Position])
		b.samples[s.Position] = "taken"
		m.set.mu.Lock()
		state := m.set.state[s.Index]
		m.set.mu.Unlock()
		testenv.Require(m.t, (s.Lease != nil || state == "ready" || b.warm) && (s.Lease == nil || state == "landed"),
			"sample %d is %q", s.Index, state)
		if s.Lease != nil {
			record, _ := s.Lease.Record()
			image, n := record.Image, m.set.bytes[s.Index]
			testenv.Require(m.t, len(image) == n && image[n-1] == byte(s.Index>>8) && (n == 1 || image[0] == byte(s.Index)),
				"sample %d has other bytes", s.Index)
		}
	}
	b.held = append(b.held, taken...)
}

// leave makes what workers hold of a batch, or gives some of it back.
func (m *modelStream) leave(b *modelBatch, again bool) {
	var made []Sample
	for i := range b.held {
		s := &b.held[i]
		if again && m.rng.IntN(3) == 0 {
			m.again(b, s)
			continue
		}
		b.samples[s.Position] = "made"
		made = append(made, *s)
	}
	b.Take(0, made)
	b.held = nil
}

func (m *modelStream) again(b *modelBatch, s *Sample) {
	m.agains++
	b.samples[s.Position] = ""
	m.set.mu.Lock()
	m.set.state[b.first+s.Position] = ""
	delete(m.set.last, b.first+s.Position)
	m.set.mu.Unlock()
	b.Again(s, b.first+s.Position)
}

// remote lets a remote take samples, which it makes or gives back.
func (m *modelStream) remote(b *modelBatch) {
	m.t.Helper()
	can := b.ForRemotes()
	first, end := b.TakeLast(1 + m.rng.IntN(m.size))
	testenv.Require(m.t, can == (first < end), "a remote can take something: %v, and takes %d to %d", can, first, end)
	for i := first; i < end; i++ {
		testenv.Require(m.t, b.samples[i] == "", "a remote takes sample %d, which was %s", i, b.samples[i])
		if b.samples[i] = "made"; m.rng.IntN(4) == 0 {
			m.again(b, &Sample{Position: i})
		}
	}
}

// step does something at random.
func (m *modelStream) step() {
	m.t.Helper()
	open := m.batches
	switch op := m.rng.IntN(10); {
	case op == 0 && len(open) < 4 || len(open) == 0:
		m.publish()
	case op < 4:
		if !m.dead {
			m.set.land([]error{nil, nil, errors.New("EIO")}[m.rng.IntN(3)])
		}
	case op == 4:
		i := m.rng.IntN(len(m.set.ready))
		m.set.mu.Lock()
		m.set.ready[i] = !m.set.ready[i]
		m.set.mu.Unlock()
	case op == 5:
		m.remote(open[m.rng.IntN(len(open))])
	case op == 6:
		open[0].Want()
	case op == 7:
		m.leave(open[m.rng.IntN(len(open))], true)
	default:
		m.take(open[m.rng.IntN(len(open))])
	}
	m.settle()
}

// settle compares all batches once nothing moves any more, and finishes those that are made.
func (m *modelStream) settle() {
	m.t.Helper()
	synctest.Wait()
	m.batches = slices.DeleteFunc(m.batches, func(b *modelBatch) bool {
		m.compare(b)
		if slices.ContainsFunc(b.samples, func(s string) bool { return s != "made" }) {
			return false
		}
		b.Finish()
		m.old = b.Batch
		return true
	})
}

// end makes everything that is left.
func (m *modelStream) end() {
	m.t.Helper()
	for stuck := 0; m.next < m.cfg.Batches || len(m.batches) > 0; stuck++ {
		testenv.Require(m.t, stuck <= 20*m.cfg.Batches*m.size, "the stream does not end: %d of %d batches are published", m.next, m.cfg.Batches)
		if len(m.batches) < 4 {
			m.publish()
		}
		synctest.Wait()
		for _, b := range m.batches {
			if b.AtHand() {
				m.take(b)
			}
			m.leave(b, false)
		}
		m.batches[0].Want()
		synctest.Wait()
		m.set.land(nil)
		m.settle()
	}
}

// TestInterleavings does at random what workers, remotes, reads and memory can do, of two streams that share the memory, and compares each
// step with a plain list. In every other run the reads of one set do not end: the other stream comes to its end all the same.
func TestInterleavings(t *testing.T) {
	runs := uint64(400)
	if testing.Short() {
		runs = 60
	}
	for seed := range runs {
		synctest.Test(t, func(t *testing.T) {
			t.Logf("seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, 1))
			p := NewPool(int64(rng.IntN(5))<<20, nil)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var streams []*modelStream
			for k := range 2 {
				size, batches := 1+rng.IntN(12), 1+rng.IntN(60)
				set := newModelSet(rng, size*batches)
				q := p.Open(ctx, Config{Set: set, Batches: batches, Batch: func(k int, buf []int) []int {
					buf = buf[:0]
					for i := range size {
						buf = append(buf, k*size+i)
					}
					return buf
				}, Landed: func() {}, Waits: func(bool) {}, Down: func(int, time.Duration) {}})
				q.Await(false)
				streams = append(streams, &modelStream{Queue: q, t: t, set: set, rng: rng, size: size, dead: seed%2 == 1 && k == 0})
			}
			for range 500 {
				streams[rng.IntN(2)].step()
			}
			streams[1].end()
			if !streams[0].dead {
				streams[0].end()
			}
			cancel()
			synctest.Wait()
			for _, m := range streams {
				for _, b := range m.batches {
					m.leave(b, false)
				}
				for m.set.land(nil) {
				}
			}
			synctest.Wait()
			testenv.Check(t, len(p.queues) == 0 && len(p.taken) == 0 && p.free == p.max && len(p.sets) == 0,
				"%d queues and %d sets in the end, %d of %d bytes free", len(p.queues), len(p.sets), p.free, p.max)
		})
	}
}

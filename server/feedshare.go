package server

import (
	"context"
	"slices"
	"sync"

	"github.com/imgfeed/imgfeed/loader"
)

// A sharing keeps what a feeder makes for jobs that want the very same samples: a search for hyper-parameters on one plan. Such samples are made once, and sent to each.
type sharing struct {
	mu     sync.Mutex
	made   sync.Cond // or given up
	max    int64     // bytes
	bytes  int64
	plans  map[string]*sharedPlan // by the text of their requests for plain images
	oldest []*sharedSample        // in the order in which they were claimed
}

// A sharedPlan is what several servers may want.
type sharedPlan struct {
	sharing *sharing
	servers map[string]int // by name: connections that make samples of it
	samples map[sharedKey]*sharedSample
}

type sharedKey struct {
	seed                     int64
	epoch, index, repetition int
}

type sharedSample struct {
	plan    *sharedPlan
	key     sharedKey
	state   sampleState
	data    []byte
	counted int64 // of it, in the sharing's bytes
}

// A sampleState is that of a sample that one connection makes for all.
type sampleState int

const (
	beingMade sampleState = iota
	isMade
	failed
)

func newSharing(bytes int64) *sharing {
	s := &sharing{max: bytes, plans: map[string]*sharedPlan{}}
	s.made.L = &s.mu
	return s
}

// join notes that a connection of a server makes samples of a plan.
func (s *sharing) join(text, server string) (p *sharedPlan, leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p = s.plans[text]; p == nil {
		p = &sharedPlan{sharing: s, servers: map[string]int{}, samples: map[sharedKey]*sharedSample{}}
		s.plans[text] = p
	}
	p.servers[server]++
	return p, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if p.servers[server]--; p.servers[server] == 0 {
			delete(p.servers, server)
		}
		if len(p.servers) == 0 {
			delete(s.plans, text)
			s.oldest = slices.DeleteFunc(s.oldest, func(e *sharedSample) bool {
				if e.plan == p {
					s.retireLocked(e)
				}
				return e.plan == p
			})
		}
	}
}

// retireLocked forgets a sample.
func (s *sharing) retireLocked(e *sharedSample) {
	if e.plan.samples[e.key] == e {
		delete(e.plan.samples, e.key)
	}
	s.bytes -= e.counted
	e.state, e.counted = failed, 0
	s.made.Broadcast()
}

// addLocked adds a sample that is being made, in the memory of the oldest ones where there is no room.
func (s *sharing) addLocked(plan *sharedPlan, key sharedKey) *sharedSample {
	e := &sharedSample{plan: plan, key: key}
	for len(s.oldest) > 0 && s.bytes > s.max {
		if old := s.oldest[0]; old.state != beingMade {
			e.data = old.data[:0]
		}
		s.retireLocked(s.oldest[0])
		s.oldest = s.oldest[1:]
	}
	plan.samples[key] = e
	s.oldest = append(s.oldest, e)
	return e
}

// A claim is a piece's: what of it this connection makes for all.
type claim struct {
	plan  *sharedPlan
	mine  []*sharedSample // by place in the piece, or nil
	skip  []bool          // what is there, or others make
	parts [][]byte
}

func keyOf(p *loader.Piece, i int) sharedKey {
	return sharedKey{p.Seed, p.Epoch, p.Indices[i], p.Repetition(i)}
}

// begin fills those samples of a piece that are there into its slot, and sets made for them.
func (c *claim) begin(plan *sharedPlan, p *loader.Piece, made []bool) {
	s, n := plan.sharing, len(p.Indices)
	s.mu.Lock()
	defer s.mu.Unlock()
	c.plan, c.mine, c.skip = plan, append(c.mine[:0], make([]*sharedSample, n)...), append(c.skip[:0], make([]bool, n)...)
	if len(plan.servers) < 2 {
		return
	}
	for i := range n {
		e := plan.samples[keyOf(p, i)]
		if c.skip[i] = e != nil; e == nil {
			c.mine[i] = s.addLocked(plan, keyOf(p, i))
		} else if made[i] = e.state == isMade; made[i] {
			c.take(p, i, e.data)
		}
	}
}

// take copies the i-th sample of a piece from data.
func (c *claim) take(p *loader.Piece, i int, data []byte) {
	c.parts = p.Slot.AppendPlaces(c.parts[:0], p.First+i, 1)
	for _, part := range c.parts {
		data = data[copy(part, data):]
	}
}

// publish gives the others what this connection has made, or says that it could not.
func (c *claim) publish(p *loader.Piece, made []bool) {
	s := c.plan.sharing
	for i, e := range c.mine {
		if e == nil {
			continue
		}
		data := e.data
		if made[i] {
			c.parts = p.Slot.AppendPlaces(c.parts[:0], p.First+i, 1)
			for _, part := range c.parts {
				data = append(data, part...)
			}
		}
		s.mu.Lock()
		switch {
		case e.state != beingMade: // it was forgotten
		case made[i]:
			e.state, e.data, e.counted = isMade, data, int64(cap(data))
			s.bytes += e.counted
			s.made.Broadcast()
		default:
			s.retireLocked(e)
		}
		s.mu.Unlock()
	}
}

// await fills in what others make, once they have. It reports whether they could not make all, so that some is to be made here.
func (c *claim) await(p *loader.Piece, made []bool) (again bool) {
	s := c.plan.sharing
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, skipped := range c.skip {
		for skipped && !made[i] {
			e := c.plan.samples[keyOf(p, i)]
			switch {
			case e == nil:
				again, skipped = true, false
			case e.state == isMade:
				c.take(p, i, e.data)
				made[i] = true
			default:
				s.made.Wait()
			}
		}
	}
	return again
}

// make makes the samples of the connection's piece, those that other servers want too only once.
func (c *feedConnection) make(ctx context.Context, f *feed, made []bool) error {
	c.begin(f.plan, &c.piece, made)
	err := func() error {
		defer c.publish(&c.piece, made) // whatever happens: others wait for it
		return c.maker.Make(ctx, &f.cfg, &c.piece, c.skip, made)
	}()
	if err == nil && c.await(&c.piece, made) {
		err = c.maker.Make(ctx, &f.cfg, &c.piece, made, made)
	}
	return err
}

package server

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/imgfeed/imgfeed/loader"
	"github.com/imgfeed/imgfeed/server/internal/ring"
)

const (
	// holdBackMax is how long a batch stays with the server that would lend the client the last slot, while slots are to be given up.
	holdBackMax = time.Second
	// stalledAfter is how long a client that has slots gives none back before others are asked for theirs too.
	stalledAfter = time.Second
)

// slots are those of a session's ring. Each is free, in a stream, lent to the client, or given up for later sessions.
type slots struct {
	ring      *ring.Ring
	slotBytes int64
	byNumber  []*loader.Slot   // the arrays in the ring
	slotPool  *loader.SlotPool // those that are free
	memory    *budget          // that the ring is of
	log       *slog.Logger

	started time.Time      // of the server: moments are ns since then, by a clock that nobody sets
	lentAt  []atomic.Int64 // by number: when it was lent last
	heardOf atomic.Int64   // when a slot came back last, or was lent while the client had none

	shrinking sync.Mutex
	surplus   int           // slots that are to be given up once they come back
	retired   chan struct{} // has one after a slot was given up
	waits     int           // of holdBack, since then, that were in vain
	shut      bool          // the ring is gone
	shrunk    atomic.Int64  // how many slots there are from now on, where the client does not know; else 0
}

// newSlots makes a ring of n slots, whose memory was taken.
func newSlots(n int, slotBytes int64, shared bool, memory *budget, log *slog.Logger, started time.Time) (*slots, error) {
	newRing := ring.NewPrivate
	if shared {
		newRing = ring.New
	}
	r, err := newRing(n, slotBytes)
	if err != nil {
		memory.give(int64(n) * slotBytes)
		return nil, err
	}
	s := &slots{ring: r, slotBytes: slotBytes, memory: memory, log: log, started: started, lentAt: make([]atomic.Int64, n), retired: make(chan struct{}, 1)}
	for i := range n {
		s.byNumber = append(s.byNumber, &loader.Slot{ID: i})
	}
	s.slotPool = loader.NewSlotPool(s.byNumber...)
	return s, nil
}

// lay lays arrays over the slots' memory. No epoch runs.
func (s *slots) lay(layout ring.Layout) {
	for i, slot := range s.byNumber {
		*slot = *viewSlot(i, s.ring.Bytes(i), layout)
	}
}

// lend notes that a slot is the client's from a moment on.
func (s *slots) lend(slot int, at time.Time) {
	moment := int64(at.Sub(s.started))
	s.lentAt[slot].Store(moment)
	if s.ring.Lent() == 0 {
		s.heardOf.Store(moment)
	}
	s.ring.Lend(slot)
}

// release takes a slot back from the client, and returns for how long it was lent. It is free once it is put back.
func (s *slots) release(slot int) (held time.Duration, err error) {
	if err := s.ring.Release(slot); err != nil {
		return 0, err
	}
	now := time.Since(s.started)
	s.heardOf.Store(int64(now))
	return now - time.Duration(s.lentAt[slot].Load()), nil
}

// putBack makes a slot that the client is done with free again, or takes it out of use if slots are to be given up.
func (s *slots) putBack(slot int) {
	s.shrinking.Lock()
	defer s.shrinking.Unlock()
	if s.surplus > 0 && s.sparesLocked() {
		s.retireLocked(slot)
		return
	}
	s.slotPool.Put(s.byNumber[slot])
}

// giveUp retires slots of a ring whose size was the server's choice: those that are free at once, others when the client
// releases them. What stays is enough to have one with the client, one ready and one to fill. It returns the bytes that will
// have been given up, and whether there may be more once slots are released.
func (s *slots) giveUp(want int64) (promised int64, more bool) {
	s.shrinking.Lock()
	defer s.shrinking.Unlock()
	usable := s.ring.Usable()
	if s.shut || usable <= autoSlotsMin {
		return 0, false
	}
	target := max(usable-max(s.surplus, int((want+s.slotBytes-1)/s.slotBytes)), autoSlotsMin)
	if usable-target > s.surplus { // else they are on their way
		s.surplus = usable - target
		s.shrunk.Store(int64(target))
		for s.surplus > 0 && s.sparesLocked() {
			slot := s.slotPool.Take()
			if slot == nil {
				break
			}
			s.retireLocked(slot.ID)
		}
		s.log.Info("the ring gives up slots for another session", "slots", target)
	}
	if s.stalls() { // what it owes may never come
		target = s.ring.Usable()
	}
	return int64(usable-target) * s.slotBytes, true
}

// stalls reports whether the client has slots, and has given none back for a while.
func (s *slots) stalls() bool {
	return s.ring.Lent() > 0 && time.Since(s.started)-time.Duration(s.heardOf.Load()) > stalledAfter
}

// sparesLocked reports whether a slot less leaves one that is not lent. That one is never given up: a client that keeps all that it
// is lent would wait for itself.
func (s *slots) sparesLocked() bool { return s.ring.Usable()-s.ring.Lent() > 1 }

func (s *slots) retireLocked(slot int) {
	s.surplus, s.waits = s.surplus-1, 0
	select {
	case s.retired <- struct{}{}:
	default:
	}
	if err := s.ring.Retire(slot); err != nil {
		s.log.Error("freeing a slot failed", "err", err)
		return
	}
	s.memory.give(s.slotBytes)
}

// holdBack waits before a batch is sent that would lend the client the last slot, while slots are to be given up: until they are, since
// those that it gives back meanwhile can then be. A client that is slower than the server is lent all there are, always. One that
// gives none back may have no batch left, because it keeps them: the wait ends, and the next one is half as long.
func (s *slots) holdBack(ctx context.Context) {
	for {
		s.shrinking.Lock()
		wait, owes := holdBackMax>>s.waits, s.surplus > 0 && !s.sparesLocked()
		s.shrinking.Unlock()
		if !owes {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-s.retired:
		case <-time.After(wait):
			s.shrinking.Lock()
			s.waits = min(s.waits+1, 30)
			s.shrinking.Unlock()
			return
		}
	}
}

// close frees the ring, from which nobody takes slots any more.
func (s *slots) close() {
	s.shrinking.Lock()
	defer s.shrinking.Unlock()
	s.shut, s.surplus = true, 0
	size := s.ring.Size()
	if err := s.ring.Close(); err != nil {
		s.log.Error("freeing a ring failed", "err", err)
	}
	s.memory.give(size)
}

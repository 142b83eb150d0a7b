package server

import (
	"context"
	"errors"
	"slices"
	"time"
)

const (
	// shrinkPatience is how long a new session waits for slots that others are to give up: those that are lent come back one in
	// each training step. Clients wait for a minute.
	shrinkPatience = 20 * time.Second
	// endPatience is how long it waits where nobody has any to give up: sessions of clients that are gone may be about to end, as
	// when a server that was stopped goes on, and its clients come back before their ends are seen.
	endPatience = 2 * time.Second
	// holdBackMax is how long a batch stays with the server that would lend the client the last slot, while slots are to be given up.
	holdBackMax = time.Second
	// stalledAfter is how long a client that has slots gives none back before others are asked for theirs too.
	stalledAfter = time.Second
)

// takeSlots reserves the memory of a ring. Where it does not suffice for the fewest slots that do, sessions that were opened
// before and did not ask for a number of slots give up some of theirs.
func (s *Server) takeSlots(slots int, slotBytes int64) (int, error) {
	for started := time.Now(); ; time.Sleep(time.Millisecond) {
		got, err := s.memory.take(slots, autoSlotsMin, slotBytes)
		limit, short := errors.AsType[*LimitError](err)
		if !short {
			return got, err
		}
		patience := endPatience
		if s.shrinkOthers(limit.Want - (limit.Max - limit.Used)) {
			patience = shrinkPatience
		}
		if limit.Want > limit.Max || time.Since(started) >= patience {
			got, err := s.memory.take(slots, autoSlotsShort, slotBytes)
			if limit, short := errors.AsType[*LimitError](err); short {
				limit.Stalled = s.stalledBytes()
			}
			return got, err
		}
	}
}

// stalledBytes is how much memory clients keep that give no slots back.
func (s *Server) stalledBytes() (bytes int64) {
	for _, sess := range s.openSessions() {
		if sess.stalls() {
			bytes += int64(sess.ring.Lent()) * sess.layout.Size
		}
	}
	return bytes
}

// shrinkOthers has the sessions with the largest rings give up slots of want bytes in all, at once or when their clients release
// them. It reports whether there is anything to wait for: a session that is being set up, which takes large rings a while, may give up some, too.
func (s *Server) shrinkOthers(want int64) (possible bool) {
	possible = s.arriving.Load() > 0
	sessions := s.openSessions()
	slices.SortStableFunc(sessions, func(a, b *session) int { return int(b.ring.Size()>>12) - int(a.ring.Size()>>12) })
	for _, sess := range sessions {
		if want > 0 {
			promised, more := sess.giveUp(want)
			want, possible = want-promised, possible || more
		}
	}
	return possible
}

// giveUp retires slots of a ring whose size was the server's choice: those that are free at once, others when the client
// releases them. What stays is enough to have one with the client, one ready and one to fill. It returns the bytes that will
// have been given up, and whether there may be more once slots are released.
func (s *session) giveUp(want int64) (promised int64, more bool) {
	s.shrinking.Lock()
	defer s.shrinking.Unlock()
	usable, size := s.ring.Usable(), s.layout.Size
	if s.asked != 0 || s.shut || usable <= autoSlotsMin {
		return 0, false
	}
	target := max(usable-max(s.surplus, int((want+size-1)/size)), autoSlotsMin)
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
		s.connection.log.Info("the ring gives up slots for another session", "slots", target)
	}
	if s.stalls() {
		return int64(usable-s.ring.Usable()) * size, true
	}
	return int64(usable-target) * size, true
}

// stalls reports whether the client has slots, and has given none back for a while.
func (s *session) stalls() bool {
	return s.ring.Lent() > 0 && time.Since(s.server.started)-time.Duration(s.heardOf.Load()) > stalledAfter
}

// sparesLocked reports whether a slot less leaves one that is not lent. That one is never given up: a client that keeps all that it
// is lent would wait for itself.
func (s *session) sparesLocked() bool { return s.ring.Usable()-s.ring.Lent() > 1 }

// putBack makes a slot that the client is done with free again, or takes it out of use if slots are to be given up.
func (s *session) putBack(slot int) {
	s.shrinking.Lock()
	defer s.shrinking.Unlock()
	if s.surplus > 0 && s.sparesLocked() {
		s.retireLocked(slot)
		return
	}
	s.slotPool.Put(s.slots[slot])
}

// holdBack waits before a batch is sent that would lend the client the last slot, while slots are to be given up: until they are, since
// those that it gives back meanwhile can then be. A client that is slower than the server is lent all there are, always. One that
// gives none back may have no batch left, because it keeps them: the wait ends, and the next one is half as long.
func (s *session) holdBack(ctx context.Context) {
	for {
		s.shrinking.Lock()
		wait, owes := holdBackMax>>s.waits, s.surplus > 0 && s.ring.Usable()-s.ring.Lent() == 1
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

func (s *session) retireLocked(slot int) {
	s.surplus, s.waits = s.surplus-1, 0
	select {
	case s.retired <- struct{}{}:
	default:
	}
	if err := s.ring.Retire(slot); err != nil {
		s.server.log.Error("freeing a slot failed", "err", err)
		return
	}
	s.server.memory.give(s.layout.Size)
}

// shutRing frees the ring, from which nobody takes slots any more.
func (s *session) shutRing() {
	s.shrinking.Lock()
	defer s.shrinking.Unlock()
	s.shut, s.surplus = true, 0
	size := s.ring.Size()
	if err := s.ring.Close(); err != nil {
		s.server.log.Error("freeing a ring failed", "err", err)
	}
	s.server.memory.give(size)
}

package loader

import (
	"fmt"
	"time"
)

// dispatch publishes one batch after the other as slots become free. It is a goroutine of the stream.
func (s *Stream) dispatch() {
	defer close(s.dispatched)
	defer close(s.order)
	for number := range s.cfg.Plan.Batches() {
		timing := s.chooseTiming()
		slot := s.takeSlot()
		if slot == nil {
			return
		}
		if n := s.cfg.Plan.BatchLen(number); !slot.fits(n, s.cfg.Views) || !s.cfg.Fields.fit(slot, n) {
			s.dispatchErr = fmt.Errorf("loader: slot %d is too small for a batch of %d images of %d bytes", slot.ID, n, s.cfg.Views.OutputBytes())
			s.cfg.Slots.Put(slot)
			return
		}
		b := s.newBatch(number, slot)
		b.timing = timing
		timing.published()
		if s.unfinished.Add(1) == 1 {
			s.rest.end(time.Since(s.began))
		}
		s.pool.scheduler.publish(s.lane, b)
		s.order <- b                 // has room for every slot
		s.prefetcher.look(b.indices) // which nobody else writes
	}
}

// takeSlot waits for a free slot; nil means that the stream is cancelled.
func (s *Stream) takeSlot() *Slot {
	if s.ctx.Err() != nil {
		return nil
	}
	select {
	case slot := <-s.cfg.Slots.free:
		return slot
	default:
	}
	started := time.Now()
	s.starved.Store(int64(started.Sub(s.began)))
	defer func() {
		s.starved.Store(0)
		s.slotWait.Add(int64(time.Since(started)))
	}()
	select {
	case slot := <-s.cfg.Slots.free:
		return slot
	case <-s.ctx.Done():
		return nil
	}
}

// newBatch prepares a batch of the plan, in the memory of one that is over if there is such.
func (s *Stream) newBatch(number int, slot *Slot) *pendingBatch {
	var b *pendingBatch
	select {
	case b = <-s.spare:
	default:
		b = &pendingBatch{stream: s, done: make(chan struct{}, 1)}
	}
	b.number, b.slot, b.first = number, slot, int64(number)*int64(s.cfg.Plan.Config().BatchSize)
	b.indices, b.again = s.cfg.Plan.Batch(number, b.indices), s.cfg.Plan.Repetitions(number, b.again)
	b.chunk = chunkFor(len(b.indices), s.pool.Threads())
	b.bads = nil
	b.failure.Store(nil)
	b.left.Store(int64(len(b.indices)))
	b.next.Store(0)
	b.holders.Store(2)
	return b
}

package server

import (
	"log/slog"

	"github.com/imgfeed/imgfeed/loader"
	"github.com/imgfeed/imgfeed/server/internal/ring"
)

// slots are those of a session's ring. Each is free, in a stream, or lent to the client.
type slots struct {
	ring      *ring.Ring
	slotBytes int64
	byNumber  []*loader.Slot   // the arrays in the ring
	slotPool  *loader.SlotPool // those that are free
	memory    *budget          // budget that holds the ring
	log       *slog.Logger
}

// newSlots makes a ring of n slots, whose memory was taken.
func newSlots(n int, slotBytes int64, shared bool, memory *budget, log *slog.Logger) (*slots, error) {
	r, err := ring.New(n, slotBytes, shared)
	if err != nil {
		memory.give(int64(n) * slotBytes)
		return nil, err
	}
	s := &slots{ring: r, slotBytes: slotBytes, memory: memory, log: log}
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

// putBack makes a slot free again.
func (s *slots) putBack(slot int) { s.slotPool.Put(s.byNumber[slot]) }

// close frees the ring, from which nobody takes slots any more.
func (s *slots) close() {
	size := s.ring.Size()
	if err := s.ring.Close(); err != nil {
		s.log.Error("freeing a ring failed", "err", err)
	}
	s.memory.give(size)
}

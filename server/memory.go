package server

import (
	"cmp"
	"fmt"
	"sync"
	"time"

	"github.com/imgfeed/imgfeed/internal/bytesize"
)

const (
	slotsMax = 4096
	// autoRingBytes is 13 batches of 256 × 224 × 224: 30 ms of two threads that serve a pixels set. Between a batch
	// that is ready and its slot's return both processes wake up. On busy cores a wake-up can take some milliseconds of the
	// kernel's scheduler and of Go's. With 6 slots workers waited.
	autoRingBytes  = 512 << 20
	autoSlotsMin   = 3
	autoSlotsMax   = 16
	autoSlotsShort = 2 // slots if memory is short: one to fill, one to lend

	// reserveTimeout is how long a new session waits for memory, since sessions of lost clients may be about to end. Clients of
	// a server that was stopped, for instance, come back before it sees their ends. It looks again every reserveRetry.
	reserveTimeout = 2 * time.Second
	reserveRetry   = 20 * time.Millisecond
)

// prefetchBytes is the part of a server's memory into which records are read before they are due: as much as was asked for, but
// half of the memory at most. By default it is a sixteenth of the memory, and 0 where that would barely hold one record. 256
// MiB fill a link of 10 Gbit/s whose answers take 200 ms.
func prefetchBytes(asked, memory int64) int64 {
	const least, most = 1 << 20, 256 << 20
	switch {
	case asked > 0:
		return min(asked, memory/2)
	case memory/16 < least:
		return 0
	}
	return min(memory/16, most)
}

// A budget is an amount of memory that sessions share. Its bounds stay as they are.
//
// What holds, under mu: used is the sum of what was reserved and not released, and is 0 to max. Memory is reserved before it is allocated.
// Each reservation belongs to one session, which releases it once: a ring after it was unmapped, a selection when the plan drops it. Only
// for a moment there may be more: an epoch keeps the selection that it began with, and a change makes a second one beside the first.
type budget struct {
	mu    sync.Mutex
	max   int64
	used  int64 // guarded by mu
	rings int   // rings that it must suffice for, if the server chooses their sizes; 0 if unknown
}

// reserveSlots reserves memory for slots, or, when slots is 0, for as many as are sensible, and no fewer than least. It returns their
// number, 0 if there is too little memory. Where nobody knows how many rings there will be, each leaves as much as it takes to
// later ones.
//
// With slots of 100 MiB in 1 GiB, the first ring takes 5 of them, 500 MiB, and a second one autoSlotsMin. With --sessions 2, each takes 5.
func (b *budget) reserveSlots(slots, least int, slotBytes int64) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	free := b.max - b.used
	if slots == 0 {
		size := min(autoRingBytes, b.max/int64(max(1, b.rings)))
		sensible := min(max(size/slotBytes, autoSlotsMin), autoSlotsMax)
		if b.rings == 0 {
			sensible = max(min(sensible, free/2/slotBytes), autoSlotsMin)
		}
		slots = int(max(min(sensible, free/slotBytes), int64(least)))
	}
	if slotBytes > free/int64(slots) {
		return 0
	}
	b.used += int64(slots) * slotBytes
	return slots
}

// reserve reserves n bytes for a selection.
func (b *budget) reserve(n int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n > b.max-b.used {
		return badRequest("the selection takes %s to set up, and rings and other selections hold %s of the %s that the server may use "+
			"for them: start imgfeed with a larger --memory, or select fewer samples",
			bytesize.Format(n), bytesize.Format(b.used), bytesize.Format(b.max))
	}
	b.used += n
	return nil
}

// release returns n bytes. To return more than were reserved is the server's bug and panics: another session would get memory twice.
func (b *budget) release(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used -= n; b.used < 0 {
		panic("server: more memory released than reserved")
	}
}

func (b *budget) inUse() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// reserveRing reserves the memory of a ring, and returns its slots. It waits a while for it, without a lock: sessions that end meanwhile
// release theirs. Whoever comes first gets what is released.
func (s *Server) reserveRing(slots int, slotBytes int64) (int, error) {
	b, started := &s.memory, time.Now()
	for int64(cmp.Or(slots, autoSlotsMin)) <= b.max/slotBytes && time.Since(started) < reserveTimeout {
		if got := b.reserveSlots(slots, autoSlotsMin, slotBytes); got > 0 {
			return got, nil
		}
		time.Sleep(reserveRetry)
	}
	if got := b.reserveSlots(slots, autoSlotsShort, slotBytes); got > 0 {
		return got, nil
	}
	divide, least := "", cmp.Or(slots, autoSlotsShort)
	if sessions := len(s.openSessions()) + 1; sessions > max(1, b.rings) {
		divide = fmt.Sprintf("--sessions %d, which divides it evenly, or ", sessions)
	}
	return 0, badRequest("%s %s, and other sessions hold %s of the %s that the server may use for batches: "+
		"start imgfeed with %sa larger --memory, or ask for fewer slots or smaller batches",
		bytesize.Counted(least, "slot takes", "slots take"), bytesize.Format(int64(least)*slotBytes), bytesize.Format(b.inUse()),
		bytesize.Format(b.max), divide)
}

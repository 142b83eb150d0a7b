// Package ring is the memory that batches travel in: a number of equal slots, each of which is free, being filled by the
// server, or lent to the client.
//
//	         Acquire              Lend
//	free ──────────────► filling ──────► lent
//	 ▲                      │             │
//	 └──── Abandon ─────────┘             │
//	 └──────────────── Release ───────────┘
//
// The shared kind is an anonymous file (memfd_create(2)), sealed against shrinking and growing, so that no client can
// pull the memory from under the server (which would be SIGBUS), and nothing is left behind however either side ends.
// A ring belongs to one session: one client never sees another's pixels, whatever it does. The server only ever writes to
// it, so it does not matter what a client writes there.
package ring

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// ErrClosed is returned by the methods of a ring after Close.
var ErrClosed = errors.New("ring: closed")

// A SlotError means that a client named a slot that is not lent to it: out of range, or released twice.
type SlotError struct {
	Slot, Slots int
}

func (e *SlotError) Error() string {
	if e.Slot < 0 || e.Slot >= e.Slots {
		return fmt.Sprintf("ring: there is no slot %d: slots are numbered 0 to %d", e.Slot, e.Slots-1)
	}
	return fmt.Sprintf("ring: slot %d is not lent: it was released already, or never delivered", e.Slot)
}

type state uint8

const (
	free state = iota
	filling
	lent
)

// A Ring is safe for concurrent use.
type Ring struct {
	file     *os.File // nil in a private ring
	mem      []byte
	slotSize int64
	queue    chan int // free slots, first come, first served

	mu      sync.Mutex
	states  []state
	counts  [lent + 1]int
	closed  bool
	closing chan struct{}
}

// New returns a ring of slots slots of slotSize bytes (a multiple of the page size) in a sealed anonymous file. All its
// memory is reserved before it returns: when the machine or the container has too little, this is where the error comes,
// not a signal later on.
func New(slots int, slotSize int64) (*Ring, error) {
	size, err := totalSize(slots, slotSize)
	if err != nil {
		return nil, err
	}
	fd, err := unix.MemfdCreate("imgfeed-ring", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("ring: memfd_create: %w", err)
	}
	file := os.NewFile(uintptr(fd), "imgfeed-ring")
	mem, err := reserve(fd, size)
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("ring: %d slots of %d bytes: %w", slots, slotSize, err)
	}
	return newRing(file, mem, slots, slotSize), nil
}

// NewPrivate returns a ring that only this process sees: for sessions whose batches travel through the socket.
func NewPrivate(slots int, slotSize int64) (*Ring, error) {
	size, err := totalSize(slots, slotSize)
	if err != nil {
		return nil, err
	}
	mem, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("ring: %d slots of %d bytes: mmap: %w", slots, slotSize, err)
	}
	return newRing(nil, mem, slots, slotSize), nil
}

func totalSize(slots int, slotSize int64) (int64, error) {
	const sizeMax = int64(^uint(0)>>1) / 2
	if slots < 1 || slotSize < 1 || slotSize%int64(os.Getpagesize()) != 0 || int64(slots) > sizeMax/slotSize {
		return 0, &SizeError{fmt.Sprintf("a ring of %d slots of %d bytes is impossible", slots, slotSize)}
	}
	return int64(slots) * slotSize, nil
}

// reserve gives the file its size for good, and maps it.
func reserve(fd int, size int64) ([]byte, error) {
	if err := unix.Ftruncate(fd, size); err != nil {
		return nil, fmt.Errorf("ftruncate: %w", err)
	}
	for {
		err := unix.Fallocate(fd, 0, 0, size)
		if err == nil {
			break
		}
		if err != unix.EINTR { // the runtime's preemption signals can interrupt a long one
			return nil, fmt.Errorf("fallocate: %w", err)
		}
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL); err != nil {
		return nil, fmt.Errorf("sealing: %w", err)
	}
	mem, err := unix.Mmap(fd, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mmap: %w", err)
	}
	return mem, nil
}

func newRing(file *os.File, mem []byte, slots int, slotSize int64) *Ring {
	r := &Ring{
		file: file, mem: mem, slotSize: slotSize,
		queue: make(chan int, slots), states: make([]state, slots), closing: make(chan struct{}),
	}
	r.counts[free] = slots
	for i := range slots {
		r.queue <- i
	}
	return r
}

// File returns the memory's descriptor, to be passed to the client. It is nil in a private ring.
func (r *Ring) File() *os.File { return r.file }

// Slots returns the number of slots.
func (r *Ring) Slots() int { return len(r.states) }

// SlotSize returns the size of a slot in bytes.
func (r *Ring) SlotSize() int64 { return r.slotSize }

// Size returns the size of the ring in bytes.
func (r *Ring) Size() int64 { return int64(len(r.states)) * r.slotSize }

// Acquire waits for a free slot and returns it to be filled. It returns ctx's error when that ends first, and [ErrClosed]
// once the ring is closed. The caller must end with Lend or Abandon.
func (r *Ring) Acquire(ctx context.Context) (int, error) {
	select {
	case <-r.closing: // before the queue, which select would take half the time
		return 0, ErrClosed
	default:
	}
	select {
	case slot := <-r.queue:
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.closed {
			return 0, ErrClosed
		}
		r.move(slot, filling)
		return slot, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-r.closing:
		return 0, ErrClosed
	}
}

// Bytes returns the memory of a slot that was acquired. It must not be touched after Lend or Abandon.
func (r *Ring) Bytes(slot int) []byte {
	start := int64(slot) * r.slotSize
	return r.mem[start : start+r.slotSize : start+r.slotSize]
}

// Lend hands a filled slot to the client.
func (r *Ring) Lend(slot int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mustBeFilling(slot)
	r.move(slot, lent)
	r.unmapIfIdle()
}

// Abandon takes back a slot that was acquired and will not be delivered.
func (r *Ring) Abandon(slot int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mustBeFilling(slot)
	r.move(slot, free)
	r.queue <- slot
	r.unmapIfIdle()
}

// Release takes back a slot from the client. It returns a [*SlotError] for a slot that is not lent, and changes nothing
// then.
func (r *Ring) Release(slot int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return ErrClosed
	}
	if slot < 0 || slot >= len(r.states) || r.states[slot] != lent {
		return &SlotError{Slot: slot, Slots: len(r.states)}
	}
	r.move(slot, free)
	r.queue <- slot
	return nil
}

// Count returns how many slots are free and lent; the others are being filled.
func (r *Ring) Count() (free, lent int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts[0], r.counts[2]
}

// Close closes the file and unmaps the memory, at once or, if slots are still being filled, when the last of them is lent
// or abandoned: a worker that is late never writes to memory that is gone. The client's own mapping stays valid.
func (r *Ring) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	r.closed = true
	close(r.closing)
	r.unmapIfIdle()
	if r.file != nil {
		return r.file.Close()
	}
	return nil
}

// unmapIfIdle is called with mu held.
func (r *Ring) unmapIfIdle() {
	if r.closed && r.counts[filling] == 0 && r.mem != nil {
		if err := unix.Munmap(r.mem); err != nil {
			panic(fmt.Sprintf("ring: munmap: %v", err))
		}
		r.mem = nil
	}
}

func (r *Ring) move(slot int, to state) {
	r.counts[r.states[slot]]--
	r.counts[to]++
	r.states[slot] = to
}

func (r *Ring) mustBeFilling(slot int) {
	if r.states[slot] != filling {
		panic(fmt.Sprintf("ring: slot %d is not being filled", slot))
	}
}

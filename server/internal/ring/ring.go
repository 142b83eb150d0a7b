// Package ring is the memory that batches travel in: a number of equal slots, each of which is the server's or lent to the
// client. The loader decides which of its own slots the server fills next; the ring keeps account of the lent ones, so that
// a client gives back exactly those that it was given.
//
// The shared kind is an anonymous file (memfd_create(2)), sealed against shrinking and growing. So no client can pull the
// memory from under the server (which would be SIGBUS), and nothing remains however either side ends.
// A ring belongs to one session: one client never sees another's pixels, whatever it does. The server only ever writes to
// it, so it does not matter what a client writes there.
package ring

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A RequestError means that a batch or a ring would be larger than it may be, or that a client named a slot that is not lent to it.
type RequestError struct{ Msg string }

func (e *RequestError) Error() string { return "ring: " + e.Msg }

// An UnavailableError means that this kernel or sandbox gives no shared memory at all.
type UnavailableError struct{ Err error }

func (e *UnavailableError) Error() string {
	return fmt.Sprintf("ring: no shared memory here (%v): open the session with transport \"socket\"", e.Err)
}

func (e *UnavailableError) Unwrap() error { return e.Err }

// A Ring has the slots of one session.
//
// What holds, under mu: a slot is lent, since a time, or it is the server's. Lend and Release alone change that, each by one step. Both and
// Lent may be called by any goroutine, also after Close. The ring knows nothing of what the server does with a slot of its own.
//
// The memory is mapped from New to Close, at one address. The loader decides who writes to a slot without a loan; who closes the ring
// sees to it that nobody does any more.
type Ring struct {
	file     *os.File // nil in a private ring
	mem      []byte
	slotSize int64

	mu   sync.Mutex
	lent []time.Time // guarded by mu: start of each slot's loan, zero if it is not lent
}

// New returns a ring of slots slots of slotSize bytes (a [Layout].Size). A shared one lies in a sealed anonymous file. All its
// memory is reserved before New returns: when the machine or the container has too little, this is where the error comes, not a signal
// later on. Any other ring is seen by this process alone: it is for sessions whose batches travel through the socket.
func New(slots int, slotSize int64, shared bool) (_ *Ring, err error) {
	size := int64(slots) * slotSize
	r := &Ring{slotSize: slotSize, lent: make([]time.Time, slots)}
	if !shared {
		r.mem, err = unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	} else {
		fd, unavailable := unix.MemfdCreate("imgfeed-ring", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
		if unavailable != nil {
			return nil, &UnavailableError{Err: os.NewSyscallError("memfd_create", unavailable)}
		}
		r.file = os.NewFile(uintptr(fd), "imgfeed-ring")
		r.mem, err = reserve(fd, size)
	}
	if err != nil {
		r.Close()
		return nil, fmt.Errorf("ring: %d slots of %d bytes: %w", slots, slotSize, err)
	}
	return r, nil
}

// reserve gives the file its size for good, and maps it: it takes the pages first, then seals the size, and maps it last. A client gets the
// file only afterwards, so it never sees one that it could shrink.
func reserve(fd int, size int64) ([]byte, error) {
	if err := unix.Ftruncate(fd, size); err != nil {
		return nil, fmt.Errorf("%w: raise the limit of a file's size (ulimit -f)", err)
	}
	err := error(unix.EINTR)
	for err == unix.EINTR { // the runtime's preemption signals can interrupt a long one
		err = unix.Fallocate(fd, 0, 0, size)
	}
	if err != nil {
		return nil, fmt.Errorf("fallocate: %w", err)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL); err != nil {
		return nil, fmt.Errorf("sealing: %w", err)
	}
	// Mapped whole at once: workers that meet the pages one by one would take 10,000 faults for a batch of 38 MB.
	mem, err := unix.Mmap(fd, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return nil, fmt.Errorf("mmap: %w", err)
	}
	return mem, nil
}

// File returns the memory's descriptor, to be passed to the client. It is nil in a private ring.
func (r *Ring) File() *os.File { return r.file }

// Slots returns the number of slots.
func (r *Ring) Slots() int { return len(r.lent) }

// Size returns how much memory the ring takes, in bytes.
func (r *Ring) Size() int64 { return int64(r.Slots()) * r.slotSize }

// Bytes returns the memory of a slot. It is gone after Close.
func (r *Ring) Bytes(slot int) []byte {
	start := int64(slot) * r.slotSize
	return r.mem[start : start+r.slotSize : start+r.slotSize]
}

// Lend notes that a slot is the client's from now on. Call it before the client hears of the slot, so that a quick release finds it lent.
// Lending it twice is the server's bug and panics.
func (r *Ring) Lend(slot int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.lent[slot].IsZero() {
		panic(fmt.Sprintf("ring: slot %d is lent already", slot))
	}
	r.lent[slot] = time.Now()
}

// Release notes that the client gives a slot back, and returns how long it was lent. It returns a [*RequestError] for a slot that is not
// lent, and changes nothing then: a client may name any number, and any slot twice.
func (r *Ring) Release(slot int) (lent time.Duration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if slot < 0 || slot >= len(r.lent) || r.lent[slot].IsZero() {
		return 0, &RequestError{fmt.Sprintf("slot %d of %d is not lent: it was released already, or never delivered", slot, len(r.lent))}
	}
	lent = time.Since(r.lent[slot])
	r.lent[slot] = time.Time{}
	return lent, nil
}

// Lent returns how many slots are with the client.
func (r *Ring) Lent() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, since := range r.lent {
		if !since.IsZero() {
			n++
		}
	}
	return n
}

// Close unmaps the memory and closes the file. Nobody may be writing to a slot any more. The client's own mapping stays
// valid.
func (r *Ring) Close() error {
	var err error
	if r.mem != nil {
		err = unix.Munmap(r.mem)
	}
	if r.file != nil {
		err = errors.Join(err, r.file.Close())
	}
	r.mem, r.file = nil, nil
	return err
}

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
	"math"
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

// A Ring's Lend, Release and Lent are safe for concurrent use.
type Ring struct {
	file     *os.File // nil in a private ring
	mem      []byte
	slotSize int64

	mu   sync.Mutex
	lent []time.Time // since when each slot is lent; zero if it is not
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

// reserve gives the file its size for good, and maps it.
func reserve(fd int, size int64) ([]byte, error) {
	if err := unix.Ftruncate(fd, size); err != nil {
		return nil, fmt.Errorf("%w: raise the limit of a file's size (ulimit -f)", err)
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

// Lend notes that a slot is the client's from now on. Lending it twice is the server's bug and panics.
func (r *Ring) Lend(slot int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.lent[slot].IsZero() {
		panic(fmt.Sprintf("ring: slot %d is lent already", slot))
	}
	r.lent[slot] = time.Now()
}

// Release notes that the client gives a slot back, and returns how long it was lent. It returns a [*RequestError] for a slot that is not
// lent, and changes nothing then.
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

// arrayAlign is the alignment of each array within a slot: a cache line, and the width of the widest vector.
const arrayAlign = 64

// Kinds of arrays.
const (
	Images  = "images"
	Labels  = "labels"
	Indices = "indices"
	Params  = "params"
	Field   = "field" // a field of the set, by its name

	Repetitions = "repetitions"
)

// dtypes are the bytes of an element of each type that arrays have. Arrays of other types come with their Stride.
var dtypes = map[string]int64{"uint8": 1, "int32": 4, "int64": 8, "float32": 4}

// An Array is one of the arrays that a slot holds: an element of Shape for each sample of the batch, one after the other. It is what the
// reply to open says of it.
type Array struct {
	Kind   string `json:"kind"`           // what it holds
	Name   string `json:"name,omitempty"` // name among several arrays of a kind
	Dtype  string `json:"dtype"`
	Shape  []int  `json:"shape"`  // shape of one sample; empty: a single number
	Offset int64  `json:"offset"` // within the slot, bytes
	Stride int64  `json:"stride"` // bytes from one sample to the next
}

// A Layout says which arrays a slot has and where they lie. For 256 samples of 224×224 with params:
//
//	images   uint8 [224 224 3]   0           256 × 150,528 = 38,535,168
//	labels   int64               38,535,168  256 × 8
//	indices  int64               38,537,216  256 × 8
//	params   int32 [5]           38,539,264  256 × 20
//	Size                         38,547,456  a whole number of pages
type Layout struct {
	BatchSize int
	Arrays    []Array // arrays in the order of memory and wire
	Size      int64

	SampleBytes int64 // size of a sample in all arrays, without the gaps between them
}

// sizeMax bounds a slot, so that sums of sizes do not overflow.
const sizeMax = math.MaxInt64 / 4

// NewLayout lays out batchSize samples: it sets Offset and Stride of the arrays, which it keeps. It returns a [*RequestError] for sizes
// that are not positive or whose product does not fit.
func NewLayout(batchSize int, arrays ...Array) (Layout, error) {
	l := Layout{BatchSize: batchSize, Arrays: arrays}
	if batchSize < 1 || int64(batchSize) > sizeMax {
		return Layout{}, &RequestError{fmt.Sprintf("a batch of %d samples is impossible", batchSize)}
	}
	for i := range arrays {
		a := &arrays[i]
		var err error
		if dtypes[a.Dtype] > 0 {
			a.Stride, err = a.sampleBytes()
		}
		if err != nil {
			return Layout{}, err
		}
		if int64(batchSize) > (sizeMax-l.Size)/a.Stride {
			return Layout{}, &RequestError{fmt.Sprintf("a batch of %d samples of %d bytes of %s is impossible", batchSize, a.Stride, a.Kind)}
		}
		a.Offset = alignUp(l.Size, arrayAlign)
		l.Size = a.Offset + int64(batchSize)*a.Stride
		l.SampleBytes += a.Stride
	}
	l.Size = alignUp(l.Size, int64(os.Getpagesize()))
	return l, nil
}

// sampleBytes returns the size of one sample's part of the array.
func (a *Array) sampleBytes() (int64, error) {
	size := dtypes[a.Dtype]
	for _, n := range a.Shape {
		if n < 1 || size > sizeMax/int64(n) {
			return 0, &RequestError{fmt.Sprintf("%s of the shape %v are impossible", a.Kind, a.Shape)}
		}
		size *= int64(n)
	}
	return size, nil
}

// AppendParts appends to parts those of slot that hold the arrays of count samples, in order.
func (l Layout) AppendParts(parts [][]byte, slot []byte, count int) [][]byte {
	for i := range l.Arrays {
		a := &l.Arrays[i]
		end := a.Offset + int64(count)*a.Stride
		parts = append(parts, slot[a.Offset:end:end])
	}
	return parts
}

func alignUp(n, to int64) int64 { return (n + to - 1) / to * to }

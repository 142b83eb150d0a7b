package storage

import (
	"os"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// aioMax is how many asynchronous reads the process has under way.
	aioMax = 1024
	// aioPatience is how long somebody waits for a read before it is asked whether it still wants to.
	aioPatience = 10 * time.Millisecond
	// aioBatch reads are begun before those are collected that have ended meanwhile.
	aioBatch = 8
)

// aio is the system's asynchronous reads (io_submit(2)): no thread waits for each of them. io_uring would do the same at the same cost, but
// containers forbid it by default. Reads that have ended are collected, many at a time, by those who wait for one of them or begin others: to wake somebody up
// for each costs more than beginning it.
//
// A cold JPEG of 110 KB takes 473 to 534 µs of processor time in all and 0.5 context switches when the system reads, and 530 to 610 µs and 1.9 switches when
// goroutines do, both past the page cache (Zen 4, EPYC family 25 model 17, two decoding threads, beside other work). An asynchronous read with a goroutine that
// waits for it saves nothing of that.
type aio struct {
	context uintptr

	mu    sync.Mutex // of the next three
	begun int        // reads so far
	free  []uint64   // of reads
	reads [aioMax]*Fetch

	collecting sync.Mutex
	events     [64]aioEvent
}

// aioRequest is struct iocb of linux/aio_abi.h.
type aioRequest struct {
	data   uint64
	_      uint32 // key
	_      uint32 // flags of preadv2
	_      uint16 // 0: IOCB_CMD_PREAD
	_      int16  // priority
	fd     uint32
	buf    uint64
	bytes  uint64
	offset int64
	_      uint64
	_      uint32 // flags
	_      uint32 // a descriptor to notify
}

// aioEvent is struct io_event.
type aioEvent struct {
	data   uint64
	_      uint64 // the request
	result int64  // bytes, or below 0 an error's number
	_      int64  // a second result
}

// processAIO returns the process's asynchronous reads, or nil where the system has none, as in a container that forbids them.
var processAIO = sync.OnceValue(func() *aio {
	a := &aio{}
	if _, _, errno := unix.Syscall(unix.SYS_IO_SETUP, aioMax, uintptr(unsafe.Pointer(&a.context)), 0); errno != 0 {
		return nil
	}
	for i := range a.reads {
		a.free = append(a.free, uint64(i))
	}
	return a
})

// submit begins to read past the page cache, from a file that was opened for that. It reports false where the system does not take the read.
func (a *aio) submit(file *os.File, r *Fetch) bool {
	buf, begin := r.sectors()
	a.mu.Lock()
	if len(a.free) == 0 {
		a.mu.Unlock()
		return false
	}
	slot := a.free[len(a.free)-1]
	a.free = a.free[:len(a.free)-1]
	a.reads[slot] = r
	a.begun++
	full := a.begun%aioBatch == 0
	a.mu.Unlock()
	if full && a.collecting.TryLock() { // else somebody is at it
		a.collect(0)
		a.collecting.Unlock()
	}
	r.system.Store(a)
	// The memory lies in no garbage-collected heap (NewMemory), and so stays where it is.
	request := &aioRequest{data: slot, fd: uint32(file.Fd()), buf: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(buf)))), bytes: uint64(len(buf)), offset: begin}
	for {
		_, _, errno := unix.Syscall(unix.SYS_IO_SUBMIT, a.context, 1, uintptr(unsafe.Pointer(&request)))
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 {
			a.release(slot)
			r.system.Store(nil)
		}
		return errno == 0
	}
}

// release returns the read of a slot, which is free from then on.
func (a *aio) release(slot uint64) *Fetch {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.reads[slot]
	a.reads[slot] = nil
	a.free = append(a.free, slot)
	return r
}

// await collects what has ended. If r is not among that, it waits for aioPatience at most until something else ends.
func (a *aio) await(r *Fetch, again bool) {
	a.collecting.Lock()
	defer a.collecting.Unlock()
	if r.landed.Load() || r.system.Load() != a {
		return
	}
	if !again {
		a.collect(0)
		if r.landed.Load() || r.system.Load() != a {
			return
		}
		r.noteWait()
	}
	a.collect(1)
}

// collect has reads land that have ended, and waits until there are least of them. The caller has locked collecting.
func (a *aio) collect(least int) {
	patience := unix.NsecToTimespec(int64(aioPatience))
	for {
		n, _, errno := unix.Syscall6(unix.SYS_IO_GETEVENTS, a.context, uintptr(least), uintptr(len(a.events)),
			uintptr(unsafe.Pointer(&a.events)), uintptr(unsafe.Pointer(&patience)), 0)
		if errno != 0 { // EINTR: who waits asks again
			return
		}
		for _, e := range a.events[:n] {
			a.release(e.data).sectorsRead(e.result)
		}
		if int(n) < len(a.events) {
			return
		}
		least = 0
	}
}

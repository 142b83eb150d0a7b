package shard

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The system's asynchronous input and output (io_submit(2)), and not io_uring: for direct reads of records both cost the same time,
// and what containers let their programs call by default has the former and not the latter.

// aioRequest is struct iocb of linux/aio_abi.h.
type aioRequest struct {
	data   uint64
	_      uint32 // key
	_      uint32 // flags of preadv2
	opcode uint16
	_      int16 // priority
	fd     uint32
	buf    uint64
	bytes  uint64
	offset int64
	_      uint64
	_      uint32 // flags
	_      uint32 // a descriptor to notify
}

const (
	aioRead    = 0 // IOCB_CMD_PREAD
	directFlag = unix.O_DIRECT
)

// aioEvent is struct io_event.
type aioEvent struct {
	data uint64
	_    uint64 // the request
	res  int64
	_    int64 // a second result
}

// aioRing holds the reads that are under way.
type aioRing struct {
	context uintptr
	events  []aioEvent
	request aioRequest // which the system copies
	next    directRead
}

func newAIORing(count int) (*aioRing, error) {
	r := &aioRing{events: make([]aioEvent, 64)}
	if _, _, errno := unix.Syscall(unix.SYS_IO_SETUP, uintptr(count), uintptr(unsafe.Pointer(&r.context)), 0); errno != 0 {
		return nil, os.NewSyscallError("io_setup", errno)
	}
	return r, nil
}

// submit starts the read that r.next says. The memory lies in no garbage-collected heap, and so stays where it is.
func (r *aioRing) submit(f *os.File) error {
	request := &r.request
	*request = aioRequest{
		data: uint64(r.next.number), opcode: aioRead, fd: uint32(f.Fd()),
		buf: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(r.next.into)))), bytes: uint64(len(r.next.into)), offset: r.next.offset,
	}
	for {
		_, _, errno := unix.Syscall(unix.SYS_IO_SUBMIT, r.context, 1, uintptr(unsafe.Pointer(&request)))
		switch errno {
		case 0:
			return nil
		case unix.EINTR:
		default:
			return os.NewSyscallError("io_submit", errno)
		}
	}
}

// wait takes the completions that there are from the system, into r.events, and waits until there are least of them.
func (r *aioRing) wait(least int) []aioEvent {
	n, _, errno := unix.Syscall6(unix.SYS_IO_GETEVENTS, r.context, uintptr(least), uintptr(len(r.events)), uintptr(unsafe.Pointer(&r.events[0])), 0, 0)
	if errno != 0 { // EINTR, after which the caller asks again
		return nil
	}
	return r.events[:n]
}

// close waits for what is under way.
func (r *aioRing) close() { unix.Syscall(unix.SYS_IO_DESTROY, r.context, 0, 0) }

// newArena makes memory for direct reads, which need it aligned and cost less where its pages are large.
func newArena(bytes int) ([]byte, error) {
	arena, err := unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err == nil {
		unix.Madvise(arena, unix.MADV_HUGEPAGE)
		unix.Madvise(arena, unix.MADV_DONTFORK)
	}
	return arena, err
}

func freeArena(arena []byte) { unix.Munmap(arena) }

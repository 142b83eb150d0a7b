package shard

import (
	"os"
	"sync"
	"time"
)

// Prefetch asks the system to have sample i in the page cache soon, without waiting for it, so that a Read that comes later
// does not wait for the disk. It returns the record's length in bytes, 0 if there is no such sample here. It is a hint: where it
// can't be given, nothing happens. A sample whose bytes are in memory already costs a microsecond.
func (s *Set) Prefetch(i int) (length int64) {
	r, record, err := s.reader(i)
	if err != nil {
		return 0
	}
	e, err := r.Entry(record)
	if err != nil {
		return 0
	}
	// In pieces that no system cuts short: file systems of a network take as much as they read ahead of a file that is read
	// in order, which is 128 KiB unless told; those of disks as much as one request may have, which is more.
	piece := int64(1 << 20)
	if r.waits.Load() {
		piece = 128 << 10
	}
	h := spareHints.Get().(*hint)
	for at, end := e.Offset, e.Offset+e.length(); at < end; at += piece {
		h.offset, h.length = at, min(piece, end-at)
		withFile(r.file, h.willNeed)
	}
	spareHints.Put(h)
	return e.length()
}

// Resident reports whether sample i is in the page cache, judged by the middle of its record: its ends share pages with other
// records. waits says that to ask may take as long as to read from the disk, since its file system can't tell otherwise. A sample
// that is not here counts as resident: there is nothing to wait for.
func (s *Set) Resident(i int) (resident, waits bool) {
	r, record, err := s.reader(i)
	if err != nil {
		return true, false
	}
	e, err := r.Entry(record)
	if err != nil {
		return true, false
	}
	h := spareHints.Get().(*hint)
	defer spareHints.Put(h)
	h.offset, h.known = e.Offset+e.length()/2, true
	if !r.waits.Load() {
		// An error other than that it isn't there is Read's to find.
		if err := withFile(r.file, h.resident); h.known {
			return err != errNotResident, false
		}
		r.waits.Store(true)
	}
	started := time.Now()
	r.file.ReadAt(h.b[:], h.offset)
	return time.Since(started) < residentBelow, true
}

// residentBelow is well above what a byte in memory takes, and well below what a disk does.
const residentBelow = 50 * time.Microsecond

// A hint is a call about a part of a file. It keeps its functions, so that nothing is allocated for a call.
type hint struct {
	offset, length     int64
	known              bool // false: the file system can't tell what is in memory
	b                  [1]byte
	into               [1][]byte
	willNeed, resident func(*os.File) error
}

var spareHints = sync.Pool{New: func() any {
	h := new(hint)
	h.into[0] = h.b[:]
	h.willNeed, h.resident = h.adviseWillNeed, h.isResident
	return h
}}

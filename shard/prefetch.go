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
	if file, ok := r.file.(*pooledFile); ok {
		file.scatter()
	}
	r.prefetch(e, hintPiece)
	return e.length()
}

const (
	// hintPiece is what file systems of disks take of a hint: as much as one request may have, or more.
	hintPiece = 1 << 20
	// hintPieceSlow is what those of networks and programs take: as much as they read ahead of a file that is read in order, which
	// is 128 KiB unless told.
	hintPieceSlow = 128 << 10
)

// prefetch gives the hint for a record, in pieces that no system cuts short.
func (r *Reader) prefetch(e Entry, piece int64) {
	if r.isSlow() {
		piece = hintPieceSlow
	}
	h := spareHints.Get().(*hint)
	for at, end := e.Offset, e.Offset+e.length(); at < end; at += piece {
		h.offset, h.length = at, min(piece, end-at)
		withFile(r.file, h.willNeed)
	}
	spareHints.Put(h)
}

// prefetchPieces gives the hint for a record that is about to be read, where the system would read it piece by piece otherwise.
func (r *Reader) prefetchPieces(e Entry) {
	if e.length() > hintPieceSlow && r.isSlow() {
		r.prefetch(e, hintPieceSlow)
	}
}

// Resident reports whether sample i is in the page cache: all of it, or where the system does not tell that, the middle of its record,
// whose ends share pages with other records. waits says that to ask may take as long as to read from the disk, since its file system can't tell otherwise. A sample
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
	h.offset, h.length = e.Offset, e.length()
	if !r.uncounted.Load() {
		err := withFile(r.file, h.cached)
		if err == nil || err == errNotResident {
			return err == nil, false
		}
		r.uncounted.Store(true)
	}
	h.offset = e.Offset + e.length()/2
	if !r.isSlow() {
		return withFile(r.file, h.nowait) != errNotResident, false // any other error is Read's to find
	}
	started := time.Now()
	r.file.ReadAt(h.b[:], h.offset)
	return time.Since(started) < residentBelow, true
}

// isSlow reports whether the shard's file system is one that can't start a read without waiting for it: a network's, for instance.
func (r *Reader) isSlow() bool {
	r.classify.Do(func() {
		h := spareHints.Get().(*hint)
		defer spareHints.Put(h)
		h.offset = 0
		err := withFile(r.file, h.nowait)
		r.slow = err != nil && err != errNotResident
	})
	return r.slow
}

// residentBelow is well above what a byte in memory takes, and well below what a disk does.
const residentBelow = 50 * time.Microsecond

// A hint is a call about a part of a file. It keeps its functions, so that nothing is allocated for a call.
type hint struct {
	offset, length           int64
	b                        [1]byte
	into                     [1][]byte
	willNeed, cached, nowait func(*os.File) error
}

var spareHints = sync.Pool{New: func() any {
	h := new(hint)
	h.into[0] = h.b[:]
	h.willNeed, h.cached, h.nowait = h.adviseWillNeed, h.isCached, h.readNowait
	return h
}}

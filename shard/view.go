package shard

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"unsafe"

	"github.com/imgfeed/imgfeed/shard/storage"
)

var pageSize = int64(os.Getpagesize())

// mapping is a shard file in memory, made when it is first asked for.
type mapping struct {
	once  sync.Once
	bytes []byte // of the whole file; nil if it could not be mapped
	err   error
}

// Map maps every shard that is here into memory, so that View can hand out records without copying them. It reads
// nothing. It may be called more than once. The error says why a file can't be mapped; Read works all the same.
func (s *Set) Map() error {
	for i := range s.partitions {
		p := &s.partitions[i]
		for k := range p.shards {
			r, err := p.reader(k)
			if err == nil {
				err = r.mapFile()
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *Reader) mapFile() error {
	r.mapped.once.Do(func() {
		r.mapped.bytes, r.mapped.err = r.mapPart(0, r.footer.fileLength)
		if r.mapped.err != nil && !errors.Is(r.mapped.err, storage.ErrNotMapped) {
			r.mapped.err = fmt.Errorf("shard: %s: map %d bytes: %w", r.path, r.footer.fileLength, r.mapped.err)
		}
	})
	return r.mapped.err
}

// mapPart maps a part of the file, which begins at a page.
func (r *Reader) mapPart(offset, length int64) ([]byte, error) {
	m, ok := r.file.(storage.Mapper)
	if !ok {
		return nil, storage.ErrNotMapped
	}
	return m.Map(offset, length)
}

// View returns sample i, as Read does, but without a copy: its slices lie in the file's mapping, read-only, and are
// valid until the set is closed, for which the caller waits until no view is in use. Map must have succeeded.
//
// It is for samples that are in memory, and likely to stay there. One that is not is read by faults, in each of which the
// thread waits without Go's knowledge; and where memory is short, the kernel takes long to find out that mapped pages are not in use.
//
// The record's checksum has just been checked, on the very memory that is handed out. What View can't rule out is that
// the file changes afterwards: a file that is cut short under a view makes the pages after its end fault. So whoever
// uses the slices does so on a goroutine with debug.SetPanicOnFault, tells such a panic with [FaultError], and
// relies on nothing that it has read before being the same when it reads it again.
func (s *Set) View(i int) (Record, error) {
	r, record, err := s.reader(i)
	if err != nil {
		return Record{}, err
	}
	rec, err := r.view(record)
	if c, ok := errors.AsType[*CorruptError](err); ok {
		c.Index = i
	}
	return rec, err
}

// view is View for sample j of the shard.
func (r *Reader) view(j int) (rec Record, err error) {
	e, err := r.Entry(j)
	if err != nil {
		return Record{}, err
	}
	length := e.length()
	// After the last record lie slack, entries and footer, so that the slices' capacity is within the file.
	bytes := r.mapped.bytes[e.Offset : e.Offset+length : e.Offset+length+SlackBytes]
	defer func() {
		if p := recover(); p != nil {
			fault := FaultError(p, bytes)
			if fault == nil {
				panic(p)
			}
			err = r.corruptRecord(j, &e, fault)
		}
	}()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	if got := checksum(bytes); got != e.Checksum {
		return Record{}, r.corruptRecord(j, &e, &ChecksumError{Length: length, Want: e.Checksum, Got: got})
	}
	return makeRecord(e, bytes), nil
}

// Mapped returns where sample i lies in its file's mapping, unchecked, for whoever will want it soon and can have it
// brought nearer. Nothing of it may be read. It is nil if there is no such sample here, or no mapping.
func (s *Set) Mapped(i int) []byte {
	r, record, err := s.reader(i)
	if err != nil || r.mapped.bytes == nil {
		return nil
	}
	e, err := r.Entry(record)
	if err != nil {
		return nil
	}
	return r.mapped.bytes[e.Offset : e.Offset+e.length()]
}

// FaultError takes the value of a recovered panic. If that is a fault in the given memory (on a goroutine with
// debug.SetPanicOnFault), part of a file's mapping, it returns an error that says so; else nil.
func FaultError(panicked any, memory []byte) error {
	fault, ok := panicked.(interface {
		error
		Addr() uintptr
	})
	if !ok || cap(memory) == 0 {
		return nil
	}
	start := uintptr(unsafe.Pointer(unsafe.SliceData(memory)))
	if fault.Addr() < start || fault.Addr() >= start+uintptr(cap(memory)) {
		return nil
	}
	return fmt.Errorf("byte %d of the mapped record cannot be read: the file was cut short, or its disk failed", fault.Addr()-start)
}

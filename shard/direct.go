package shard

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
)

// A Direct reads records of a set past the page cache, many at a time, into memory of its own: for a CPU that is busy that costs a
// quarter of what the page cache does, and what will not be read again before it has to make room does not push out what will.
//
// Reads are known by numbers that their user gives them, in rising order. Start is for one goroutine; the other methods are safe
// for concurrent use.
type Direct struct {
	set    *Set
	ring   aioRing
	submit func(*os.File) error // ring.submit
	arena  []byte               // page-aligned; records lie in it in the order of their numbers, like in a ring

	transfers []transfer
	order     []int64 // numbers of the transfers that hold memory, the oldest first
	head      int     // of the arena: where the next one may begin

	reap     sync.Mutex // held by the one who takes completions from the system
	finished sync.Once
}

// A transfer is one read, from Start until it is released.
type transfer struct {
	number   atomic.Int64 // that it is to be taken by; free or taken otherwise
	landed   atomic.Bool
	released atomic.Bool

	reader *Reader
	record int
	entry  Entry
	from   int // of the arena
	to     int
	skip   int   // bytes before the record, since reads begin at a sector
	result int64 // bytes that were read, or -errno
}

const transferTaken = -1 // for a transfer's number

// A directRead is what a ring is to read.
type directRead struct {
	number int64
	into   []byte
	offset int64
}

// A directFile is a shard's file for reading past the page cache, opened when that is first done.
type directFile struct {
	once sync.Once
	file *pooledFile
	err  error
}

func (f *directFile) close() error {
	f.once.Do(func() { f.err = os.ErrClosed })
	if f.file == nil {
		return nil
	}
	return f.file.Close()
}

// directFile returns the shard's.
func (r *Reader) directFile() (*pooledFile, error) {
	r.direct.once.Do(func() {
		plain, ok := r.file.(*pooledFile)
		if !ok || r.isSlow() {
			r.direct.err = errNotDirect
			return
		}
		r.direct.file = &pooledFile{path: plain.path, pool: plain.pool, flags: directFlag, twin: plain}
	})
	return r.direct.file, r.direct.err
}

// directAlign is what places, lengths and memory of direct reads are multiples of: no disk's sectors are larger.
const directAlign = 4096

// errNotDirect says that files cannot be read past the page cache here.
var errNotDirect = errors.New("shard: files are not read past the page cache here")

// NewDirect prepares for at most count records of the set at a time, in so many bytes. The error says why that can't be done here.
// It must be closed, and before the set is.
func (s *Set) NewDirect(bytes int64, count int) (*Direct, error) {
	if s.isSlow() {
		return nil, fmt.Errorf("%w: their file system can't start a read without waiting for it", errNotDirect)
	}
	d := &Direct{set: s, transfers: make([]transfer, count)}
	for i := range d.transfers {
		d.transfers[i].number.Store(transferTaken)
	}
	var err error
	if d.ring, err = newAIORing(count); err != nil {
		return nil, fmt.Errorf("%w: %w", errNotDirect, err)
	}
	d.submit = d.ring.submit
	if d.arena, err = newArena(int(bytes) &^ (directAlign - 1)); err != nil {
		d.ring.close()
		return nil, fmt.Errorf("%w: %w", errNotDirect, err)
	}
	return d, nil
}

// isSlow reports whether a shard's file system is.
func (s *Set) isSlow() bool {
	for i := range s.partitions {
		if p := &s.partitions[i]; len(p.shards) > 0 {
			r, err := p.reader(0)
			return err == nil && r.isSlow()
		}
	}
	return false
}

// Start begins to read sample i as number n, and returns the bytes that it takes. 0 bytes mean that there is no room: later, when
// others are released, there may be. An error means that this sample is not to be had so; Read says whether otherwise.
func (d *Direct) Start(n int64, i int) (bytes int64, err error) {
	r, record, err := d.set.reader(i)
	if err != nil {
		return 0, err
	}
	e, err := r.Entry(record)
	if err != nil {
		return 0, err
	}
	d.reclaim()
	t := &d.transfers[n%int64(len(d.transfers))]
	begin := e.Offset &^ (directAlign - 1)
	skip := int(e.Offset - begin)
	length := (skip + int(e.length()) + SlackBytes + directAlign - 1) &^ (directAlign - 1)
	if length > len(d.arena)/2 {
		return 0, fmt.Errorf("%w: a record of %d bytes", errNotDirect, e.length())
	}
	from, ok := d.place(length)
	if !ok || t.from != t.to {
		return 0, nil
	}
	file, err := r.directFile()
	if err != nil {
		return 0, err
	}
	t.reader, t.record, t.entry, t.from, t.to, t.skip = r, record, e, from, from+length, skip
	t.landed.Store(false)
	t.released.Store(false)
	d.ring.next = directRead{n, d.arena[from : from+length], begin}
	if err := file.use(d.submit); err != nil {
		t.from, t.to = 0, 0
		return 0, fmt.Errorf("%w: %s: %w", errNotDirect, r.path, err)
	}
	d.order, d.head = append(d.order, n), from+length
	t.number.Store(n)
	return int64(length), nil
}

// place finds length free bytes of the arena in one piece.
func (d *Direct) place(length int) (from int, ok bool) {
	if len(d.order) == 0 {
		return 0, true
	}
	tail := d.transfers[d.order[0]%int64(len(d.transfers))].from
	switch {
	case d.head > tail && d.head+length <= len(d.arena):
		return d.head, true
	case d.head > tail:
		return 0, length < tail
	}
	return d.head, d.head+length < tail
}

// reclaim frees the memory of the oldest transfers that are released.
func (d *Direct) reclaim() {
	done := 0
	for _, n := range d.order {
		t := &d.transfers[n%int64(len(d.transfers))]
		if !t.released.Load() {
			break
		}
		if !t.landed.Load() {
			d.collect(false)
			if !t.landed.Load() {
				break
			}
		}
		t.from, t.to = 0, 0
		done++
	}
	d.order = append(d.order[:0], d.order[done:]...)
}

// Take waits for number n and returns its record, checked as by Set.Read. held reports whether that is to be released; it is
// false if the number was never started, or was abandoned. With an error, the sample is to be read otherwise: what is wrong with it
// is said by that.
func (d *Direct) Take(n int64) (rec Record, held bool, err error) {
	t := &d.transfers[n%int64(len(d.transfers))]
	if !t.number.CompareAndSwap(n, transferTaken) {
		return Record{}, false, nil
	}
	for !t.landed.Load() {
		d.reap.Lock()
		if !t.landed.Load() {
			d.collect(true)
		}
		d.reap.Unlock()
	}
	length := int64(t.entry.length())
	if t.result < int64(t.skip)+length {
		return Record{}, true, fmt.Errorf("%w: read %d of %d bytes", errNotDirect, t.result, int64(t.skip)+length)
	}
	bytes := d.arena[t.from+t.skip : t.to : t.to]
	if got := checksum(bytes[:length]); got != t.entry.Checksum {
		return Record{}, true, io.ErrUnexpectedEOF
	}
	clear(bytes[length : length+SlackBytes])
	return makeRecord(t.entry, bytes[:length:length+SlackBytes]), true, nil
}

// Release gives the memory of a number that was taken back.
func (d *Direct) Release(n int64) { d.transfers[n%int64(len(d.transfers))].released.Store(true) }

// Abandon releases a number that nobody has taken, and nobody will.
func (d *Direct) Abandon(n int64) {
	if t := &d.transfers[n%int64(len(d.transfers))]; t.number.CompareAndSwap(n, transferTaken) {
		t.released.Store(true)
	}
}

// Close waits for the reads that are under way, and frees the memory, which nobody looks at any more.
func (d *Direct) Close() {
	d.finished.Do(func() {
		d.ring.close()
		freeArena(d.arena)
	})
}

// collect takes completions from the system. With wait it waits until there is one; the caller holds d.reap then.
func (d *Direct) collect(wait bool) {
	least := 0
	if wait {
		least = 1
	} else if !d.reap.TryLock() {
		return // somebody is at it
	} else {
		defer d.reap.Unlock()
	}
	for _, e := range d.ring.wait(least) {
		t := &d.transfers[int64(e.data)%int64(len(d.transfers))]
		t.result = e.res
		t.landed.Store(true)
	}
}

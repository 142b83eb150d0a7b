package shard

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// A Direct reads records of a set ahead of their use, many at a time, into memory of its own: past the page cache, which costs a CPU
// that is busy a quarter, and does not push out what will be read again soon, or through it, so that they stay there.
//
// Reads past the page cache are the system's own asynchronous ones, where it has them for the set's file system. Threads that wait do all
// others: many where [Set.DropsHints]; elsewhere two, for what the system does not take.
//
// Reads are known by numbers that their user gives them, in rising order. Start is for one goroutine; the other methods are safe
// for concurrent use.
type Direct struct {
	set     *Set
	ring    *aioRing             // nil: threads do all
	submit  func(*os.File) error // ring.submit
	slow    bool                 // the set's file system drops hints
	blocked int                  // times in a row that submit took as long as reading
	threads readThreads
	under   atomic.Int64 // reads that have not landed
	arena   []byte       // page-aligned; records lie in it in the order of their numbers, like in a ring

	transfers []transfer
	order     []int64 // numbers of the transfers that hold memory, the oldest first
	head      int     // of the arena: where the next one may begin

	reap     sync.Mutex // held by the one who takes completions from the system
	finished sync.Once
}

// A transfer is one read, from Start until it is released.
type transfer struct {
	number   atomic.Int64 // that it is to be taken by; free or taken otherwise
	passed   atomic.Int64 // the highest number that was to be taken before it was started
	landed   atomic.Bool
	released atomic.Bool
	threaded bool          // a thread reads it
	done     chan struct{} // has a token when that has

	reader *Reader
	record int
	entry  Entry
	from   int // of the arena
	to     int
	skip   int         // bytes before the record, since reads begin at a sector
	file   *pooledFile // of reader, that a thread is to read
	result int64       // bytes that were read, or below 0
}

const transferTaken = -1 // for a transfer's number

// directDepth is how many reads are under way at most: more than disks have in work at a time, so that they are never idle, and no more,
// since one that is wanted at once, or by the next epoch, waits behind all of them.
const directDepth = 64

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
		if !ok {
			r.direct.err = errNotDirect
			return
		}
		r.direct.file = &pooledFile{path: plain.path, pool: plain.pool, flags: directFlag, twin: plain}
	})
	return r.direct.file, r.direct.err
}

// directAlign is what places, lengths and memory of direct reads are multiples of: no disk's sectors are larger.
const directAlign = 4096

// errNotDirect says that records cannot be read ahead into memory here.
var errNotDirect = errors.New("shard: records are not read ahead into memory here")

// NewDirect prepares for at most count records of the set at a time, in so many bytes. The error says why that can't be done here.
// It must be closed, and before the set is.
func (s *Set) NewDirect(bytes int64, count int) (*Direct, error) {
	d := &Direct{set: s, slow: s.DropsHints(), transfers: make([]transfer, count)}
	for i := range d.transfers {
		t := &d.transfers[i]
		t.number.Store(transferTaken)
		t.passed.Store(-1)
		t.done = make(chan struct{}, 1)
	}
	var err error
	if d.arena, err = newArena(int(bytes) &^ (directAlign - 1)); err != nil {
		return nil, fmt.Errorf("%w: %w", errNotDirect, err)
	}
	if ring, err := newAIORing(directDepth); err == nil { // a container may forbid it
		d.ring, d.submit = ring, ring.submit
	}
	d.threads.init(d, bytes)
	return d, nil
}

// DropsHints reports whether the set lies on a file system that drops hints to read ahead, or waits, while it has much to do: one of a
// network or of a program.
func (s *Set) DropsHints() bool {
	for i := range s.partitions {
		if p := &s.partitions[i]; len(p.shards) > 0 {
			r, err := p.reader(0)
			return err == nil && r.isSlow()
		}
	}
	return false
}

// Start begins to read sample i as number n: through the page cache, where it then stays, or past it. It returns the bytes that this
// takes. 0 bytes mean that there is no room: later, when others have landed or are released, there may be. An error means that this
// sample is not to be had so; Read says whether otherwise.
func (d *Direct) Start(n int64, i int, cached bool) (bytes int64, err error) {
	r, record, err := d.set.reader(i)
	if err != nil {
		return 0, err
	}
	e, err := r.Entry(record)
	if err != nil {
		return 0, err
	}
	t := d.transfer(n)
	if t.passed.Load() >= n {
		return max(e.length(), 1), nil // whoever wants it reads it already
	}
	if d.under.Load() >= directDepth {
		if d.collect(false); d.under.Load() >= directDepth {
			return 0, nil
		}
	}
	d.reclaim()
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
	t.reader, t.record, t.entry, t.from, t.to, t.skip = r, record, e, from, from+length, skip
	if err := d.begin(t, n, begin, cached); err != nil {
		t.from, t.to = 0, 0
		return 0, fmt.Errorf("%w: %s: %w", errNotDirect, r.path, err)
	}
	d.order, d.head = append(d.order, n), from+length
	t.number.Store(n)
	if t.passed.Load() >= n && t.number.CompareAndSwap(n, transferTaken) {
		t.released.Store(true)
	}
	return int64(length), nil
}

func (d *Direct) transfer(n int64) *transfer { return &d.transfers[n%int64(len(d.transfers))] }

// begin has a transfer's memory filled from the file's sector at offset on, as number n.
func (d *Direct) begin(t *transfer, n, offset int64, cached bool) (err error) {
	plain, ok := t.reader.file.(*pooledFile)
	if !ok {
		return errNotDirect
	}
	plain.scatter()
	t.file = plain
	if !cached {
		if t.file, err = t.reader.directFile(); err != nil {
			return err
		}
	}
	t.landed.Store(false)
	t.released.Store(false)
	d.under.Add(1)
	if t.threaded = cached || d.ring == nil || d.blocked >= blockedMax; !t.threaded {
		d.ring.next = directRead{n, d.arena[t.from:t.to], offset}
		t.threaded = d.submitNext(t.file) != nil // a thread finds a way, or out why there is none
	}
	if t.threaded {
		d.threads.read(t)
	}
	return nil
}

const (
	// blockedAbove is longer than to start a read takes, and no longer than most file systems of networks and programs take to read.
	blockedAbove = 100 * time.Microsecond
	// blockedMax times in a row it is not a processor that was busy.
	blockedMax = 8
)

// submitNext starts what d.ring.next says. File systems of programs may do that at once, so that reads would come one after the other;
// then it is left to threads from there on.
func (d *Direct) submitNext(f *pooledFile) error {
	if !d.slow {
		return f.use(d.submit)
	}
	started := time.Now()
	err := f.use(d.submit)
	if d.blocked++; time.Since(started) < blockedAbove {
		d.blocked = 0
	}
	return err
}

// place finds length free bytes of the arena in one piece.
func (d *Direct) place(length int) (from int, ok bool) {
	if len(d.order) == 0 {
		return 0, true
	}
	tail := d.transfer(d.order[0]).from
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
		t := d.transfer(n)
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
// false if the number was not started, which it then never will be. With an error, the sample is to be read otherwise: what is wrong
// with it is said by that.
func (d *Direct) Take(n int64) (rec Record, held bool, err error) {
	t := d.transfer(n)
	if !t.number.CompareAndSwap(n, transferTaken) {
		t.pass(n)
		if !t.number.CompareAndSwap(n, transferTaken) { // nor was it started at this moment
			return Record{}, false, nil
		}
	}
	d.wait(t)
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

// pass notes that number n is not to be started any more.
func (t *transfer) pass(n int64) {
	for {
		old := t.passed.Load()
		if old >= n || t.passed.CompareAndSwap(old, n) {
			return
		}
	}
}

// wait returns when a transfer has landed.
func (d *Direct) wait(t *transfer) {
	for !t.landed.Load() {
		if t.threaded {
			<-t.done // which may be of the transfer's use before this one
			continue
		}
		d.reap.Lock()
		if !t.landed.Load() {
			d.collect(true)
		}
		d.reap.Unlock()
	}
}

// Release gives the memory of a number that was taken back.
func (d *Direct) Release(n int64) { d.transfer(n).released.Store(true) }

// Close drops the reads that are not yet begun, waits for those that are, and frees the memory, which nobody looks at any more.
func (d *Direct) Close() {
	d.finished.Do(func() {
		d.threads.close()
		if d.ring != nil {
			d.ring.close()
		}
		freeArena(d.arena)
	})
}

// collect takes completions from the system. With wait it waits until there is one; the caller holds d.reap then.
func (d *Direct) collect(wait bool) {
	if d.ring == nil {
		return
	}
	least := 0
	if wait {
		least = 1
	} else if !d.reap.TryLock() {
		return // somebody is at it
	} else {
		defer d.reap.Unlock()
	}
	for _, e := range d.ring.wait(least) {
		t := d.transfer(int64(e.data))
		t.result = e.res
		d.under.Add(-1)
		t.landed.Store(true)
	}
}

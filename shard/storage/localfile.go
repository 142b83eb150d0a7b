package storage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A localFile is a file of a Folder. Many goroutines read it without a lock: direct is written once, by openDirect, blocks and hangs before
// the file is handed out, and the atomic flags only ever become true.
type localFile struct {
	folder   *Folder
	size     int64
	buffered *os.File // read through the page cache
	calls    syscall.RawConn

	openDirect sync.Once
	direct     *os.File // the same file, for direct reads, or nil

	randomAccess atomic.Bool // reading ahead is off
	noCachestat  atomic.Bool // the system does not say which pages are in the page cache
	blocks       bool        // reads always wait in the system, as on file systems of networks and programs
	hangs        bool        // they wait for a network or a program
}

func (f *localFile) Size() int64 { return f.size }

// Origin implements [Original].
func (f *localFile) Origin() string {
	info, err := f.buffered.Stat()
	path, absErr := filepath.Abs(f.buffered.Name())
	if err != nil || absErr != nil {
		return ""
	}
	return fmt.Sprintf("%s\n%d %d", path, info.Size(), info.ModTime().UnixNano())
}

func (f *localFile) ReadsMax() int { return readsMax }

func (f *localFile) ReadAt(p []byte, offset int64) (int, error) { return f.buffered.ReadAt(p, offset) }

// Close waits for those who use the file, unless they may hang: then it closes the file in a goroutine of its own, which may never end.
func (f *localFile) Close() error {
	f.folder.pages.files.Add(-f.size)
	if f.hangs {
		go f.close()
		return nil
	}
	return f.close()
}

// close closes both descriptors. It uses up openDirect, so that no read opens the second one afterwards.
func (f *localFile) close() error {
	f.openDirect.Do(func() {})
	if f.direct != nil {
		f.direct.Close()
	}
	return f.buffered.Close()
}

// WillNeed implements [File]. Of a file that may hang, no range is ready.
func (f *localFile) WillNeed(offset, length int64) bool { return !f.hangs && f.cached(offset, length) }

// cached reports whether a range is in the page cache: all of it, or if the system does not say so, its middle, as
// the ends share pages with other ranges. The system no longer reads ahead then: it would read records that nobody wants.
func (f *localFile) cached(offset, length int64) bool {
	c := spareCalls.Get().(*call)
	defer spareCalls.Put(c)
	if !f.randomAccess.Swap(true) {
		c.do(f, c.adviseRandom)
	}
	if !f.noCachestat.Load() {
		c.offset, c.length = offset, length
		err := c.do(f, c.countCached)
		if err == nil || err == errNotCached {
			return err == nil
		}
		f.noCachestat.Store(true)
	}
	c.offset = offset + length/2
	if !f.blocks {
		return c.do(f, c.tryRead) != errNotCached // any other error is ReadAt's to find
	}
	started := time.Now()
	f.buffered.ReadAt(c.byte[:], c.offset)
	return time.Since(started) < cachedBelow
}

// cachedBelow lies well above the time that a byte in memory takes, and well below that of a disk.
const cachedBelow = 50 * time.Microsecond

// Blocks implements [File]: such a file system can't start a read without waiting for it.
func (f *localFile) Blocks() bool { return f.blocks }

// Hangs implements [File].
func (f *localFile) Hangs() (may bool, limit time.Duration) { return f.hangs, f.folder.Timeout() }

// classify sets blocks and hangs. It tries a read that must not wait, which the file systems of networks and programs refuse, and a few
// local ones.
func (f *localFile) classify() {
	c := spareCalls.Get().(*call)
	defer spareCalls.Put(c)
	c.offset = 0
	err := c.do(f, c.tryRead)
	f.blocks = err != nil && err != errNotCached
	f.hangs = f.blocks && !isLocal(f.buffered)
}

// Waited implements [Waiter].
func (f *localFile) Waited() { f.folder.pages.waits.Add(1) }

// Fetch implements [File]. It reads ranges that the page cache has or keeps through it, and the others directly.
func (f *localFile) Fetch(buf []byte, offset, length int64) ([]byte, error) {
	if f.cached(offset, length) || f.folder.noDirect.Load() {
		return f.readBuffered(buf, offset, length)
	}
	if pages := &f.folder.pages; pages.keeps(pages.count(offset, f.folder.Memory), f.blocks) {
		return f.readBuffered(buf, offset, length)
	}
	return f.readDirect(buf, offset, length)
}

// readDirect reads a range past the page cache, or through it if the file system can't do that. The first direct read of a file opens it
// again. The first one that the file system refuses turns direct reads off for the whole folder.
func (f *localFile) readDirect(buf []byte, offset, length int64) ([]byte, error) {
	f.openDirect.Do(func() { f.direct, _ = openDirect(f.buffered) })
	if f.direct == nil {
		return f.readBuffered(buf, offset, length)
	}
	begin := offset &^ (sector - 1)
	skip := offset - begin
	n, err := f.direct.ReadAt(buf[:(skip+length+sector-1)&^(sector-1)], begin)
	if int64(n) >= skip+length {
		return buf[skip : skip+length], nil
	}
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) { // the file system has no direct reads
		f.folder.noDirect.Store(true)
	}
	return f.readBuffered(buf, offset, length)
}

// readBuffered reads a range through the page cache, where it stays.
func (f *localFile) readBuffered(buf []byte, offset, length int64) ([]byte, error) {
	f.requestPieces(offset, length)
	return ReadRange(f.buffered, buf, offset, length)
}

// requestBytes is how much file systems of networks and programs read at a time, by default.
const requestBytes = 128 << 10

// requestPieces makes a slow file system read all pieces of a range at once. It would read them one after the other.
func (f *localFile) requestPieces(offset, length int64) {
	if length <= requestBytes || !f.blocks {
		return
	}
	c := spareCalls.Get().(*call)
	for end := offset + length; offset < end; offset += requestBytes {
		c.offset, c.length = offset, min(requestBytes, end-offset)
		c.do(f, c.adviseWillNeed)
	}
	spareCalls.Put(c)
}

// Map returns the whole file without reading it, until [Unmap] gives it back. It cannot be written to.
func (f *localFile) Map() ([]byte, error) {
	return unix.Mmap(int(f.buffered.Fd()), 0, int(f.size), unix.PROT_READ, unix.MAP_SHARED)
}

// A call is a system call about a part of a file. It keeps its functions, so that nothing is allocated for one. It belongs to one goroutine
// from Get to Put, which sets offset and length before each call.
type call struct {
	offset, length                                     int64
	byte                                               [1]byte
	into                                               [1][]byte
	err                                                error
	adviseRandom, adviseWillNeed, countCached, tryRead func(descriptor uintptr)
}

var errNotCached = errors.New("shard: not in the page cache")

// do makes one of the calls, unless the file is closed.
func (c *call) do(f *localFile, system func(uintptr)) error {
	if err := f.calls.Control(system); err != nil {
		return err
	}
	return c.err
}

var spareCalls = sync.Pool{New: func() any {
	c := new(call)
	c.into[0] = c.byte[:]
	c.prepare()
	return c
}}

// Unmap gives back a mapped file, or memory of [NewMemory]. Nothing of it may be in use.
func Unmap(bytes []byte) error {
	if bytes == nil {
		return nil
	}
	return unix.Munmap(bytes)
}

// A pageCache decides which ranges of a folder's files the page cache of the system keeps. If there is room for all open files, it keeps
// every range in the end, at the pace of cacheEvery. Otherwise it keeps a fixed choice of ranges, as many as fit, and finds them again in
// the next epoch; the others are read directly, as they would only push those out. For a set four times as large as the memory, direct
// reads double the rate of pixels, and take 10 to 20 % of the CPU time off a JPEG.
//
// What the policy knows comes from count and waits; keeps only asks. Many goroutines read at a time, and only the share has a lock. Counts
// need not be exact: a read that falls into the next window changes which ranges are kept, never what is read.
type pageCache struct {
	files    atomic.Int64 // bytes of the open files
	counted  atomic.Int64 // ranges that fit, so far
	waits    atomic.Int64 // reads that somebody waited for, among the last waitedOf
	quiet    atomic.Bool  // few of the last waitedOf reads were waited for
	cpuBound atomic.Bool  // few of the last waitedOf reads waited, nor of those before them
	whole    atomic.Bool  // all files fit

	mu      sync.Mutex // guards the share and its time
	share   float64    // part of the files that fits
	shareAt time.Time  // time of its computation
}

// count notes that the range at offset is about to be read, in a memory that holds room bytes of files. It returns the range's turn among
// those that fit, from 1 on, and 0 for a range that does not fit. Two goroutines never get the same turn. The one whose turn ends a window
// judges it for all, by the waits since the last one that did.
func (p *pageCache) count(offset int64, room func() int64) (turn int64) {
	p.mu.Lock()
	if now := time.Now(); now.Sub(p.shareAt) > shareFor {
		p.share, p.shareAt = cacheShare(p.files.Load(), room()), now
		p.whole.Store(p.share == 1)
	}
	share := p.share
	p.mu.Unlock()
	hash := uint32(offset/sector+1) * 0x9E3779B1 // Fibonacci hashing: its upper bits are even over any offsets
	if float64(hash) >= share*(1<<32) {
		return 0
	}
	turn = p.counted.Add(1)
	if turn%waitedOf == 0 {
		quiet := p.waits.Swap(0) < waitsMin
		p.cpuBound.Store(p.quiet.Swap(quiet) && quiet) // a single quiet window is often chance
	}
	return turn
}

// keeps reports whether the range with a turn is read through the page cache, which then keeps it. slow is a slow file system. It changes
// nothing, so it may be asked any number of times.
func (p *pageCache) keeps(turn int64, slow bool) bool {
	every := cacheEvery[p.cpuBound.Load() && p.whole.Load()].local
	if slow {
		every = cacheEvery[p.cpuBound.Load()].slow
	}
	return turn > 0 && turn%every == 0
}

// cacheEvery says which of the ranges that fit in the page cache are read into it: one in so many, on local disks and on slow file systems.
// A JPEG of 110 KB costs 90 to 140 µs more processor time by the page cache than by a direct read. That is a sixth to a quarter of its
// decoding (Zen 4, EPYC family 25 model 17). Not all take that way while the processors are the limit. One in two makes
// the first epoch of JPEGs on two threads 3 % slower than one in three. One in four makes the next epoch of pixels on one thread 4 to 9 %
// slower, as more is read from the disk again (Intel, family 6 model 167).
var cacheEvery = map[bool]struct{ local, slow int64 }{
	false: {1, 2},  // reads are waited for
	true:  {3, 16}, // the processors are the limit
}

// If the disk is the limit, at least waitsMin of waitedOf reads are waited for. Measured: 9 to 21 of JPEGs and pixels from a disk of
// 60 MB/s, and 0 to 6 where the processors are the limit. With 4, and not 8, pixels from a fast disk are kept sooner, so that the next
// epoch on one thread is faster, and JPEGs are as fast as before (Intel, family 6 model 167).
const (
	waitedOf = 256
	waitsMin = 4
)

// shareFor is how long a share holds: what other programs leave of the memory changes slowly.
const shareFor = 10 * time.Second

// cacheShare returns the share of so many bytes that a page cache of room bytes keeps. It leaves a fifth of the room to others, and half if
// the files need it all.
func cacheShare(bytes, room int64) float64 {
	if float64(bytes) <= 0.8*float64(room) {
		return 1
	}
	return float64(room) / 2 / float64(bytes)
}

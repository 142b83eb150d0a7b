package storage

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/imgfeed/imgfeed/internal/memory"
)

// A Folder is a storage on this machine: a local disk, or a file system of a network or a program. Create it with [NewFolder].
//
// Its cache is the page cache. A range in there is read from there. If the page cache has room for all open files, it keeps the other
// ranges too, at the pace of cacheEvery. Otherwise it keeps a fixed choice of ranges, as many as fit, and finds them again in the next
// epoch. The others are read directly, as they would only push those out. For a set four times as large as the memory, direct reads double
// the rate of pixels, and take 10 to 20 % of the CPU time off a JPEG.
type Folder struct {
	// Memory returns how many bytes of files the page cache can hold.
	Memory func() int64

	client    *Client
	dir       string
	bytes     atomic.Int64 // total size of the open files
	direct    atomic.Bool  // direct reads are possible, as far as is known
	cacheable atomic.Int64 // counter of ranges that the page cache may keep
	waits     atomic.Int64 // reads that somebody waited for, of the last waitedOf
	cpuBound  atomic.Bool  // few reads were waited for lately

	mu      sync.Mutex
	share   float64   // part of the files that fits in the page cache
	shareAt time.Time // time of its computation
}

// readsMax keeps disks busy that have 32 requests in work at a time, and network file systems that take 2 ms for each.
const readsMax = 64

// NewFolder returns the storage of a folder.
func NewFolder(dir string) *Folder {
	f := &Folder{Memory: memory.ForCache, client: Default, dir: dir}
	f.direct.Store(true)
	return f
}

// Open implements [Storage].
func (f *Folder) Open(name string, _ int64, _ string) (File, error) {
	file, err := OpenRegular(f.path(name))
	if err != nil {
		return nil, err
	}
	return f.open(file)
}

func (f *Folder) path(name string) string { return filepath.Join(f.dir, filepath.FromSlash(name)) }

// Source implements [Storage].
func (f *Folder) Source(place string) (Storage, error) { return f.client.source(place, f.dir) }

// String implements fmt.Stringer.
func (f *Folder) String() string { return f.dir }

// ReadFile implements [Storage].
func (f *Folder) ReadFile(name string, max int64, check func([]byte) error) ([]byte, error) {
	file, err := OpenRegular(f.path(name))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, max+1))
	if err == nil && int64(len(data)) > max {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, max)
	}
	if err == nil && check != nil {
		err = check(data)
	}
	return data, err
}

// Stat implements [Storage].
func (f *Folder) Stat(name string) (Object, error) {
	info, err := os.Stat(f.path(name))
	if err != nil {
		return Object{}, err
	}
	return Object{Bytes: info.Size(), Version: strconv.FormatInt(info.ModTime().UnixNano(), 10)}, nil
}

// OpenObject implements [Storage].
func (f *Folder) OpenObject(name string, o Object) (File, error) {
	file, err := f.Open(name, o.Bytes, "")
	if err != nil {
		return nil, err
	}
	if now, err := f.Stat(name); err != nil || now != o {
		file.Close()
		return nil, errors.Join(err, ErrReplaced)
	}
	return file, nil
}

// Names implements [Storage]. A link to a folder is one.
func (f *Folder) Names(folder string) (names []string, err error) {
	entries, err := os.ReadDir(f.path(folder))
	for _, e := range entries {
		name, is := e.Name(), e.IsDir()
		if e.Type()&fs.ModeSymlink != 0 {
			info, err := os.Stat(filepath.Join(f.path(folder), name))
			is = err == nil && info.IsDir()
		}
		if is {
			name += "/"
		}
		names = append(names, name)
	}
	return names, err
}

// A ChangingFile is open for reading and writing, while other processes write to it too.
type ChangingFile struct{ *localFile }

// WriteAt implements io.WriterAt.
func (f ChangingFile) WriteAt(p []byte, offset int64) (int, error) {
	return f.buffered.WriteAt(p, offset)
}

// Clear fills the file with zeros.
func (f ChangingFile) Clear() error {
	return errors.Join(f.buffered.Truncate(0), f.buffered.Truncate(f.size))
}

// OpenToChange opens the file at a path, or makes it, and gives it a size.
func (f *Folder) OpenToChange(path string, size int64) (ChangingFile, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return ChangingFile{}, err
	}
	if err := file.Truncate(size); err != nil {
		return ChangingFile{}, errors.Join(err, file.Close())
	}
	local, err := f.open(file)
	return ChangingFile{local}, err
}

// open makes a file of the folder of an open one.
func (f *Folder) open(file *os.File) (*localFile, error) {
	info, err := file.Stat()
	local := &localFile{folder: f, buffered: file}
	if err == nil {
		local.calls, err = file.SyscallConn()
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	local.size = info.Size()
	f.bytes.Add(local.size)
	return local, nil
}

// cacheEvery says which of the ranges that fit in the page cache are read into it: one in so many, on local disks and on slow file systems.
// A JPEG of 110 KB costs 90 to 140 µs more processor time by the page cache than by a direct read. That is a sixth to a quarter of its
// decoding (Zen 4, EPYC family 25 model 17). So few take that way while the processors are the limit.
var cacheEvery = map[bool]struct{ local, slow int64 }{
	false: {1, 2},  // reads are waited for
	true:  {4, 16}, // the processors are the limit
}

// keepsCached reports whether the range at offset is read through the page cache, which then keeps it.
func (f *Folder) keepsCached(offset int64, slow bool) bool {
	f.mu.Lock()
	if now := time.Now(); now.Sub(f.shareAt) > shareFor {
		f.share, f.shareAt = cacheShare(f.bytes.Load(), f.Memory()), now
	}
	share := f.share
	f.mu.Unlock()
	hash := uint32(offset/sector+1) * 0x9E3779B1 // Fibonacci hashing: its upper bits are even over any offsets
	if float64(hash) >= share*(1<<32) {
		return false
	}
	n := f.cacheable.Add(1)
	if n%waitedOf == 0 {
		f.cpuBound.Store(f.waits.Swap(0) < waitsMin)
	}
	if slow {
		return n%cacheEvery[f.cpuBound.Load()].slow == 0
	}
	return n%cacheEvery[f.cpuBound.Load() && share == 1].local == 0
}

// If the disk is the limit, at least waitsMin of waitedOf reads are waited for, and hardly any if the processors are. Measured: 2 to 30 of
// 64 reads of pixels, and 0 of thousands of JPEGs.
const (
	waitedOf = 256
	waitsMin = 2
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

// A localFile is a file of a Folder.
type localFile struct {
	folder   *Folder
	size     int64
	buffered *os.File // read through the page cache
	calls    syscall.RawConn

	openDirect sync.Once
	direct     *os.File // the same file, for direct reads, or nil

	randomAccess atomic.Bool // reading ahead is off
	classify     sync.Once   // sets slow
	slow         bool        // reads always wait in the system, as on file systems of networks and programs
	noCachestat  atomic.Bool // the system does not say which pages are in the page cache
}

func (f *localFile) Size() int64 { return f.size }

func (f *localFile) ReadsMax() int { return readsMax }

func (f *localFile) ReadAt(p []byte, offset int64) (int, error) { return f.buffered.ReadAt(p, offset) }

// Close waits for those who use the file.
func (f *localFile) Close() error {
	f.folder.bytes.Add(-f.size)
	f.openDirect.Do(func() {})
	if f.direct != nil {
		f.direct.Close()
	}
	return f.buffered.Close()
}

// WillNeed implements [File]. It reports whether a range is in the page cache: all of it, or if the system does not say so, its middle, as
// the ends share pages with other ranges. The system no longer reads ahead then: it would read records that nobody wants.
func (f *localFile) WillNeed(offset, length int64) bool {
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
	if !f.Blocks() {
		return c.do(f, c.tryRead) != errNotCached // any other error is ReadAt's to find
	}
	started := time.Now()
	f.buffered.ReadAt(c.byte[:], c.offset)
	return time.Since(started) < cachedBelow
}

// cachedBelow lies well above the time that a byte in memory takes, and well below that of a disk.
const cachedBelow = 50 * time.Microsecond

// A Blocker is a file that may wait long in the system when it is read.
type Blocker interface{ Blocks() bool }

// Blocks reports whether reads of a file wait long in the system: those of networks and programs.
func Blocks(f File) bool {
	b, is := f.(Blocker)
	return is && b.Blocks()
}

// Blocks reports whether the file system can't start a read without waiting for it.
func (f *localFile) Blocks() bool {
	f.classify.Do(func() {
		c := spareCalls.Get().(*call)
		defer spareCalls.Put(c)
		c.offset = 0
		err := c.do(f, c.tryRead)
		f.slow = err != nil && err != errNotCached
	})
	return f.slow
}

// Waited implements [Waiter].
func (f *localFile) Waited() { f.folder.waits.Add(1) }

// Fetch implements [File]. It reads ranges that the page cache keeps through it, and the others directly.
func (f *localFile) Fetch(buf []byte, offset, length int64) ([]byte, error) {
	if !f.folder.direct.Load() || f.folder.keepsCached(offset, f.Blocks()) {
		return f.readBuffered(buf, offset, length)
	}
	return f.readDirect(buf, offset, length)
}

// readDirect reads a range past the page cache, or through it if the file system can't do that.
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
	if isUnsupported(err) {
		f.folder.direct.Store(false)
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
	if length <= requestBytes || !f.Blocks() {
		return
	}
	c := spareCalls.Get().(*call)
	for end := offset + length; offset < end; offset += requestBytes {
		c.offset, c.length = offset, min(requestBytes, end-offset)
		c.do(f, c.adviseWillNeed)
	}
	spareCalls.Put(c)
}

// Map implements [Mapper].
func (f *localFile) Map() ([]byte, error) { return mapFile(f.buffered, f.size) }

// A call is a system call about a part of a file. It keeps its functions, so that nothing is allocated for one.
type call struct {
	offset, length                                     int64
	byte                                               [1]byte
	into                                               [1][]byte
	err                                                error
	adviseRandom, adviseWillNeed, countCached, tryRead func(descriptor uintptr)
}

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

// OpenRegular opens the file at path for reading. It refuses anything but a regular file before it opens it, since opening a pipe would
// wait for its writer.
func OpenRegular(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no file", path)
	}
	if err != nil {
		return nil, fmt.Errorf("shard: %w", err)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("shard: %w", err)
	}
	return f, nil
}

// Unmap gives back what [Mapper.Map] or [NewMemory] has returned. Nothing of it may be in use.
func Unmap(bytes []byte) error {
	if bytes == nil {
		return nil
	}
	return unix.Munmap(bytes)
}

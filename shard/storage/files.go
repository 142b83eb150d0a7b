package storage

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"math"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// A FilePool lets many files be in use while few of them are open: those that were read last. A process may open only so many files
// (RLIMIT_NOFILE; Go has raised it to the hard limit, often 1,024), and a large set has more shards.
type FilePool struct {
	max int // limit of the open files

	over atomic.Bool // more are open than may be: all others were in use

	mu   sync.Mutex
	open []*pooledFile
	hand int // clock hand: the next candidate for closing
}

// NewFilePool returns a pool that keeps at most max files open.
func NewFilePool(max int) *FilePool { return &FilePool{max: max} }

// PoolOf returns a pool of a part of the files that the process may have open: half of them with 2. The rest is for sockets and rings.
func PoolOf(share int) *FilePool {
	var limit unix.Rlimit
	unix.Getrlimit(unix.RLIMIT_NOFILE, &limit)
	return NewFilePool(max(16, int(min(limit.Cur, math.MaxInt32))/share))
}

// A pooledFile is opened when it is read, and closed when its place in the pool is needed.
type pooledFile struct {
	path  string
	pool  *FilePool
	flags int // flags of open(2)

	size int64
	tail []byte // what the file ends with: by this and the size it is recognised when it is opened again

	mu     sync.RWMutex // read-locked while the file is used
	file   *os.File     // nil while it is closed
	closed bool         // nobody will open it again
	used   atomic.Bool  // somebody has read it since the hand came by
	random atomic.Bool  // see setRandom

	changes bool // the file may change in any way, and is never taken for another one

	place int // index in pool.open while it is open; pool.mu guards it
}

// tailBytes holds a shard's footer, which no other shard has.
const tailBytes = 128

// open opens the file, unless it is open, and takes a place in the pool. It refuses another file of the same name, which has its records
// elsewhere.
func (f *pooledFile) open() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.closed:
		return os.ErrClosed
	case f.file != nil:
		return nil
	}
	file, err := openRegular(f.path, f.flags)
	for errors.Is(err, unix.EMFILE) && f.pool.evict() { // somebody else needs more than half of the descriptors
		file, err = openRegular(f.path, f.flags)
	}
	if err != nil {
		return err
	}
	size, tail, err := readTail(file)
	switch {
	case err == nil && f.tail == nil:
		f.size, f.tail = size, tail
	case err == nil && !f.changes && (size != f.size || !bytes.Equal(tail, f.tail)):
		err = ErrReplaced
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	if f.random.Load() {
		adviseRandom(file)
	}
	f.file = file
	f.pool.admit(f)
	return nil
}

// readTail returns a file's size and last bytes.
func readTail(file *os.File) (size int64, tail []byte, err error) {
	info, err := file.Stat()
	if err != nil {
		return 0, nil, err
	}
	// At a multiple of a sector and in memory that begins at one, as direct reads need it.
	size = info.Size()
	begin := max(0, size-tailBytes) &^ (sector - 1)
	buf, err := NewMemory(2 * sector)
	if err != nil {
		return 0, nil, err
	}
	defer Unmap(buf)
	n, err := file.ReadAt(buf, begin)
	if begin+int64(n) < size {
		return 0, nil, cmp.Or(err, io.ErrUnexpectedEOF)
	}
	return size, bytes.Clone(buf[max(0, n-tailBytes):n]), nil // an error at the end of the file is no matter: direct reads say EINVAL there
}

// setRandom turns the system's reading ahead off. It takes neighbouring records in memory for a file that is read in order, and would read
// the records beside them too.
func (f *pooledFile) setRandom() {
	f.random.Store(true)
	f.use(adviseRandom)
}

// shutLocked closes the file, if it is open, and gives up its place.
func (f *pooledFile) shutLocked() error {
	if f.file == nil {
		return nil
	}
	f.pool.mu.Lock()
	f.pool.dropLocked(f)
	f.pool.mu.Unlock()
	err := f.file.Close()
	f.file = nil
	return err
}

// use calls do with the file, open.
func (f *pooledFile) use(do func(*os.File) error) error {
	for {
		f.mu.RLock()
		if f.file != nil {
			if !f.used.Load() {
				f.used.Store(true)
			}
			err := do(f.file)
			f.mu.RUnlock()
			if f.pool.over.Load() {
				f.pool.trim()
			}
			return err
		}
		f.mu.RUnlock()
		if err := f.open(); err != nil {
			return err
		}
	}
}

// ReadAt implements io.ReaderAt.
func (f *pooledFile) ReadAt(p []byte, offset int64) (n int, err error) {
	err = f.use(func(file *os.File) (err error) {
		n, err = file.ReadAt(p, offset)
		if err == io.EOF {
			return nil // the file was cut short; the caller counts bytes
		}
		return err
	})
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}

// Close waits for those who use the file.
func (f *pooledFile) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	return f.shutLocked()
}

// admit gives an open file a place, and closes others for it. The caller has locked f, and so it isn't taken for one of those.
func (p *FilePool) admit(f *pooledFile) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f.place = len(p.open)
	p.open = append(p.open, f)
	f.used.Store(true)
	p.trimLocked()
}

// trim closes files until no more are open than may be, or all of them are in use.
func (p *FilePool) trim() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trimLocked()
}

func (p *FilePool) trimLocked() {
	for len(p.open) > p.max && p.evictLocked() {
	}
	p.over.Store(len(p.open) > p.max)
}

// Open returns how many files of the pool are open.
func (p *FilePool) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.open)
}

// evict closes a file, or reports false if all are in use.
func (p *FilePool) evict() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.evictLocked()
}

// evictLocked closes a file that was not used for a round of the hand and is not used now.
func (p *FilePool) evictLocked() bool {
	for range 2*len(p.open) + 1 {
		if len(p.open) == 0 {
			break
		}
		p.hand = (p.hand + 1) % len(p.open)
		f := p.open[p.hand]
		if f.used.Swap(false) || !f.mu.TryLock() {
			continue
		}
		f.file.Close() // it was only read
		f.file = nil
		p.dropLocked(f)
		f.mu.Unlock()
		return true
	}
	return false
}

// dropLocked takes an open file's place from it.
func (p *FilePool) dropLocked(f *pooledFile) {
	last := p.open[len(p.open)-1]
	p.open[f.place], last.place = last, f.place
	p.open = p.open[:len(p.open)-1]
}

// Unmap gives back what [Mapper.Map] or [NewMemory] has returned. Nothing of it may be in use.
func Unmap(bytes []byte) error {
	if bytes == nil {
		return nil
	}
	return unix.Munmap(bytes)
}

package shard

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// A filePool lets many shard files be in use while few of them are open: those that were read last. A process may have some number
// of descriptors (RLIMIT_NOFILE, which Go has raised as far as it may), and a large set has more shards than the number is where
// nobody has raised the limit, 1,024.
type filePool struct {
	max func() int // how many files are open

	mu   sync.Mutex
	open []*pooledFile
	hand int // of the clock: the file that is asked next whether it was used lately
}

// shardFiles is the pool of all sets: the limit is the process's.
var shardFiles = &filePool{max: sync.OnceValue(func() int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return poolMin
	}
	return max(poolMin, int(min(limit.Cur, math.MaxInt32)/2)) // the other half is for sockets, rings and all else
})}

// poolMin is how many files a pool keeps open however low the limit is.
const poolMin = 16

// A pooledFile is a shard file that is open when it is read, and until its place in the pool is needed.
type pooledFile struct {
	path  string
	pool  *filePool
	end   []byte      // what the file ends with, by which it is known when it is opened again; nil until that was read
	flags int         // of open(2), beside O_RDONLY
	twin  *pooledFile // the same file without the flags, by which it is known instead

	mu     sync.RWMutex // read-locked while the file is used
	file   *os.File     // nil while it is closed
	closed bool         // for good
	used   atomic.Bool  // since the hand came by

	scattered atomic.Bool // see scatter

	place int // in pool.open, if it is open; of the pool's lock
}

// newFile opens the file at path.
func (p *filePool) newFile(path string) (*pooledFile, int64, error) {
	f := &pooledFile{path: path, pool: p}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.open(); err != nil {
		return nil, 0, err
	}
	info, err := f.file.Stat()
	if err != nil {
		f.shut()
		return nil, 0, fmt.Errorf("shard: %w", err)
	}
	return f, info.Size(), nil
}

// open opens the file and takes a place in the pool. The caller has locked f.
func (f *pooledFile) open() error {
	file, _, err := openRegular(f.path, f.flags)
	for errors.Is(err, unix.EMFILE) && f.pool.evict() { // somebody else needs more than half of the descriptors
		file, _, err = openRegular(f.path, f.flags)
	}
	if err != nil {
		return err
	}
	if f.scattered.Load() {
		adviseRandom(file)
	}
	f.file = file
	f.pool.admit(f)
	return nil
}

// scatter tells the system that the file is read here and there from now on, and that what stands beside is not to be read with it:
// its reading ahead takes a record that is read beside one in memory for a file that is read in order.
func (f *pooledFile) scatter() {
	if !f.scattered.Swap(true) {
		f.use(adviseRandom)
	}
}

// shut closes the file, if it is open, and gives up its place. The caller has locked f.
func (f *pooledFile) shut() error {
	if f.file == nil {
		return nil
	}
	f.pool.mu.Lock()
	f.pool.drop(f)
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
			return err
		}
		f.mu.RUnlock()
		if err := f.reopen(); err != nil {
			return err
		}
	}
}

// reopen opens the file again. Another one that has its name by now is refused: its records lie elsewhere.
func (f *pooledFile) reopen() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return os.ErrClosed
	}
	if f.file != nil {
		return nil
	}
	if err := f.open(); err != nil {
		return err
	}
	if f.isSame() {
		return nil
	}
	f.shut()
	return errReplaced
}

// isSame reports whether the file that was opened is the one that was there before. The caller has locked f.
func (f *pooledFile) isSame() bool {
	info, err := f.file.Stat()
	if err != nil {
		return false
	}
	if f.twin != nil {
		err := f.twin.use(func(twin *os.File) error {
			if other, err := twin.Stat(); err != nil || !os.SameFile(info, other) {
				return errReplaced
			}
			return nil
		})
		return err == nil
	}
	end := make([]byte, len(f.end))
	_, err = f.file.ReadAt(end, info.Size()-int64(len(end)))
	return err == nil && bytes.Equal(end, f.end)
}

// errReplaced says that a file is not the one that was there.
var errReplaced = errors.New("it is another file now")

// ReadAt implements io.ReaderAt.
func (f *pooledFile) ReadAt(p []byte, offset int64) (n int, err error) {
	err = f.use(func(file *os.File) (err error) {
		n, err = file.ReadAt(p, offset)
		if err == io.EOF {
			return nil // of a file that is cut short; the caller counts bytes
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
	return f.shut()
}

// admit gives an open file a place, and closes others for it. The caller has locked f, and so it isn't taken for one of those.
func (p *filePool) admit(f *pooledFile) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f.place = len(p.open)
	p.open = append(p.open, f)
	f.used.Store(true)
	for most := p.max(); len(p.open) > most && p.evictLocked(); {
	}
}

// evict closes a file, and reports false when there is none that could be closed.
func (p *filePool) evict() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.evictLocked()
}

// evictLocked closes a file that was not used for a round of the hand and is not used now.
func (p *filePool) evictLocked() bool {
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
		p.drop(f)
		f.mu.Unlock()
		return true
	}
	return false
}

// drop takes an open file's place from it. The caller has locked p.
func (p *filePool) drop(f *pooledFile) {
	last := p.open[len(p.open)-1]
	p.open[f.place], last.place = last, f.place
	p.open = p.open[:len(p.open)-1]
}

// withFile calls do with the open file that f is, of a pool; tests' own files are none.
func withFile(f shardFile, do func(*os.File) error) error {
	pooled, ok := f.(*pooledFile)
	if !ok {
		return errNoMapping
	}
	return pooled.use(do)
}

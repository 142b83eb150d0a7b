package storage

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

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
	noDirect  atomic.Bool  // the file system has no direct reads
	cacheable atomic.Int64 // counter of ranges that the page cache may keep
	waits     atomic.Int64 // reads that somebody waited for, of the last waitedOf
	quiet     atomic.Bool  // few of the last waitedOf reads were waited for
	cpuBound  atomic.Bool  // and few of the waitedOf before them

	mu      sync.Mutex
	share   float64   // part of the files that fits in the page cache
	shareAt time.Time // time of its computation
}

// readsMax keeps disks busy that have 32 requests in work at a time, and network file systems that take 2 ms for each.
const readsMax = 64

// NewFolder returns the storage of a folder.
func NewFolder(dir string) *Folder {
	return &Folder{Memory: memory.ForCache, client: Default, dir: dir}
}

// Open implements [Storage].
func (f *Folder) Open(name string, _ int64, _ string) (File, error) {
	file, err := openRegular(f.path(name))
	if err != nil {
		return nil, err
	}
	return f.Adopt(file)
}

func (f *Folder) path(name string) string { return filepath.Join(f.dir, filepath.FromSlash(name)) }

// Source implements [Storage].
func (f *Folder) Source(place string) (Storage, error) { return f.client.source(place, f.dir) }

// String implements fmt.Stringer.
func (f *Folder) String() string { return f.dir }

// ReadFile implements [Storage].
func (f *Folder) ReadFile(name string, max int64, check func([]byte) error) ([]byte, error) {
	file, err := openRegular(f.path(name))
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
	opened, err := openRegular(f.path(name))
	if err != nil {
		return nil, err
	}
	file, err := f.adopt(opened)
	if err != nil {
		return nil, err
	}
	if now, err := f.Stat(name); err != nil || now.Bytes != o.Bytes {
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

// Adopt makes an open file one of the folder, which closes it.
func (f *Folder) Adopt(file *os.File) (File, error) {
	local, err := f.adopt(file)
	if err != nil {
		return nil, err
	}
	local.classify()
	return local, nil
}

func (f *Folder) adopt(file *os.File) (*localFile, error) {
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

// Timeout is how long a caller is to wait for a read of a file.
func (f *Folder) Timeout() time.Duration { return f.client.Timeout }

// Overdue returns the error of a read that has not ended for so long, as of a store that does not answer.
func Overdue(place string, offset, length int64, after time.Duration) error {
	return &RemoteError{Place: place, Offset: offset, Length: length, Tries: 1, After: after, Err: errOverdue, down: true}
}

var errOverdue = errors.New("the file system does not answer")

// Write implements [Writer]. Before it is whole, the file has a hidden name.
func (f *Folder) Write(name, _ string, body io.Reader) error {
	path := f.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	partial := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".partial")
	file, err := os.Create(partial)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, body)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return errors.Join(err, os.Remove(partial))
	}
	return os.Rename(partial, path)
}

// Has implements [Writer], by reading the file.
func (f *Folder) Has(name string, size int64, sum string) (bool, error) {
	file, err := openRegular(f.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer file.Close()
	hash := sha256.New()
	n, err := io.Copy(hash, file)
	return n == size && hex.EncodeToString(hash.Sum(nil)) == sum, err
}

// Remove implements [Writer].
func (f *Folder) Remove(name string) error {
	if err := os.Remove(f.path(name)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// openRegular opens the file at path for reading. It refuses anything but a regular file before it opens it, since opening a pipe would
// wait for its writer.
func openRegular(path string) (*os.File, error) {
	var file *os.File
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a file", path)
	} else if err == nil {
		file, err = os.Open(path)
	}
	if err != nil {
		return nil, fmt.Errorf("shard: %w", err)
	}
	return file, nil
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
		quiet := f.waits.Swap(0) < waitsMin
		f.cpuBound.Store(f.quiet.Swap(quiet) && quiet) // a single quiet window is often chance
	}
	if slow {
		return n%cacheEvery[f.cpuBound.Load()].slow == 0
	}
	return n%cacheEvery[f.cpuBound.Load() && share == 1].local == 0
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

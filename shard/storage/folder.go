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
	"sync/atomic"
	"time"

	"github.com/imgfeed/imgfeed/internal/memory"
)

// A Folder is a storage on this machine: a local disk, or a file system of a network or a program. Create it with [NewFolder].
//
// Its cache is the page cache: ranges in there are read from there, and a policy (pageCache) decides which of the others it keeps. All
// files of the folder share the policy, which counts the bytes of those that are open. Any goroutine may call its methods.
type Folder struct {
	// Memory returns how many bytes of files the page cache can hold.
	Memory func() int64

	client   *Client
	dir      string
	noDirect atomic.Bool // the file system has no direct reads; never false again
	pages    pageCache
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
func (f *Folder) Source(address string) (Storage, error) { return f.client.source(address, f.dir) }

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
	if file.size != o.Bytes {
		file.Close()
		return nil, ErrReplaced
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

// Adopt makes an open file one of the folder, which closes it. The policy of the page cache counts its bytes until then.
func (f *Folder) Adopt(file *os.File) (File, error) {
	local, err := f.adopt(file)
	if err != nil {
		return nil, err
	}
	local.classify()
	return local, nil
}

// adopt is Adopt without the call that finds out what the file system is like.
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
	f.pages.files.Add(local.size)
	return local, nil
}

// Timeout is how long a caller is to wait for a read of a file.
func (f *Folder) Timeout() time.Duration { return f.client.Timeout }

// Overdue returns the error of a read that has not ended for so long, as of a store that does not answer.
func Overdue(address string, offset, length int64, after time.Duration) error {
	return &RemoteError{Address: address, Offset: offset, Length: length, Tries: 1, After: after, Err: errOverdue, down: true}
}

var errOverdue = errors.New("the file system does not answer")

// Write implements [Writer]. Before it is whole, the file has a hidden name. So whoever reads the folder meanwhile, in this process or
// another, sees the file before or the new one, and an interrupted Write leaves the former.
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
		err = fmt.Errorf("%s is not a regular file", path)
	} else if err == nil {
		file, err = os.Open(path)
	}
	if err != nil {
		return nil, fmt.Errorf("shard: %w", err)
	}
	return file, nil
}

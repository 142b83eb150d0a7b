// Package storage reads and writes files of shard sets: in a [Folder] of this machine, or behind a network. [At] opens either.
//
// A reader of shards asks for ranges of files, and says beforehand which ones it will want. The storage decides where they come from, and
// which of them a cache keeps:
//
//	shard.Set, loader/readahead
//	      │ Open, ReadAt, WillNeed, Fetch
//	   Storage ─┬─ Folder: open files, the page cache, direct reads
//	            └─ remote: requests for ranges, repeated until they succeed
//	                 └─ objects: one request to a bucket, a web server, Hugging Face
package storage

import (
	"errors"
	"io"
	"time"
)

// A Storage holds the files of shard sets. It knows them by their names, relative to its root and with forward slashes.
type Storage interface {
	// Open opens a file. size is its length in bytes, which saves a request, or -1. identity changes with its content, as the manifest
	// says; with "" no cache keeps it.
	Open(name string, size int64, identity string) (File, error)
	// ReadFile returns a whole small file. One of more than max bytes is [ErrTooLarge]. check may be nil. Otherwise it returns the fault
	// of the bytes, which are returned all the same. A storage behind a network asks once more then.
	ReadFile(name string, max int64, check func(data []byte) error) ([]byte, error)
	// Stat returns what pins a file.
	Stat(name string) (Object, error)
	// OpenObject opens the file that was pinned. For any other it fails with [ErrReplaced], now or when the file is read. A folder
	// compares only the length, as a copy has another date: who reads the file has a checksum.
	OpenObject(name string, o Object) (File, error)
	// Names returns the names right below a folder, "" for its root. Names of folders end in a slash. The error is
	// errors.ErrUnsupported if the storage can't list.
	Names(folder string) ([]string, error)
	// Source returns the storage of the images of an index in this storage. The index names its URL or folder, and may come from a
	// stranger. An index that is read over a network reaches only its own host and bucket, and the query that signs requests goes only to
	// hosts that the user names. [Client.Sources] count as named.
	Source(address string) (Storage, error)
	// String returns the URL or folder, for messages.
	String() string
}

// An Object pins a file: it is another one when either differs.
type Object struct {
	Bytes   int64  `json:"bytes"`
	Version string `json:"version,omitempty"` // ETag, generation or date, or in a folder the time of the last change in nanoseconds
}

// A File is open for reading, by many goroutines at a time. Once another file has replaced it, it stays the one that was opened, or its
// reads over a network fail with [ErrReplaced].
type File interface {
	io.ReaderAt
	io.Closer
	Size() int64
	// ReadsMax is how many concurrent reads of the storage's files are worthwhile: more would only wait for each other.
	ReadsMax() int
	// Blocks reports whether a read holds a thread for long, as the file systems of networks and programs do.
	Blocks() bool
	// Hangs reports whether a read may wait for a network or a program, even one of bytes that are in memory. limit is how long
	// a caller is to wait for a read, as it may never end; 0 means that each ends by itself.
	Hangs() (may bool, limit time.Duration)
	// WillNeed says that a range will be read soon, and reports whether ReadAt would return it without waiting. It does not wait itself.
	WillNeed(offset, length int64) (ready bool)
	// Fetch reads a range that WillNeed has reported as not ready. The storage chooses which ranges its caches keep. buf comes from
	// [NewMemory], begins at a page and is FetchRoom bytes longer than the range; the result is a part of it.
	Fetch(buf []byte, offset, length int64) ([]byte, error)
}

// A Writer is a storage that files can be written to.
type Writer interface {
	Storage
	// Write makes a file of all that body has, and none if that ends in an error. sum is its SHA-256 in hexadecimal digits, or "".
	Write(name, sum string, body io.Reader) error
	// Has reports whether a file is there that has been written whole, with this length and sum.
	Has(name string, size int64, sum string) (bool, error)
	// Remove removes a file; a missing one is not an error.
	Remove(name string) error
}

// A Waiter is a [File] that reads in another way while its reads are waited for.
type Waiter interface {
	// Waited notes that somebody waits for a Fetch.
	Waited()
}

// A Lister is a [Storage] whose lists of names say what pins each file.
type Lister interface {
	// List returns what [Storage.Names] does, with the Object of each file.
	List(folder string) ([]Listed, error)
}

// Listed is a name in a folder. That of a folder ends in a slash, and has no Object.
type Listed struct {
	Name string
	Object
}

// An Original is a [File] that knows its URL or path, with the host, and its length and version there; "" if it does not. Nobody else can
// claim them.
type Original interface {
	Origin() string
}

// A Cacher is a cache, or a [Storage] with a cache before it.
type Cacher interface {
	// Cached puts the cache, if any, before a file of this storage. identity tells its content from any other's, by what nobody else can
	// claim.
	Cached(f File, address, identity string) File
}

// A Keeper is a [File] that keeps ranges on this machine. Its WillNeed tells of these alone.
type Keeper interface {
	// ReadKept fills p with a range that is kept, or returns false. It waits for no network.
	ReadKept(p []byte, offset int64) (kept bool)
}

// A Forgetter is a [File] that may hold wrong bytes, and can read them again from where they came.
type Forgetter interface {
	File
	// Forget makes the next read of a range go to its origin. The range must begin where a read has begun, or be the whole file.
	Forget(offset, length int64)
}

// ReadRange reads a whole range into buf, as [File.Fetch] does.
func ReadRange(f io.ReaderAt, buf []byte, offset, length int64) ([]byte, error) {
	n, err := f.ReadAt(buf[:length], offset)
	if int64(n) == length {
		return buf[:length], nil
	}
	return nil, err
}

// FetchRoom is what [File.Fetch] needs beside the range: direct reads begin and end at multiples of a sector, and a cache keeps a few bytes
// before each range.
const FetchRoom = 3 * sector

const sector = 4096

var (
	// ErrReplaced says that a file is not the one that was opened.
	ErrReplaced = errors.New("it is another file now")
	// ErrTooLarge says that a file is not small.
	ErrTooLarge = errors.New("the file is too large")
)

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
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// A Storage holds the files of shard sets. It knows them by their names, relative to its place and with forward slashes.
type Storage interface {
	// Open opens a file. size is its length in bytes, which saves a request, or -1. identity tells its content from any other's; with
	// "" no cache keeps it.
	Open(name string, size int64, identity string) (File, error)
	// ReadFile returns a whole small file. One of more than max bytes is [ErrTooLarge]. check may be nil. Otherwise it returns the fault
	// of the bytes, which are returned all the same. A storage behind a network asks once more then.
	ReadFile(name string, max int64, check func(data []byte) error) ([]byte, error)
	// Stat returns what pins a file.
	Stat(name string) (Object, error)
	// OpenObject opens the file that was pinned. For any other it fails with [ErrReplaced], now or when the file is read.
	OpenObject(name string, o Object) (File, error)
	// Names returns the names right below a folder, "" for the place itself. Names of folders end in a slash. The error is
	// errors.ErrUnsupported if the storage can't list.
	Names(folder string) ([]string, error)
	// Source returns the storage of the images of an index in this storage. The index names the place, and may come from a stranger. An
	// index that is read over a network reaches only its own host and bucket, and the query that signs requests goes only to hosts that
	// the user names. [Client.Sources] count as named.
	Source(place string) (Storage, error)
	// String returns the place, for messages.
	String() string
}

// An Object pins a file: it is another one when either differs.
type Object struct {
	Bytes   int64  `json:"bytes"`
	Version string `json:"version,omitempty"` // ETag or date, or in a folder the time of the last change in nanoseconds
}

// A File is open for reading, by many goroutines at a time. Once another file has taken its place, it stays the one that was opened, or its
// reads over a network fail with [ErrReplaced].
type File interface {
	io.ReaderAt
	io.Closer
	Size() int64
	// ReadsMax is how many reads of the storage's files pay at a time: more would only wait for each other.
	ReadsMax() int
	// Blocks reports whether a read holds a thread for long, as the file systems of networks and programs do.
	Blocks() bool
	// WillNeed says that a range will be read soon, and reports whether ReadAt would return it without waiting.
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
	// Remove removes a file; a missing one is no error.
	Remove(name string) error
}

// A Waiter is a [File] that reads in another way while its reads are waited for.
type Waiter interface {
	// Waited notes that somebody waits for a Fetch.
	Waited()
}

// A Cacher is a cache, or a [Storage] with a cache before it.
type Cacher interface {
	// Cached puts the cache, if any, before a file of this storage. identity tells its content from any other's.
	Cached(f File, place, identity string) File
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

// A Client opens storages, and holds what they share. Two clients share nothing.
type Client struct {
	// Context ends every request when it ends.
	Context context.Context
	// Timeout is how long requests are repeated before they fail.
	Timeout time.Duration
	// Cache keeps what is read over a network. It may be nil.
	Cache Cacher
	// Sources are places that indexes may name as their source, see [Storage.Source].
	Sources []string
	Counts  Counts

	slots  chan struct{} // holds one for each request that runs
	web    *http.Client
	signed atomic.Pointer[string] // the only host that gets the query of IMGFEED_URL_QUERY
}

// Counts count a client's requests.
type Counts struct {
	Requests, Retries atomic.Int64 // all, and those of them that repeat one that failed
	UnderWay          atomic.Int64
	Bytes             atomic.Int64                // bytes of bodies
	Failed            atomic.Pointer[RemoteError] // the last one for which a request was repeated
}

// NewClient returns a client without a cache. Its fields may be set before it is used.
func NewClient() *Client {
	return &Client{
		Context: context.Background(), Timeout: 5 * time.Minute,
		slots: make(chan struct{}, requestsFirst), web: newWebClient(),
	}
}

const (
	// requestsFirst is how many requests run at a time unless the user says so. With JPEGs of 110 KB they fill 15 Gbit/s at 30 ms.
	requestsFirst = 512
	requestsMax   = 1024
)

// SetRequestsMax limits how many requests run at a time, before the first of them. 0 is the default.
func (c *Client) SetRequestsMax(n int) { c.slots = make(chan struct{}, cmp.Or(n, requestsFirst)) }

// RequestsMax returns how many requests may run at a time.
func (c *Client) RequestsMax() int { return cap(c.slots) }

// Default is the client of [At], [WriterAt] and [NewFolder].
var Default = NewClient()

// remotes are the kinds of storage behind a network, by the scheme of their URLs.
var remotes = map[string]func(*Client, *url.URL) (objects, error){
	"s3":    newBucket,
	"gs":    newCloudBucket,
	"https": newWeb,
	"http":  newWeb,
	"hf":    newHub,
}

// At is [Client.At] of the default client.
func At(place string) (Storage, error) { return Default.At(place) }

// At returns the storage at a place that the user names: a folder's path, or a URL of one of the schemes of remotes. It makes no request.
func (c *Client) At(place string) (Storage, error) { return c.at(place, true) }

// WriterAt returns the default client's storage at a place, to write to: a folder's path, or the URL of a bucket.
func WriterAt(place string) (Writer, error) {
	s, err := At(place)
	if err != nil {
		return nil, err
	}
	if r, is := s.(*remote); is {
		if _, is := r.objects.(uploader); !is {
			return nil, fmt.Errorf("%s: nothing can be written there: name a folder or a bucket (s3://)", place)
		}
	}
	return s.(Writer), nil
}

// source is [Storage.Source] of the storage at a place.
func (c *Client) source(place, index string) (Storage, error) {
	named := slices.ContainsFunc(c.Sources, func(allowed string) bool {
		return strings.HasPrefix(place+"/", strings.TrimSuffix(allowed, "/")+"/")
	})
	if IsRemote(index) {
		root, _ := Root(place)
		own, _ := Root(index)
		if named = named && IsRemote(place) || root == own; !named {
			return nil, fmt.Errorf("they are said to lie at %s, and an index that is read over a network reaches only its own host and bucket: if you trust it, name a URL by --allow-source, or copy the index to this machine", place)
		}
	}
	return c.at(place, named)
}

func (c *Client) at(place string, named bool) (Storage, error) {
	if !IsRemote(place) {
		f := NewFolder(place)
		f.client = c
		return f, nil
	}
	u, err := parsePlace(place)
	if err != nil {
		return nil, err
	}
	o, err := remotes[u.Scheme](c, u)
	if w, is := o.(*web); is && named {
		err = w.sign()
	}
	if err != nil {
		return nil, err
	}
	return &remote{client: c, place: place, objects: o, outage: outage{client: c}}, nil
}

// IsRemote reports whether a place is a URL. A path may hold :// elsewhere than after a scheme.
func IsRemote(place string) bool {
	scheme, _, found := strings.Cut(place, "://")
	return found && scheme != "" && !strings.ContainsAny(scheme, "/.")
}

// CheckSecret refuses a URL with a secret in it, or name=URL, since command lines, logs and pages show such texts. The error hides it.
func CheckSecret(text string) error {
	before, rest, found := strings.Cut(text, "://")
	scheme := before[strings.LastIndexAny(before, "=, ")+1:]
	if !found || scheme == "" || strings.ContainsAny(scheme, "/.") {
		return nil
	}
	u, err := url.Parse(scheme + "://" + rest)
	if err != nil {
		return fmt.Errorf("a text that begins with %s:// is no URL", scheme)
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("%s://%s%s: a URL has no user, password, query or fragment here: credentials come from the environment or their usual files, and a query that signs requests from IMGFEED_URL_QUERY", scheme, u.Host, u.Path)
	}
	return nil
}

// parsePlace checks a URL.
func parsePlace(place string) (*url.URL, error) {
	scheme, _, _ := strings.Cut(place, "://")
	if remotes[scheme] == nil {
		known := strings.Join(slices.Sorted(maps.Keys(remotes)), "://, ")
		return nil, fmt.Errorf("%s://: an unknown kind of place, want a folder or one of %s://", scheme, known)
	}
	if err := CheckSecret(place); err != nil {
		return nil, err
	}
	u, err := url.Parse(place)
	switch {
	case err != nil:
		return nil, err
	case slices.Contains(strings.Split(u.Path, "/"), ".."):
		return nil, fmt.Errorf("%s: a place has no .. in it", place)
	case u.Host == "":
		return nil, fmt.Errorf("%s: the host or bucket is missing", place)
	}
	return u, nil
}

// Join returns the place of a name, with forward slashes, below another place.
func Join(place, name string) string {
	if IsRemote(place) {
		return strings.TrimSuffix(place, "/") + "/" + strings.TrimPrefix(path.Clean("/"+name), "/")
	}
	return filepath.Join(place, filepath.FromSlash(name))
}

// Root divides a URL into the place of a bucket, a server or a repository, and a name there.
func Root(place string) (root, name string) {
	scheme, rest, _ := strings.Cut(place, "://")
	depth := 1
	if scheme == "hf" {
		depth = 3
	}
	parts := strings.SplitN(rest, "/", depth+1)
	if len(parts) <= depth {
		return place, ""
	}
	return scheme + "://" + strings.Join(parts[:depth], "/"), strings.Trim(parts[depth], "/")
}

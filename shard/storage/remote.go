package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"slices"
	"sync"
	"time"
)

// objects is a kind of storage behind a network. Each method makes one request, and a remote repeats it where that helps.
type objects interface {
	// get requests bytes of an object from offset on, to its end if length is -1. With version it asks only for that version of the
	// object, if the storage knows versions. The caller closes the body.
	get(ctx context.Context, name string, offset, length int64, version string) (*object, error)
	// origin names an object to anybody, with its host. It follows a get.
	origin(name string) string
}

// A lister can list a folder as [Lister] does, with empty names among them. It calls received with stallBytes for each page.
type lister interface {
	list(ctx context.Context, folder string, received func(bytes int)) ([]Listed, error)
}

// An object is the answer to a get.
type object struct {
	body     io.ReadCloser
	partial  bool   // the answer is of a range
	header   string // Content-Range of a partial answer
	first    int64  // offset of the body's first byte
	size     int64  // size of the whole object, or -1
	version  string // its ETag or date, or ""
	encoding string // Content-Encoding, which no request asks for
	request  string // the storage's name for the request, for its owner's log
}

// checkHeader reads the header of a range, and the beginning of any other answer, which some storages send an error as.
func (o *object) checkHeader() error {
	if o.encoding != "" {
		return o.mismatch("the answer is compressed (%s)", o.encoding)
	}
	if o.partial {
		if n, _ := fmt.Sscanf(o.header, "bytes %d-%d/%d", &o.first, new(int64), &o.size); n < 3 || o.first < 0 || o.size < 0 {
			return o.mismatch("a range came with the header Content-Range %.80q", o.header)
		}
		return nil
	}
	begin := make([]byte, 200)
	n, _ := io.ReadFull(o.body, begin)
	if begin = begin[:n]; bytes.HasPrefix(begin, []byte("<")) && bytes.Contains(begin, []byte("<Error>")) {
		return o.mismatch("an error came with status 200: %q", begin)
	}
	o.body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(begin), o.body), o.body}
	return nil
}

// mismatch returns the error of an answer to another request. It is repeated once.
func (o *object) mismatch(format string, args ...any) error {
	return &RemoteError{Request: o.request, Err: fmt.Errorf(format, args...), wrong: true}
}

// A remote is a storage behind a network. It repeats requests that fail for a reason that may pass: see [remote.repeat].
//
// Its fields stay as they are once it is handed out, so any number of goroutines make requests. All pass one gate, which says how many run
// at a time, and share one outage. No lock of these is held during a request.
type remote struct {
	client  *Client
	address string
	objects objects
	gate    *gate
	outage  outage
	opening *Opening // nil if it is part of none
}

// String implements fmt.Stringer.
func (r *remote) String() string { return r.address }

// Source implements [Storage].
func (r *remote) Source(address string) (Storage, error) { return r.client.source(address, r.address) }

// Cached implements [Cacher].
func (r *remote) Cached(f File, address, identity string) File {
	if r.client.Cache == nil {
		return f
	}
	return r.client.Cache.Cached(f, address, identity)
}

// Names implements [Storage].
func (r *remote) Names(folder string) (names []string, err error) {
	files, err := r.List(folder)
	for _, f := range files {
		names = append(names, f.Name)
	}
	return names, err
}

// List implements [Lister].
func (r *remote) List(folder string) (files []Listed, err error) {
	l, ok := r.objects.(lister)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	err = r.repeat(folder, 0, -1, func(ctx context.Context, received func(int)) (string, error) {
		files, err = l.list(ctx, folder, received)
		return "", err
	})
	return slices.DeleteFunc(files, func(f Listed) bool { return f.Name == "" }), err // an object can stand for the folder itself
}

// ReadFile implements [Storage].
func (r *remote) ReadFile(name string, max int64, check func([]byte) error) (data []byte, err error) {
	var bad error
	err = r.repeat(name, 0, -1, func(ctx context.Context, received func(int)) (string, error) {
		bad = nil
		o, err := r.objects.get(ctx, name, 0, -1, "")
		if err != nil {
			return "", err
		}
		defer o.body.Close()
		if err := o.checkHeader(); err != nil {
			return "", err
		}
		data, err = io.ReadAll(&watched{io.LimitReader(o.body, max+1), received})
		if err == nil && o.size >= 0 && int64(len(data)) < min(o.size, max+1) {
			err = io.ErrUnexpectedEOF
		}
		if err == nil && check != nil && int64(len(data)) <= max {
			if bad = check(data); bad != nil {
				err = o.mismatch("%w", bad)
			}
		}
		return o.request, err
	})
	switch {
	case bad != nil:
		return data, bad
	case err != nil:
		return nil, err
	case int64(len(data)) > max:
		return nil, fmt.Errorf("%s: %w: more than %d bytes", Join(r.address, name), ErrTooLarge, max)
	}
	return data, nil
}

// Open implements [Storage]. It makes a request only where size is not known, and with a cache. That knows an object by its origin, length
// and version: anybody can claim an identity.
func (r *remote) Open(name string, size int64, identity string) (File, error) {
	f := &remoteFile{remote: r, name: name, size: size}
	cached := identity != "" && r.client.Cache != nil
	if cached || size < 0 {
		if _, err := f.ReadAt(make([]byte, 1), 0); err != nil && err != io.EOF {
			return nil, err
		}
	}
	if !cached {
		return f, nil
	}
	return r.Cached(f, Join(r.address, name), f.Origin()+" "+identity), nil
}

// Stat implements [Storage], by a request for one byte.
func (r *remote) Stat(name string) (Object, error) {
	f := &remoteFile{remote: r, name: name, size: -1}
	if _, err := f.ReadAt(make([]byte, 1), 0); err != nil && err != io.EOF {
		return Object{}, err
	}
	return Object{Bytes: f.size, Version: f.version}, nil
}

// OpenObject implements [Storage]. It makes no request.
func (r *remote) OpenObject(name string, o Object) (File, error) {
	return &remoteFile{remote: r, name: name, size: o.Bytes, version: o.Version}, nil
}

// A remoteFile is an object of a remote storage. Many goroutines read it, each by requests of its own.
//
// It stays the object of its first answer: by its version, or by its size in a storage without versions. mu guards both. Once an answer
// has given them they never change, and an answer of another object is an error. So no two reads mix two objects.
type remoteFile struct {
	*remote
	name string

	mu      sync.Mutex
	size    int64  // -1: not known yet
	version string // "": not known yet, or the storage has none
}

func (f *remoteFile) Size() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.size
}

// Origin implements [Original], once something was read.
func (f *remoteFile) Origin() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return fmt.Sprintf("%s\n%d %q", f.objects.origin(f.name), f.size, f.version)
}

// ReadsMax implements [File]: the next request always waits for the answer before.
func (f *remoteFile) ReadsMax() int { return 2 * int(f.gate.limit.Load()) }

func (f *remoteFile) Blocks() bool { return false }

// Hangs implements [File]: every request ends by itself.
func (f *remoteFile) Hangs() (may bool, limit time.Duration) { return true, 0 }

// Close implements io.Closer. Running requests end by themselves.
func (f *remoteFile) Close() error { return nil }

// WillNeed implements [File]: every read takes a request.
func (f *remoteFile) WillNeed(int64, int64) bool { return false }

// Fetch implements [File].
func (f *remoteFile) Fetch(buf []byte, offset, length int64) ([]byte, error) {
	return ReadRange(f, buf, offset, length)
}

// ReadAt implements io.ReaderAt. A request that breaks off goes on where it was: the next try asks for the bytes that are missing, of the
// same version. p belongs to the requests until it returns.
func (f *remoteFile) ReadAt(p []byte, offset int64) (n int, err error) {
	want := len(p)
	if size := f.Size(); size >= 0 {
		want = int(max(0, min(int64(want), size-offset)))
	}
	if want > 0 {
		err = f.repeat(f.name, offset, int64(want), func(ctx context.Context, received func(int)) (string, error) {
			got, request, err := f.readOnce(ctx, p[n:want], offset+int64(n), received)
			n += got
			return request, err
		})
	}
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}

// get makes one request for a range, and checks that the answer is of that and of the same object as before.
func (f *remoteFile) get(ctx context.Context, offset, length int64) (*object, error) {
	f.mu.Lock()
	version := f.version
	f.mu.Unlock()
	o, err := f.objects.get(ctx, f.name, offset, length, version)
	if err != nil {
		return nil, err
	}
	// The caller closes the body of a right answer, and this function that of any other.
	fault := &RemoteError{Status: http.StatusPreconditionFailed, Request: o.request}
	switch err := o.checkHeader(); {
	case err != nil:
		o.body.Close()
		return nil, err
	case !o.partial && (offset > 0 || o.size < 0):
		fault.Status, fault.Err = 0, errNoRanges
	case o.first != offset:
		fault.Status, fault.Err, fault.wrong = 0, fmt.Errorf("the answer begins at byte %d", o.first), true
	default:
		if fault.Err = f.pin(o); fault.Err == nil {
			return o, nil
		}
	}
	o.body.Close()
	return nil, fault
}

// pin makes the object of the first answer the file's. For any other it returns how that differs. Requests that ran at the same time had
// no version to ask for, so each compares its answer with the one that came first.
func (f *remoteFile) pin(o *object) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.version != "" && o.version != f.version:
		return fmt.Errorf("version %s, and %s when it was opened", o.version, f.version)
	case f.size >= 0 && o.size != f.size:
		return fmt.Errorf("%d bytes, where %d are expected", o.size, f.size)
	}
	f.version, f.size = o.version, o.size
	return nil
}

// readOnce reads what lies in a range by one request.
func (f *remoteFile) readOnce(ctx context.Context, p []byte, offset int64, received func(int)) (n int, request string, err error) {
	o, err := f.get(ctx, offset, int64(len(p)))
	if err != nil {
		return 0, "", err
	}
	defer o.body.Close()
	p = p[:max(0, min(int64(len(p)), o.size-offset))]
	n, err = io.ReadFull(&watched{o.body, received}, p)
	return n, o.request, err
}

// Forget implements [Forgetter]: the next answer may be another one.
func (f *remoteFile) Forget(int64, int64) {}

// An uploader is objects that takes some.
type uploader interface {
	// put makes an object of all that body has, in requests that it repeats itself.
	put(ctx context.Context, name, sum string, body io.Reader) error
	// sum returns an object's length, and the sum that it was put with. It makes one request, as remove does.
	sum(ctx context.Context, name string) (size int64, sum string, err error)
	remove(ctx context.Context, name string) error
}

// Write implements [Writer].
func (r *remote) Write(name, sum string, body io.Reader) error {
	err := r.objects.(uploader).put(r.client.Context, name, sum, body)
	if failed, is := errors.AsType[*RemoteError](err); is {
		failed.Address, failed.Length = Join(r.address, name), -1
	}
	return err
}

// Has implements [Writer].
func (r *remote) Has(name string, size int64, sum string) (has bool, err error) {
	err = r.repeat(name, 0, -1, func(ctx context.Context, _ func(int)) (string, error) {
		n, put, err := r.objects.(uploader).sum(ctx, name)
		has = err == nil && n == size && put == sum
		return "", err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return has, err
}

// Remove implements [Writer]. After an interrupt it makes a single request, so that an unfinished set can still be cleaned up.
func (r *remote) Remove(name string) error {
	if ended := r.client.Context; ended.Err() != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ended), abortTime)
		defer cancel()
		return r.objects.(uploader).remove(ctx, name)
	}
	return r.repeat(name, 0, -1, func(ctx context.Context, _ func(int)) (string, error) {
		return "", r.objects.(uploader).remove(ctx, name)
	})
}

const (
	// The first request has chunkBytesFirst, as most files are only looked at, and each next one eight times as many, up to chunkBytesMax.
	chunkBytesFirst = 64 << 10
	chunkBytesMax   = 4 << 20
	// chunksAhead requests run at a time. They fill 8 Gbit/s at 30 ms.
	chunksAhead = 8
)

// NewReader returns a reader of a whole file. Its Close closes the file, and does not wait for requests that run ahead.
func NewReader(f File) io.ReadCloser { return &aheadReader{file: f} }

// An aheadReader reads a file from its front, and requests the next chunks meanwhile. One goroutine reads; each request has its own, and a
// channel with room for its chunk, so that it ends even if nobody reads on.
//
// What holds: the queue has the requests between what was read and asked, in order. So chunks are read in their order, whichever comes
// first. After an error the reader returns that for ever.
type aheadReader struct {
	file   File
	asked  int64 // end of the requested part
	length int64 // size of the last request
	queue  []chan chunk
	rest   []byte // what was not read yet of the last chunk
	err    error  // the last chunk's, for when its bytes were read
}

type chunk struct {
	bytes []byte
	err   error
}

// Read returns the rest of the current chunk. Without one it requests more, and waits for the oldest request.
func (r *aheadReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 && r.err == nil {
		r.ask()
		if len(r.queue) == 0 {
			return 0, io.EOF
		}
		got := <-r.queue[0]
		r.queue, r.rest, r.err = r.queue[1:], got.bytes, got.err
	}
	n := copy(p, r.rest)
	if r.rest = r.rest[n:]; n == 0 {
		return 0, r.err
	}
	return n, nil
}

// ask begins requests: a second one with the second chunk, and then one more with each. So who reads only the beginning of a file, as most
// do, has no more requested than the first chunk.
func (r *aheadReader) ask() {
	ahead := 1
	if r.length > 0 {
		ahead = chunksAhead
	}
	for len(r.queue) < ahead && r.asked < r.file.Size() {
		r.length = max(chunkBytesFirst, min(8*r.length, chunkBytesMax))
		offset, length := r.asked, min(r.length, r.file.Size()-r.asked)
		r.asked += length
		done := make(chan chunk, 1)
		r.queue = append(r.queue, done)
		go func() {
			buf := make([]byte, length)
			n, err := r.file.ReadAt(buf, offset)
			if int64(n) == length {
				err = nil
			}
			done <- chunk{buf[:n], err}
		}()
	}
}

func (r *aheadReader) Close() error { return r.file.Close() }

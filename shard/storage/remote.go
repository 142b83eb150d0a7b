package storage

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// objects is a kind of storage behind a network. Each method makes one request, and a remote repeats it where that helps.
type objects interface {
	// get requests bytes of an object from offset on, to its end if length is -1. With version it asks for the object of that version only, if the storage
	// can tell. The body is the caller's to close.
	get(ctx context.Context, name string, offset, length int64, version string) (*object, error)
}

// A lister is objects that can list a folder, as [Storage.Names] does.
type lister interface {
	list(ctx context.Context, folder string) ([]string, error)
}

// An object is the answer to a get.
type object struct {
	body    io.ReadCloser
	first   int64  // offset of the body's first byte
	size    int64  // of the whole object, -1 if that is not said
	version string // its ETag or date; "" if there is none
	request string // the storage's name for the request, for its owner's log
}

// A remote is a storage behind a network. Requests that fail for a reason that may pass are repeated for up to Remote.Timeout.
type remote struct {
	place   string
	objects objects
}

// Remote is for the requests to remote storage of the whole process. It is set before the first.
var Remote = struct {
	Context context.Context // its end ends every request
	Timeout time.Duration   // how long requests are repeated before they fail
	Cache   *Cache          // nil for none
}{Context: context.Background(), Timeout: 5 * time.Minute}

// RemoteCounts count the requests to remote storage of the whole process.
var RemoteCounts struct {
	Requests, Retries atomic.Int64 // all, and those of them that repeat one that failed
	UnderWay          atomic.Int64
	Bytes             atomic.Int64                // of bodies
	Failed            atomic.Pointer[RemoteError] // the last one for which a request was repeated
}

const (
	// stallTimeout ends a request that brings nothing.
	stallTimeout = 30 * time.Second
	// pauseMax bounds the pause before a repeated request. Pauses are drawn at random, so that many machines do not come back at once.
	pauseMax = 10 * time.Second
	// headBytes are read at once from the start of a file: a shard's header needs two looks there.
	headBytes = 4 << 10
)

// A RemoteError says which request failed, and what the storage answered. Unwrap gives fs.ErrNotExist for an object that is not there, and fs.ErrPermission
// where access was denied.
type RemoteError struct {
	Place          string // of the object
	Offset, Length int64  // of the range; Length is -1 for a whole object
	Status         int    // of HTTP, 0 without an answer
	Request        string // the storage's name for the request
	Tries          int
	After          time.Duration // since the first try
	Err            error
}

func (e *RemoteError) Error() string {
	text := e.Place
	if e.Length >= 0 {
		text += fmt.Sprintf(", bytes %d to %d", e.Offset, e.Offset+e.Length-1)
	}
	text += ": " + e.Err.Error()
	if e.Request != "" {
		text += ", request " + e.Request
	}
	if e.Tries > 1 {
		text += fmt.Sprintf(", after %d tries in %v", e.Tries, e.After.Round(time.Second/10))
	}
	switch {
	case e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden:
		text += ": check the credentials, and that they may read this object; some storages answer so for objects that are not there too"
	case e.Tries > 1:
		text += ": check the network and the storage; imgfeed waits as long as --store-timeout says"
	}
	return text
}

func (e *RemoteError) Unwrap() []error {
	switch e.Status {
	case http.StatusNotFound:
		return []error{e.Err, fs.ErrNotExist}
	case http.StatusUnauthorized, http.StatusForbidden:
		return []error{e.Err, fs.ErrPermission}
	case http.StatusPreconditionFailed:
		return []error{e.Err, ErrReplaced}
	}
	return []error{e.Err}
}

// passes reports whether a request that failed is worth repeating.
func (e *RemoteError) passes() bool {
	switch e.Status {
	case 0:
		_, untrusted := errors.AsType[*tls.CertificateVerificationError](e.Err)
		return !untrusted && !errors.Is(e.Err, errNoRanges) && !errors.Is(e.Err, errConfig)
	case http.StatusRequestTimeout, http.StatusTooManyRequests:
		return true
	}
	return e.Status >= 500 && e.Status != http.StatusNotImplemented
}

var errNoRanges = errors.New("the server sends whole files only: serve the place from one that answers range requests, as nginx does")

// String implements fmt.Stringer.
func (r *remote) String() string { return r.place }

// Names implements [Storage].
func (r *remote) Names(folder string) (names []string, err error) {
	l, ok := r.objects.(lister)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	err = r.repeat(folder, 0, -1, func(ctx context.Context, _ func()) (string, error) {
		names, err = l.list(ctx, folder)
		return "", err
	})
	return names, err
}

// ReadFile implements [Storage].
func (r *remote) ReadFile(name string, max int64) (data []byte, err error) {
	err = r.repeat(name, 0, -1, func(ctx context.Context, alive func()) (string, error) {
		o, err := r.objects.get(ctx, name, 0, -1, "")
		if err != nil {
			return "", err
		}
		defer o.body.Close()
		data, err = io.ReadAll(&watched{io.LimitReader(o.body, max+1), alive})
		if err == nil && o.size >= 0 && int64(len(data)) < min(o.size, max+1) {
			err = io.ErrUnexpectedEOF
		}
		return o.request, err
	})
	if err == nil && int64(len(data)) > max {
		return nil, fmt.Errorf("%s: %w: more than %d bytes", Join(r.place, name), ErrTooLarge, max)
	}
	return data, err
}

// Open implements [Storage]. It makes a request only where size is not known.
func (r *remote) Open(name string, size int64, identity string) (File, error) {
	f := &remoteFile{remote: r, name: name, size: size}
	switch {
	case size >= 0 && identity != "":
		return Cached(f, Join(r.place, name), identity)
	case size >= 0:
		return f, nil
	}
	var head [1]byte
	if _, err := f.ReadAt(head[:], 0); err != nil && err != io.EOF {
		return nil, err
	}
	return f, nil
}

// Stat implements [Storage], by a request for one byte.
func (r *remote) Stat(name string) (Object, error) {
	f := &remoteFile{remote: r, name: name, size: -1}
	var first [1]byte
	if _, err := f.read(first[:], 0); err != nil && err != io.EOF {
		return Object{}, err
	}
	return Object{Bytes: f.size, Version: f.version}, nil
}

// OpenObject implements [Storage]. It makes no request.
func (r *remote) OpenObject(name string, o Object) (File, error) {
	return &remoteFile{remote: r, name: name, size: o.Bytes, version: o.Version}, nil
}

// repeat calls try until it succeeds, or fails for good, or the time is over. try says after each piece of an answer that the request is alive, and
// returns the storage's name for it.
func (r *remote) repeat(name string, offset, length int64, try func(ctx context.Context, alive func()) (request string, err error)) error {
	started := time.Now()
	for tries := 1; ; tries++ {
		ctx, cancel := context.WithCancelCause(Remote.Context)
		stalled := time.AfterFunc(stallTimeout, func() { cancel(fmt.Errorf("no answer for %v", stallTimeout)) })
		RemoteCounts.Requests.Add(1)
		RemoteCounts.UnderWay.Add(1)
		request, err := try(ctx, func() { stalled.Reset(stallTimeout) })
		RemoteCounts.UnderWay.Add(-1)
		stalled.Stop()
		if cause := context.Cause(ctx); err != nil && cause != nil {
			err = cause
		}
		cancel(nil)
		if err == nil || Remote.Context.Err() != nil {
			return err
		}
		failed, ok := errors.AsType[*RemoteError](err)
		if !ok {
			failed = &RemoteError{Err: err, Request: request}
		}
		failed.Place, failed.Offset, failed.Length = Join(r.place, name), offset, length
		failed.Tries, failed.After = tries, time.Since(started)
		pause := rand.N(min(pauseMax, 100*time.Millisecond<<min(tries, 10)))
		if !failed.passes() || failed.After+pause > Remote.Timeout {
			return failed
		}
		RemoteCounts.Retries.Add(1)
		RemoteCounts.Failed.Store(failed)
		if failed.Status == http.StatusTooManyRequests || failed.Status == http.StatusServiceUnavailable {
			requestGate.slower()
		}
		select {
		case <-time.After(pause):
		case <-Remote.Context.Done():
			return Remote.Context.Err()
		}
	}
}

// A watched reader tells of every piece that it reads.
type watched struct {
	io.Reader
	alive func()
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	if n > 0 {
		RemoteCounts.Bytes.Add(int64(n))
		w.alive()
	}
	return n, err
}

// A remoteFile is an object of a remote storage. It stays the object of its first answer: by its version, or by its size where the storage tells none.
type remoteFile struct {
	*remote
	name   string
	size   int64
	closed atomic.Bool

	mu      sync.Mutex
	version string
	head    []byte // the first bytes, between a first look at them and a second
}

func (f *remoteFile) Size() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.size
}

func (f *remoteFile) ReadsMax() int { return requestsMax }

// Close implements io.Closer. Requests under way end by themselves.
func (f *remoteFile) Close() error {
	f.closed.Store(true)
	return nil
}

// Ahead implements [File]: nothing is at hand.
func (f *remoteFile) Ahead(int64, int64) bool { return false }

// Fetch implements [File].
func (f *remoteFile) Fetch(r *Fetch) { r.Go(f.fetch) }

func (f *remoteFile) fetch(buf []byte, offset, length int64) ([]byte, error) {
	n, err := f.ReadAt(buf[:length], offset)
	if int64(n) == length {
		return buf[:length], nil
	}
	return nil, err
}

// ReadAt implements io.ReaderAt.
func (f *remoteFile) ReadAt(p []byte, offset int64) (int, error) {
	if f.closed.Load() {
		return 0, fs.ErrClosed
	}
	if offset == 0 && len(p) < headBytes {
		if n, ok := f.takeHead(p); ok {
			return n, nil
		}
		head := make([]byte, headBytes)
		n, err := f.read(head, 0)
		f.mu.Lock()
		f.head = head[:n]
		f.mu.Unlock()
		n = copy(p, head[:n])
		if n == len(p) {
			err = nil
		}
		return n, err
	}
	return f.read(p, offset)
}

// takeHead copies from the head, and lets go of it.
func (f *remoteFile) takeHead(p []byte) (n int, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.head) < len(p) {
		return 0, false
	}
	n, f.head = copy(p, f.head), nil
	return n, true
}

// read fills p from offset. A request that breaks off goes on where it was.
func (f *remoteFile) read(p []byte, offset int64) (n int, err error) {
	want := len(p)
	if size := f.Size(); size >= 0 {
		want = int(max(0, min(int64(want), size-offset)))
	}
	if want > 0 {
		requestGate.enter()
		defer func() { requestGate.leave(n) }()
		err = f.repeat(f.name, offset, int64(want), func(ctx context.Context, alive func()) (string, error) {
			got, request, err := f.readOnce(ctx, p[n:want], offset+int64(n), alive)
			n += got
			if size := f.Size(); size >= 0 {
				want = max(n, int(min(int64(want), size-offset)))
			}
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
	version, size := f.version, f.size
	f.mu.Unlock()
	o, err := f.objects.get(ctx, f.name, offset, length, version)
	if err != nil {
		return nil, err
	}
	fault := &RemoteError{Status: http.StatusPreconditionFailed, Request: o.request}
	switch {
	case o.size < 0 || o.first == 0 && offset > 0:
		fault.Status, fault.Err = 0, errNoRanges
	case o.first != offset:
		fault.Status, fault.Err = 0, fmt.Errorf("the answer begins at byte %d", o.first)
	case version != "" && o.version != version:
		fault.Err = fmt.Errorf("version %s, and %s when it was opened", o.version, version)
	case size >= 0 && o.size != size:
		fault.Err = fmt.Errorf("%d bytes, where %d are expected", o.size, size)
	default:
		f.mu.Lock()
		f.version, f.size = o.version, o.size
		f.mu.Unlock()
		return o, nil
	}
	o.body.Close()
	return nil, fault
}

// readOnce reads what lies in a range by one request.
func (f *remoteFile) readOnce(ctx context.Context, p []byte, offset int64, alive func()) (n int, request string, err error) {
	o, err := f.get(ctx, offset, int64(len(p)))
	if err != nil {
		return 0, "", err
	}
	defer o.body.Close()
	p = p[:max(0, min(int64(len(p)), o.size-offset))]
	n, err = io.ReadFull(&watched{o.body, alive}, p)
	return n, o.request, err
}

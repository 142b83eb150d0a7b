package storage

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"
)

const (
	// A request that brings less than stallBytes in stallTimeout, or in a shorter [Client.Timeout], has failed.
	stallBytes   = 30 << 10
	stallTimeout = 30 * time.Second
	// pauseMax bounds the pause before a repeated request. Pauses are drawn at random, so that many machines do not come back at once.
	pauseMax = 10 * time.Second
	// quietAfter is how long one request may take before the log says so if no other one is answered either.
	quietAfter = 5 * time.Second
)

// A RemoteError names the request that failed, and the answer. Unwrap gives fs.ErrNotExist for a missing object, and fs.ErrPermission if
// access was denied. It does not give errors of the connection to the store, as io.EOF: a caller with other connections would take it for
// an error of one of those.
type RemoteError struct {
	Place          string // URL of the object
	Offset, Length int64  // the range; Length is -1 for a whole object
	Status         int    // HTTP status, 0 without an answer
	Request        string // the request's id in the store's log
	Tries          int
	After          time.Duration // time since the first try
	Err            error

	wrong bool // the answer belongs to another request
	down  bool // the store answered no request in that time
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
	switch {
	case e.down:
		text += fmt.Sprintf(", and the store has answered nothing for %v", e.After.Round(time.Second/10))
	case e.Tries > 1:
		text += fmt.Sprintf(", after %d tries in %v", e.Tries, e.After.Round(time.Second/10))
	}
	switch {
	case e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden:
		text += ": check the credentials, and that they may read this object; some storages answer so for objects that are not there too"
	case e.down || e.Tries > 1 && !e.wrong:
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
	if e.retryable() {
		return nil
	}
	return []error{e.Err}
}

// retryable reports whether a request that failed is worth repeating.
func (e *RemoteError) retryable() bool {
	if e.Status == 0 {
		_, untrusted := errors.AsType[*tls.CertificateVerificationError](e.Err)
		return !untrusted && !errors.Is(e.Err, errNoRanges) && !errors.Is(e.Err, errConfig) && !errors.Is(e.Err, errRedirect)
	}
	return e.Status == http.StatusRequestTimeout || e.Status == http.StatusTooManyRequests ||
		e.Status >= 500 && e.Status != http.StatusNotImplemented
}

var errNoRanges = errors.New("the server sends whole files only: serve the place from one that answers range requests, as nginx does")

// IsDown reports whether err says that a store has answered no request for [Client.Timeout]: then other reads from it fail too.
func IsDown(err error) bool {
	failed, is := errors.AsType[*RemoteError](err)
	return is && failed.down
}

// An outage is a time without answers from a store.
type outage struct {
	client   *Client
	mu       sync.Mutex
	answered time.Time // last
	since    time.Time // begin of the first try without an answer; zero while the store answers
	warned   bool      // the log has a warning
}

// end notes that the store answers.
func (o *outage) end(place string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.warned {
		slog.Info("the store answers again", "store", place, "after", time.Since(o.since).Round(time.Second/10))
	}
	o.answered, o.since, o.warned = time.Now(), time.Time{}, false
}

// begin notes a try without an answer. It returns the time since the last answer, or 0 for a moment: single requests fail all the time.
func (o *outage) begin(place string, began time.Time, err error) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.since.IsZero() {
		o.since = slices.MaxFunc([]time.Time{began, o.answered}, time.Time.Compare)
	}
	silent := time.Since(o.since)
	if silent < min(time.Second, o.client.Timeout/2) {
		return 0
	}
	if !o.warned {
		o.warned = true
		slog.Warn("the store does not answer", "store", place, "for", silent.Round(time.Second/10), "timeout", o.client.Timeout, "err", err)
	}
	return silent
}

// A try makes a request once, reports the length of each piece of the answer, and returns the request's id in the store's log.
type try func(ctx context.Context, received func(bytes int)) (request string, err error)

// repeat makes a request until it succeeds, fails for good, or the time is over. Nothing else repeats requests for reading.
//
// The time is [Client.Timeout], from the first try, or the beginning of an outage. So all waiting requests fail with the first one, and
// later ones are tried once, to find out whether the store answers again.
func (r *remote) repeat(name string, offset, length int64, send try) error {
	r.client.slots <- struct{}{}
	defer func() { <-r.client.slots }()
	first, wrong := time.Now(), false
	for tries := 1; ; tries++ {
		began := time.Now()
		request, err := r.once(began, send)
		if err == nil {
			return nil
		} else if ended := r.client.Context.Err(); ended != nil {
			return ended
		}
		failed, ok := errors.AsType[*RemoteError](err)
		if !ok {
			failed = &RemoteError{Err: err, Request: request}
		}
		failed.Place, failed.Offset, failed.Length = Join(r.place, name), offset, length
		failed.Tries, failed.After = tries, time.Since(first)
		pause := rand.N(min(pauseMax, 100*time.Millisecond<<min(tries, 10)))
		if failed.wrong || failed.Status > 0 && !failed.retryable() {
			r.outage.end(r.place)
		}
		switch {
		case failed.wrong && !wrong:
			wrong = true
		case failed.wrong || !failed.retryable():
			return failed
		default:
			if silent := r.outage.begin(r.place, began, failed.Err); silent > 0 {
				failed.After, failed.down = silent, true
			}
			if pause = min(pause, r.client.Timeout-failed.After); pause <= 0 {
				return failed
			}
		}
		r.client.Counts.Retries.Add(1)
		r.client.Counts.Failed.Store(failed)
		select {
		case <-time.After(pause):
		case <-r.client.Context.Done():
		}
	}
}

// once makes a request, and ends it if it brings too little.
func (r *remote) once(began time.Time, send try) (request string, err error) {
	ctx, cancel := context.WithCancelCause(r.client.Context)
	defer cancel(nil)
	fresh, stall := 0, min(stallTimeout, r.client.Timeout)
	stalled := time.AfterFunc(stall, func() { cancel(errStalled) })
	defer stalled.Stop()
	quiet := time.AfterFunc(quietAfter, func() { r.outage.begin(r.place, began, fmt.Errorf("no answer for %v", quietAfter)) })
	defer quiet.Stop()
	r.client.Counts.Requests.Add(1)
	r.client.Counts.UnderWay.Add(1)
	defer r.client.Counts.UnderWay.Add(-1)
	request, err = send(ctx, func(bytes int) {
		quiet.Stop()
		r.client.Counts.Bytes.Add(int64(bytes))
		if fresh += bytes; fresh >= stallBytes {
			fresh = 0
			stalled.Reset(stall)
			r.outage.end(r.place)
		}
	})
	if err == nil {
		r.outage.end(r.place)
	} else if context.Cause(ctx) == errStalled {
		err = fmt.Errorf("%d bytes came in %v", fresh, stall)
	}
	return request, err
}

var errStalled = errors.New("too few bytes came")

// A watched reader reports the length of each piece that it reads.
type watched struct {
	io.Reader
	received func(bytes int)
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	if n > 0 {
		w.received(n)
	}
	return n, err
}

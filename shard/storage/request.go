package storage

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// A request that brings less than stallBytes in stallTimeout, or in a shorter [Client.Timeout], has failed, unless the store still
	// answers those that were sent before.
	stallBytes   = 30 << 10
	stallTimeout = 30 * time.Second
	// movesMax is how often a request follows a bucket to another region.
	movesMax = 3
	// pauseMax bounds the pause before a repeated request. Pauses are drawn at random, so that many machines do not come back at once.
	pauseMax = 10 * time.Second
	// quietAfter is how long one request may take before the log says so if no other one is answered either.
	quietAfter = 5 * time.Second
)

// A RemoteError names the request that failed, and the answer. Unwrap gives fs.ErrNotExist for a missing object, and fs.ErrPermission if
// access was denied. It does not give errors of the connection to the store, as io.EOF: a caller with other connections would take it for
// an error of one of those.
type RemoteError struct {
	Address        string // URL of the object, or path of the file
	Offset, Length int64  // the range; Length is -1 for a whole object
	Status         int    // HTTP status, 0 without an answer
	Request        string // the request's id in the store's log
	Tries          int
	After          time.Duration // time since the first try
	Err            error

	wrong   bool // the answer belongs to another request
	moved   bool // the bucket is in another region
	refused bool // the credentials are not, or no longer, valid
	down    bool // the store fulfilled no request in that time
	heard   bool // something came from it meanwhile
}

// Error names the object and the range, the fault, the request, how long it was tried, and what to check.
func (e *RemoteError) Error() string {
	text := e.Address
	if e.Length >= 0 {
		text += fmt.Sprintf(", bytes %d to %d", e.Offset, e.Offset+e.Length-1)
	}
	text += ": " + e.Err.Error()
	if e.Request != "" {
		text += ", request " + e.Request
	}
	after := e.After.Round(time.Second / 10)
	switch {
	case e.down && e.heard:
		text += fmt.Sprintf(", and no request has succeeded for %v", after)
	case e.down:
		text += fmt.Sprintf(", and the store has answered nothing for %v", after)
	case e.Tries > 1:
		text += fmt.Sprintf(", after %d tries in %v", e.Tries, after)
	}
	_, unknown := errors.AsType[*net.DNSError](e.Err)
	switch {
	case e.refused:
		text += ": renew or correct the credentials; docs/serving.md names where each storage's are read from"
	case e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden:
		text += ": check the credentials, and that they may read this object; some storages answer so for objects that are not there too"
	case e.moved || e.Status/100 == 3:
		text += ": check AWS_REGION and AWS_ENDPOINT_URL"
	case unknown:
		text += ": check the host's name and the network"
		if strings.HasPrefix(e.Address, "s3://") {
			text += "; the host is that of AWS_ENDPOINT_URL, or Amazon's for the bucket and AWS_REGION"
		}
		if e.down {
			text += "; imgfeed waits as long as --store-timeout says"
		}
	case e.heard && e.retryable() && (e.down || e.Tries > 1 && !e.wrong):
		text += ": the store is reached, so check its state and what lies before it; imgfeed repeats requests as long as " +
			"--store-timeout says"
	case e.down || e.Tries > 1 && !e.wrong:
		text += ": check the network and the storage; imgfeed waits as long as --store-timeout says"
	}
	return text
}

// Unwrap gives the kinds of errors that callers ask for. An error that may pass has no kind: it is the store's, and no fault of the object.
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
		return !untrusted && !slices.ContainsFunc(finalErrors, func(err error) bool { return errors.Is(e.Err, err) })
	}
	return e.Status == http.StatusRequestTimeout || e.Status == http.StatusTooManyRequests ||
		e.Status >= 500 && e.Status != http.StatusNotImplemented
}

var errNoRanges = errors.New("the server sends whole files only: use one that answers range requests, such as nginx; " +
	"where this is the listing of a folder, give the URL of a set, an archive or a list")

// finalErrors are those that come again with each try.
var finalErrors = []error{errNoRanges, errConfig, errRedirect, http.ErrSchemeMismatch}

// isUnknownHost reports whether nobody knows the host. Later that may pass: the network's names are away for a moment.
func isUnknownHost(err error) bool {
	failed, is := errors.AsType[*net.DNSError](err)
	return is && failed.IsNotFound
}

// IsDown reports whether err says that a store has fulfilled no request for [Client.Timeout]: then other reads from it fail too.
func IsDown(err error) bool {
	failed, is := errors.AsType[*RemoteError](err)
	return is && failed.down
}

// An outage is a time without answers from a store, whose requests all share it. So they fail together, and the log has one warning for
// all.
//
// What holds, under mu: since is zero while the store answers. A try that has failed, or is long without an answer, sets it (begin), to its
// own start or the last answer, whichever is later. Any success resets it, with warned and heard (end). warned is true only between the
// two.
type outage struct {
	client *Client

	mu       sync.Mutex
	answered time.Time // last
	since    time.Time // begin of the first try without an answer
	warned   bool      // the log has a warning
	heard    bool      // something has come since the last success

	gave atomic.Bool // the store has fulfilled a request, at any time; never false again
}

// end notes that the store answers.
func (o *outage) end(address string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.warned {
		slog.Info("the store answers again", "store", address, "after", time.Since(o.since).Round(time.Second/10))
	}
	o.answered, o.since, o.warned, o.heard = time.Now(), time.Time{}, false, false
}

// hear notes that something has come, if so, and returns whether that is so since the last success.
func (o *outage) hear(now bool) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.heard = o.heard || now
	return o.heard
}

// begin notes a try without an answer. It returns the time since the last answer, or 0 for less than a moment: single requests fail all the
// time.
func (o *outage) begin(address string, began time.Time, err error, moment time.Duration) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.since.IsZero() {
		o.since = slices.MaxFunc([]time.Time{began, o.answered}, time.Time.Compare)
	}
	silent := time.Since(o.since)
	if silent < min(moment, o.client.Timeout/2) {
		return 0
	}
	if !o.warned {
		o.warned = true
		slog.Warn("the store does not answer", "store", address, "for", silent.Round(time.Second/10),
			"timeout", o.client.Timeout, "err", err)
	}
	return silent
}

// A try makes a request once, reports the length of each piece of the answer, and returns the request's id in the store's log. It reports
// on the goroutine that called it, and no more once it has returned.
type try func(ctx context.Context, received func(bytes int)) (request string, err error)

// repeat makes a request until it succeeds, fails for good, or the time is over. Nothing else repeats requests for reading.
//
// The time is [Client.Timeout], from the first try, or the beginning of an outage. So all waiting requests fail with the first one, and
// later ones are tried once, to find out whether the store answers again. While sets are opened it is that of all requests together.
func (r *remote) repeat(name string, offset, length int64, send try) error {
	ctx := r.client.Context
	if r.opening != nil && !r.opening.over.Load() {
		ctx = r.opening.ctx
	}
	q := &request{remote: r, first: time.Now(), ticket: r.gate.ticket()}
	for {
		pause, err := q.try(ctx, send)
		if failed, is := errors.AsType[*RemoteError](err); is {
			failed.Address, failed.Offset, failed.Length = Join(r.address, name), offset, length
			if pause > 0 {
				r.client.Counts.Retries.Add(1)
				r.client.Counts.Failed.Store(failed)
			}
		}
		if pause <= 0 {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// A request is repeated until it is answered. It belongs to the goroutine that waits for it. With others it shares the remote's gate, where
// it has one ticket for all its tries, and the remote's outage, which says how long to go on.
type request struct {
	*remote
	ticket       int64
	first        time.Time // start of the first try
	tries, moves int
	wrong        bool // a wrong answer came
	refused      bool // credentials were refused, and read anew
	last         error
}

// try makes the request once, when its turn comes. If it is to be made again, it returns a pause before that. Between enter and leave it
// counts as in flight; during a pause it does not, so that others pass.
func (q *request) try(ctx context.Context, send try) (pause time.Duration, err error) {
	r := q.remote
	if err := r.gate.enter(ctx, q.ticket); err != nil {
		if other, is := errors.AsType[*RemoteError](err); is { // the store is down
			failed := *other
			return 0, &failed
		}
		return 0, q.ended(ctx, 0, r.client.Context.Err())
	}
	began, got := time.Now(), 0
	if q.tries++; q.tries == 1 {
		q.first = began
	}
	name, err := r.once(ctx, began, send, &got)
	failed, ok := errors.AsType[*RemoteError](err)
	if err != nil && !ok {
		failed = &RemoteError{Err: err, Request: name}
	}
	// It leaves last: those that wait fail with it if the store is down, and are not sent first.
	defer r.gate.leave(began, err == nil, err != nil && (failed.Status == http.StatusTooManyRequests ||
		failed.Status == http.StatusServiceUnavailable))
	switch {
	case err == nil:
		r.outage.gave.Store(true)
		r.opening.answered()
		return 0, nil
	case ctx.Err() != nil:
		return 0, q.ended(ctx, got, r.client.Context.Err())
	}
	failed.Tries, failed.After = q.tries, time.Since(q.first)
	failed.heard = r.outage.hear(failed.Status > 0 || failed.moved || failed.wrong || got > 0)
	q.last = failed.Err
	if failed.wrong || failed.Status > 0 && !failed.retryable() && !failed.refused {
		r.outage.end(r.address)
	}
	if pause = q.pause(began, failed); pause <= 0 && failed.down {
		other := *failed
		r.gate.fail(&other, began)
	}
	return pause, failed
}

// pause returns the pause before the next try, or 0 without one. A wrong answer and refused credentials get a second chance, and a
// bucket that has moved a few. Whatever else may pass is repeated until the store has been silent for the client's timeout.
func (q *request) pause(began time.Time, failed *RemoteError) time.Duration {
	r, pause := q.remote, rand.N(min(pauseMax, 100*time.Millisecond<<min(q.tries, 10)))+1
	switch {
	case failed.wrong:
		first := !q.wrong
		if q.wrong = true; first {
			return pause
		}
		return 0
	case failed.moved:
		if q.moves++; q.moves > movesMax {
			return 0
		}
		return pause
	case failed.refused && !q.refused: // they may have been renewed
		q.refused = true
		return pause
	case (failed.refused || isUnknownHost(failed.Err)) && !r.outage.gave.Load(), !failed.refused && !failed.retryable():
		return 0
	}
	if silent := r.outage.begin(r.address, began, failed.Err, time.Second); silent > 0 {
		failed.After, failed.down = silent, true
	}
	return min(pause, r.client.Timeout-failed.After)
}

// ended returns the error of a request that its context has ended: the context's own, or where an opening took too long, one that says how
// the store has answered so far.
func (q *request) ended(ctx context.Context, got int, stopped error) error {
	if context.Cause(ctx) != errOpening || stopped != nil {
		return cmp.Or(stopped, ctx.Err())
	}
	heard := q.outage.hear(got > 0)
	if got > 0 || q.last == nil {
		q.last = fmt.Errorf("%d bytes of the answer came", got)
	}
	return &RemoteError{Err: q.last, Tries: q.tries, After: time.Since(q.opening.begun), down: true, heard: heard}
}

// once makes a request, and ends it if it brings too little. It counts its bytes in got. Two timers watch it from goroutines of their own:
// they know the turn, the outage and the cancel function, and not the counts here.
func (r *remote) once(parent context.Context, began time.Time, send try, got *int) (request string, err error) {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	fresh, stall, turn := 0, min(stallTimeout, r.client.Timeout), r.gate.turn()
	var stalled *time.Timer
	stalled = time.AfterFunc(math.MaxInt64, func() {
		if turn.waits(stall) {
			stalled.Reset(stall)
		} else {
			cancel(errStalled)
		}
	})
	stalled.Reset(stall)
	defer stalled.Stop()
	quiet := time.AfterFunc(quietAfter, func() {
		r.outage.begin(r.address, began, fmt.Errorf("no answer for %v", quietAfter), quietAfter)
	})
	defer quiet.Stop()
	r.client.Counts.Requests.Add(1)
	r.client.Counts.UnderWay.Add(1)
	defer r.client.Counts.UnderWay.Add(-1)
	request, err = send(ctx, func(bytes int) {
		quiet.Stop()
		r.client.Counts.Bytes.Add(int64(bytes))
		*got += bytes
		if fresh += bytes; fresh >= stallBytes {
			fresh = 0
			stalled.Reset(stall)
			r.outage.end(r.address)
		}
	})
	switch {
	case err == nil:
		r.outage.end(r.address)
	case context.Cause(ctx) == errStalled:
		err = fmt.Errorf("%d bytes came in %v", fresh, stall)
	case err == io.ErrUnexpectedEOF:
		err = fmt.Errorf("the answer ended after %d bytes", *got)
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

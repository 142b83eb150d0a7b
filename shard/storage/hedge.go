package storage

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// A second request is sent for one that takes longer than 95 of 100 and three times the median; the answer that is whole first counts. On a full link all requests
// are about as slow, and none is sent.
const (
	hedgeMedians  = 3
	hedgeAfter    = 25 * time.Millisecond // at least: a store that answers sooner has nothing to gain
	hedgeShare    = 0.05                  // of the requests at most
	hedgesAtOnce  = 8                     // at most, so that a storage that hangs does not get every request twice
	hedgeBytesMax = 1 << 20               // longer ranges are not records, and take longer
	hedgeLearned  = 100                   // requests to learn from
)

// latency estimates how long requests take, and says when one is slow.
type latency struct {
	mu          sync.Mutex
	learned     int
	median, p95 float64 // in seconds
	allowed     float64 // second requests
}

var requestLatency latency

// note takes the time that a request has taken.
func (l *latency) note(took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.learned++; l.learned == 1 {
		l.median, l.p95 = took.Seconds(), took.Seconds()
	}
	approach(&l.median, took.Seconds(), 0.5)
	approach(&l.p95, took.Seconds(), 0.95)
	l.allowed = min(l.allowed+hedgeShare, hedgesAtOnce)
}

// approach moves an estimate so that it stays where a share of all values lies below it.
func approach(estimate *float64, value, share float64) {
	const step = 0.05
	if value > *estimate {
		*estimate *= 1 + step*share
	} else {
		*estimate *= 1 - step*(1-share)
	}
}

// slow returns the time after which a request is slow, or 0 while that is not known.
func (l *latency) slow() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.learned < hedgeLearned {
		return 0
	}
	return max(hedgeAfter, time.Duration(max(l.p95, hedgeMedians*l.median)*float64(time.Second)))
}

// take reports whether a second request may be sent now.
func (l *latency) take() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.allowed < 1 {
		return false
	}
	l.allowed--
	return true
}

// readHedged is readOnce, by a second request too if the first is slow.
func (f *remoteFile) readHedged(ctx context.Context, p []byte, offset int64, alive func()) (n int, request string, err error) {
	if len(p) > hedgeBytesMax {
		return f.readOnce(ctx, p, offset, alive)
	}
	began := time.Now()
	if slow := requestLatency.slow(); slow == 0 || f.Size() < 0 {
		n, request, err = f.readOnce(ctx, p, offset, alive)
	} else {
		n, request, err = f.readTwice(ctx, p, offset, alive, slow)
	}
	if err == nil {
		requestLatency.note(time.Since(began))
	}
	return n, request, err
}

// readTwice sends the second request after some time.
func (f *remoteFile) readTwice(ctx context.Context, p []byte, offset int64, alive func(), after time.Duration) (n int, request string, err error) {
	first, endFirst := context.WithCancel(ctx)
	second, endSecond := context.WithCancel(ctx)
	defer endFirst()
	defer endSecond()
	var won atomic.Pointer[[]byte]
	timer := time.AfterFunc(after, func() {
		if second.Err() != nil || !requestLatency.take() {
			return
		}
		RemoteCounts.Requests.Add(1)
		RemoteCounts.Hedged.Add(1)
		buf := make([]byte, len(p))
		if _, _, err := f.readOnce(second, buf, offset, alive); err == nil {
			won.Store(&buf)
			endFirst()
		}
	})
	defer timer.Stop()
	n, request, err = f.readOnce(first, p, offset, alive)
	if buf := won.Load(); err != nil && buf != nil {
		return copy(p, *buf), "", nil
	}
	return n, request, err
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

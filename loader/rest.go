package loader

import (
	"sync"
	"sync/atomic"
	"time"
)

// A rest says for which share of the time all batches of a stream that have a slot were finished: then it is the client that is waited
// for. At a single moment that may be so by chance, where batches come off a slow disk in bursts. Times are since the stream began.
type rest struct {
	from  atomic.Int64 // ns, when it began; 0: it is over, or none was yet
	total atomic.Int64 // ns, of those that are over

	mu              sync.Mutex
	older, last     time.Duration // total at these times
	olderAt, lastAt time.Duration
}

// begin is called when the last batch is finished, end when the next one has its slot.
func (r *rest) begin(now time.Duration) { r.from.Store(int64(now)) }

func (r *rest) end(now time.Duration) {
	if from := r.from.Swap(0); from != 0 {
		r.total.Add(int64(now) - from)
	}
}

// share returns the share of the last second or two, as far back as questions were asked; false if the stream is too young for that.
func (r *rest) share(now time.Duration) (share float64, ok bool) {
	total := time.Duration(r.total.Load())
	if from := r.from.Load(); from != 0 {
		total += now - time.Duration(from)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if now-r.lastAt >= recentSpan {
		r.older, r.olderAt = r.last, r.lastAt
		r.last, r.lastAt = total, now
	}
	elapsed := now - r.olderAt
	return float64(total-r.older) / float64(max(1, elapsed)), elapsed >= recentSpan
}

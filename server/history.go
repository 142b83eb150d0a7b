package server

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/imgfeed/imgfeed/loader"
	"github.com/imgfeed/imgfeed/server/status"
)

const (
	historyStep    = time.Second
	historyMoments = 600 // ten minutes
)

// A history keeps the moments of the last minutes.
type history struct {
	mu      sync.Mutex
	moments []status.Moment
	looks   []snapshot // snapshots of the last rateSpan seconds, the newest last
}

// A snapshot holds the totals that a later moment is compared with.
type snapshot struct {
	at      time.Time
	pool    loader.Counters // counters that include reads in flight
	store   status.Store
	feeders map[string]status.FeederCounts // feeders by address
	images  int64
	sent    map[uint64]int64 // images, by session
}

// rateSpan is how many seconds a rate looks back.
const rateSpan = 5

// watch adds a moment each second until ctx ends.
func (s *Server) watch(ctx context.Context) {
	ticker := time.NewTicker(historyStep)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			s.addMoment(now)
		}
	}
}

func (s *Server) addMoment(now time.Time) {
	st := s.sample()
	next := snapshot{
		at: now, pool: s.pool.Counters(), store: s.storeCounts(), feeders: s.feeders.Counts(), images: st.Images, sent: map[uint64]int64{},
	}
	next.pool.Read += s.pool.Reading()
	h := &s.history
	h.mu.Lock()
	defer h.mu.Unlock()
	last := snapshot{at: s.started}
	if len(h.looks) > 0 {
		last = h.looks[len(h.looks)-1]
	}
	elapsed := now.Sub(last.at).Seconds()
	if elapsed <= 0 {
		return // two within the clock's resolution
	}
	did := next.pool.Sub(last.pool)
	threads := elapsed * float64(cmp.Or(st.Threads, runtime.GOMAXPROCS(0))) // without threads: those that help out for feeders
	m := status.Moment{
		Time: s.moment(now), Images: float64(next.images-last.images) / elapsed, Bytes: float64(did.BytesRead) / elapsed,
		Read: max(0, did.Read.Seconds()/threads), Decode: did.Decode.Seconds() / threads, Resample: did.Resample.Seconds() / threads,
	}
	m.Wait = max(0, 1-m.Read-m.Decode-m.Resample) // the counter of waiting grows only when it ends
	for _, sess := range st.Sessions {
		next.sent[sess.Session] = sess.Images
		if sess.WaitingFor != loader.Client && sess.WaitingFor != loader.Idle {
			m.Waiting++
		}
	}
	h.looks = appendBounded(h.looks, next, rateSpan+1)
	h.moments = appendBounded(h.moments, m, historyMoments)
}

// appendBounded appends to a list, and drops its first element where it would have more than most.
func appendBounded[T any](list []T, value T, most int) []T {
	if len(list) == most {
		list = slices.Delete(list, 0, 1)
	}
	return append(list, value)
}

// perSecond returns the rate at which a session was sent images in the last seconds.
func (h *history) perSecond(session uint64) float64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, first := range h.looks {
		last := h.looks[len(h.looks)-1]
		if sent, there := first.sent[session]; there && last.at.After(first.at) {
			return float64(last.sent[session]-sent) / last.at.Sub(first.at).Seconds()
		}
	}
	return 0
}

// storeRates returns what came from the store and its cache in the last seconds, a second.
func (h *history) storeRates() (r status.StoreRates) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.looks) < 2 {
		return r
	}
	for i := range h.looks {
		r.UnderWay += float64(h.looks[i].store.UnderWay) / float64(len(h.looks))
	}
	first, last := &h.looks[0], &h.looks[len(h.looks)-1]
	rate := func(from, to int64) float64 { return float64(to-from) / last.at.Sub(first.at).Seconds() }
	r.Requests, r.Retries = rate(first.store.Requests, last.store.Requests), rate(first.store.Retries, last.store.Retries)
	r.StoreBytes, r.CacheBytes = rate(first.store.Bytes, last.store.Bytes), rate(first.store.HitBytes, last.store.HitBytes)
	memory := max(0, rate(first.pool.BytesRead, last.pool.BytesRead)-r.StoreBytes-r.CacheBytes)
	r.MemoryBytes = &memory
	return r
}

// after returns the moments that came after a time.
func (h *history) after(since float64) []status.Moment {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.IndexFunc(h.moments, func(m status.Moment) bool { return m.Time > since })
	if i < 0 {
		return []status.Moment{}
	}
	return slices.Clone(h.moments[i:])
}

// badMax is how many bad samples are remembered.
const badMax = 100

// badSamples remembers the last ones.
type badSamples struct {
	mu   sync.Mutex
	last []status.BadSample
}

// note remembers a bad sample of a split, met at a moment. It keeps each sample once: one that comes again in a later epoch moves
// to the end.
func (b *badSamples) note(moment float64, split string, e loader.BadSample) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = slices.DeleteFunc(b.last, func(old status.BadSample) bool { return old.Split == split && old.Index == e.Index })
	noted := status.BadSample{Time: moment, Split: split, Index: e.Index, Key: e.Key, Error: e.Err.Error()}
	if e.By >= 0 {
		noted.By = &e.By
	}
	b.last = appendBounded(b.last, noted, badMax)
}

// list returns them, the newest first.
func (b *badSamples) list() []status.BadSample {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := make([]status.BadSample, 0, len(b.last))
	for _, bad := range slices.Backward(b.last) {
		list = append(list, bad)
	}
	return list
}

// feederRates returns what came of a feeder in the last seconds, a second, and its share of all samples.
func (h *history) feederRates(address string) (samples, bytes, share float64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.looks {
		first, last := &h.looks[i], &h.looks[len(h.looks)-1]
		from, there := first.feeders[address]
		to, still := last.feeders[address]
		elapsed := last.at.Sub(first.at).Seconds()
		if !there || !still || elapsed <= 0 || to.Samples < from.Samples { // a feeder that is listed again begins anew
			continue
		}
		all := last.pool.Images - first.pool.Images
		for other, counts := range last.feeders {
			all += max(0, counts.Samples-first.feeders[other].Samples)
		}
		made := float64(to.Samples - from.Samples)
		return made / elapsed, float64(to.Bytes-from.Bytes) / elapsed, made / float64(max(1, all))
	}
	return 0, 0, 0
}

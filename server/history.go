package server

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/imgfeed/imgfeed/loader"
)

// A Moment is what happened in about a second before Time: what was delivered, and the share of the decoding threads' time that each
// stage took, 0 to 1.
type Moment struct {
	Time     float64 `json:"time"`   // seconds since 1970
	Images   float64 `json:"images"` // delivered, a second
	Bytes    float64 `json:"bytes"`  // stored bytes read, a second
	Read     float64 `json:"read"`
	Decode   float64 `json:"decode"`
	Resample float64 `json:"resample"`
	Wait     float64 `json:"wait"`
	Waiting  int     `json:"waiting"` // sessions of which an epoch runs and that wait for the feed: for the disk or the CPU
}

const (
	historyStep    = time.Second
	historyMoments = 600 // ten minutes
)

// A history is the moments of the last minutes.
type history struct {
	mu      sync.Mutex
	moments []Moment

	counted loader.Counters // as of the last moment
	images  int64
	at      time.Time
}

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
	h := &s.history
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.at.IsZero() {
		h.at = s.started
	}
	elapsed := now.Sub(h.at).Seconds()
	if elapsed <= 0 {
		return // two within the clock's resolution
	}
	counters := s.pool.Counters()
	images := s.totals.all().images
	did := counters.Sub(h.counted)
	threads := elapsed * float64(s.pool.Threads())
	m := Moment{
		Time: s.moment(now), Images: float64(images-h.images) / elapsed, Bytes: float64(did.BytesRead) / elapsed,
		Read: did.Read.Seconds() / threads, Decode: did.Decode.Seconds() / threads, Resample: did.Resample.Seconds() / threads,
	}
	m.Wait = max(0, 1-m.Read-m.Decode-m.Resample) // the counter of waiting grows only when it ends
	for _, sess := range s.openSessions() {
		sess.rate.add(sess.images.Load(), now)
		if waiting, _ := sess.verdict(); waiting == loader.Disk || waiting == loader.CPU {
			m.Waiting++
		}
	}
	h.counted, h.images, h.at = counters, images, now
	if len(h.moments) == historyMoments {
		h.moments = slices.Delete(h.moments, 0, 1)
	}
	h.moments = append(h.moments, m)
}

// after returns the moments that came after a time.
func (h *history) after(since float64) []Moment {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.IndexFunc(h.moments, func(m Moment) bool { return m.Time > since })
	if i < 0 {
		return []Moment{}
	}
	return slices.Clone(h.moments[i:])
}

// rateSpan is how many seconds a rate "of late" looks back.
const rateSpan = 5

// A rate is how fast a count has grown of late. add is for one goroutine at a time, perSecond for any.
type rate struct {
	counts [rateSpan + 1]int64
	times  [rateSpan + 1]time.Time
	next   int

	milli atomic.Int64 // a second, in thousandths
}

func (r *rate) add(count int64, now time.Time) {
	oldest := (r.next + 1) % len(r.counts)
	r.counts[r.next], r.times[r.next] = count, now
	for r.times[oldest].IsZero() { // the first seconds
		oldest = (oldest + 1) % len(r.counts)
	}
	if elapsed := now.Sub(r.times[oldest]).Seconds(); elapsed > 0 {
		r.milli.Store(int64(1e3 * float64(count-r.counts[oldest]) / elapsed))
	}
	r.next = (r.next + 1) % len(r.counts)
}

func (r *rate) perSecond() float64 { return float64(r.milli.Load()) / 1e3 }

// A BadSample is one that could not be served.
type BadSample struct {
	Time  float64 `json:"time"` // seconds since 1970
	Split string  `json:"split"`
	Index int     `json:"index"`
	Key   string  `json:"key"`
	By    *int    `json:"by,omitempty"` // the sample that was served in its place, where one was
	Error string  `json:"error"`
}

// badMax is how many bad samples are remembered.
const badMax = 100

// badSamples remembers the last ones.
type badSamples struct {
	mu   sync.Mutex
	last []BadSample
}

// note remembers a bad sample of a split, met at a moment, each once: what comes again in every epoch is moved to the end.
func (b *badSamples) note(moment float64, split string, e loader.BadSample) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = slices.DeleteFunc(b.last, func(old BadSample) bool { return old.Split == split && old.Index == e.Index })
	if len(b.last) == badMax {
		b.last = slices.Delete(b.last, 0, 1)
	}
	noted := BadSample{Time: moment, Split: split, Index: e.Index, Key: e.Key, Error: e.Err.Error()}
	if e.By >= 0 {
		noted.By = &e.By
	}
	b.last = append(b.last, noted)
}

// list returns them, the newest first.
func (b *badSamples) list() []BadSample {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := make([]BadSample, 0, len(b.last))
	for _, bad := range slices.Backward(b.last) {
		list = append(list, bad)
	}
	return list
}

package server

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/imgfeed/imgfeed/loader"
	"github.com/imgfeed/imgfeed/server/status"
)

const historyMoments = 600 // ten minutes

// A history keeps the moments of the last minutes.
type history struct {
	mu      sync.Mutex
	moments []status.Moment
	looks   []snapshot // snapshots of the last rateSpan seconds, the newest last
}

// A snapshot holds totals by name, which those of a later moment are compared with.
type snapshot struct {
	at     time.Time
	totals map[string]float64
}

// rateSpan is how many seconds a rate looks back.
const rateSpan = 5

// watch adds a moment each second until ctx ends.
func (s *Server) watch(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
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
	st, pool := s.sample(), s.pool.Counters()
	next := pool.Seconds()
	next["read"] += s.pool.Reading().Seconds()
	next["images"], next["processed"], next["bytes"] = float64(st.Images), float64(pool.Images), float64(pool.BytesRead)
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
	share := func(stage string) float64 { // without threads: of those that help out for feeders
		return max(0, next[stage]-last.totals[stage]) / (elapsed * float64(cmp.Or(st.Threads, s.cpus)))
	}
	m := status.Moment{
		Time:   s.moment(now),
		Images: (next["images"] - last.totals["images"]) / elapsed, Bytes: (next["bytes"] - last.totals["bytes"]) / elapsed,
		Read: share("read"), Decode: share("decode"), Resample: share("resample"),
	}
	m.Wait = max(0, 1-m.Read-m.Decode-m.Resample) // the counter of waiting grows only when it ends
	for _, sess := range st.Sessions {
		next[sessionTotal(sess.Session)] = float64(sess.Images)
		if sess.WaitingFor != loader.Client && sess.WaitingFor != loader.Idle {
			m.Waiting++
		}
	}
	if st.Feeders != nil {
		for _, f := range st.Feeders.Each {
			next[f.Address+" samples"], next[f.Address+" bytes"] = float64(f.Samples), float64(f.Bytes)
		}
	}
	if st.Store != nil {
		next["under way"] = last.totals["under way"] + elapsed*float64(st.Store.UnderWay) // its rate is the mean
		next["requests"], next["retries"] = float64(st.Store.Requests), float64(st.Store.Retries)
		next["from store"], next["from cache"] = float64(st.Store.Bytes), float64(st.Store.HitBytes)
	}
	h.looks = appendBounded(h.looks, snapshot{now, next}, rateSpan+1)
	h.moments = appendBounded(h.moments, m, historyMoments)
}

// sessionTotal is the name of a session's images.
func sessionTotal(session uint64) string { return fmt.Sprint("session ", session) }

// rate returns by how much a total grew in the last seconds, a second. It is 0 for one that is new, or has begun anew.
func (h *history) rate(name string) float64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, first := range h.looks {
		last := h.looks[len(h.looks)-1]
		from, there := first.totals[name]
		if grown := last.totals[name] - from; there && grown > 0 {
			return grown / last.at.Sub(first.at).Seconds()
		}
	}
	return 0
}

// appendBounded appends to a list, and drops its first element where it would have more than most.
func appendBounded[T any](list []T, value T, most int) []T {
	if len(list) == most {
		list = slices.Delete(list, 0, 1)
	}
	return append(list, value)
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
	last []status.SeenBadSample
}

// note remembers a bad sample of a split, met at a moment. It keeps each sample once: one that comes again in a later epoch moves
// to the end.
func (b *badSamples) note(moment float64, split string, e loader.BadSample) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = slices.DeleteFunc(b.last, func(old status.SeenBadSample) bool { return old.Split == split && old.Index == e.Index })
	b.last = appendBounded(b.last, status.SeenBadSample{Time: moment, Split: split, BadSample: status.NewBadSample(e)}, badMax)
}

// list returns them, the newest first.
func (b *badSamples) list() []status.SeenBadSample {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := make([]status.SeenBadSample, 0, len(b.last))
	for _, bad := range slices.Backward(b.last) {
		list = append(list, bad)
	}
	return list
}

package status

import (
	"slices"
	"sync"
)

const (
	historyMoments = 600 // ten minutes
	rateSpan       = 5.0 // how many seconds a rate looks back: longer than the epochs of a small set, which begin with empty slots
	shareAfter     = 1.0 // shortest time over which a share says anything
	pauseMax       = 3.0 // a longer pause between epochs ends the time over which a session's waits count
	idleShare      = 0.5 // share of the time with all batches finished above which the client is the limit
)

// A History keeps the moments of the last minutes, and the statuses of the last seconds, whose differences are rates. Any
// goroutine may call any method.
//
// What holds, under mu: the times in both lists ascend. A status that was added is the history's: nobody changes it any more, so it is read
// without a copy.
type History struct {
	mu      sync.Mutex
	moments []Moment  // historyMoments at most
	looks   []*Status // one each second, rateSpan+1 at most
}

// Add judges a status and keeps it, and notes what happened since the one before it. Call it each second. Threads may have waited for reads
// that are not over yet; their time counts from moment to moment, so that a read of a minute does not show as one share of 6,000 %.
func (h *History) Add(st *Status) {
	h.mu.Lock()
	defer h.mu.Unlock()
	last := &Status{Now: st.Started}
	if n := len(h.looks); n > 0 {
		last = h.looks[n-1]
	}
	elapsed := st.Now - last.Now
	if elapsed <= 0 {
		return // two within the clock's resolution
	}
	h.looks = appendBounded(h.looks, st, rateSpan+1)
	h.judgeLocked(st)
	time, was, threads := st.Seconds, last.Seconds, elapsed*float64(st.Workers)
	m := Moment{
		Time: st.Now, Images: float64(st.Images-last.Images) / elapsed, Bytes: float64(st.ReadBytes-last.ReadBytes) / elapsed,
		Read:   max(0, time["read"]+st.Reading-was["read"]-last.Reading) / threads,
		Decode: (time["decode"] - was["decode"]) / threads, Resample: (time["resample"] - was["resample"]) / threads,
	}
	m.Wait = max(0, 1-m.Read-m.Decode-m.Resample) // the counter of waiting grows only when it ends
	for i := range st.Sessions {
		if waits := st.Sessions[i].WaitingFor; waits != Client && waits != Idle {
			m.Waiting++
		}
	}
	h.moments = appendBounded(h.moments, m, historyMoments)
}

// After returns the moments that came after a time.
func (h *History) After(since float64) []Moment {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.IndexFunc(h.moments, func(m Moment) bool { return m.Time > since })
	if i < 0 {
		return []Moment{}
	}
	return slices.Clone(h.moments[i:])
}

// appendBounded appends to a list, and drops its first element where it would have more than most.
func appendBounded[T any](list []T, value T, most int) []T {
	if len(list) == most {
		list = slices.Delete(list, 0, 1)
	}
	return append(list, value)
}

// Judge completes a status without adding it: the rates of the last seconds, what each session waits for, verdicts and advice. Rates are
// those between looks, so that all who ask within a second see the same. Waits reach up to the status itself.
func (h *History) Judge(st *Status) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.judgeLocked(st)
}

// judgeLocked finds the rates first, then what each session waits for, and the verdicts last, as each needs those before it.
func (h *History) judgeLocked(st *Status) {
	h.rateStoreLocked(st)
	h.rateFeedersLocked(st.Feeders)
	st.ImagesPerSecond = 0
	for i := range st.Sessions {
		s := &st.Sessions[i]
		of := func(look *Status) *Session { return look.session(s.Session) }
		s.ImagesPerSecond = rateLocked(h, of, func(s *Session) int64 { return s.Images })
		st.ImagesPerSecond += s.ImagesPerSecond
		if s.WaitingFor = Idle; s.Epoch != nil {
			s.WaitingFor = limit(h.waitsLocked(st, s))
			if s.ImagesPerSecond > 0 {
				s.SecondsLeft = new(float64((s.EpochBatches-s.EpochSent)*s.BatchSize) / s.ImagesPerSecond)
			}
		}
		s.judge(st)
	}
	if f := st.Feeding; f != nil {
		st.ImagesPerSecond = rateLocked(h, itself, func(st *Status) int64 { return st.Images })
		f.Busy = min(1, rateLocked(h, itself, (*Status).busy)/float64(st.Threads))
	}
	st.judge()
}

// rateLocked returns by how much a total grew in the last seconds, a second. It counts a total from its beginning, or from where it began
// anew: from the earliest look that has less of it than the last one. find finds what has the total in a status; nil if nothing has.
func rateLocked[T any, N int64 | float64](h *History, find func(look *Status) *T, total func(*T) N) float64 {
	for _, first := range h.looks {
		last := h.looks[len(h.looks)-1]
		from, to := find(first), find(last)
		if from != nil && to != nil && total(to) > total(from) {
			return float64(total(to)-total(from)) / (last.Now - first.Now)
		}
	}
	return 0
}

// itself finds the totals of a status itself.
func itself(st *Status) *Status { return st }

// waitsLocked returns for which share of the last seconds a session's batches waited for the client, and for reads. At first each is 1 or
// 0, as things are now.
//
// It goes back over the looks in which an epoch ran, and measures from the earliest of these. A pause of more than pauseMax between two is
// no part of an epoch, and ends that.
func (h *History) waitsLocked(st *Status, s *Session) (client, reads float64) {
	first, from := s, st.Now
	for _, look := range slices.Backward(h.looks) {
		if old := look.session(s.Session); old != nil && old.Epoch != nil {
			if from-look.Now > pauseMax {
				break
			}
			first, from = old, look.Now
		}
	}
	if elapsed := st.Now - from; elapsed >= shareAfter {
		return (s.Waits.Client - first.Waits.Client).Seconds() / elapsed, (s.Waits.Reads - first.Waits.Reads).Seconds() / elapsed
	}
	if s.Waits.ClientNow {
		client = 1
	}
	if s.Waits.ReadsNow {
		reads = 1
	}
	return client, reads
}

// limit names what keeps batches back, given the shares of the time in which they waited for the client and for reads. Where the client is
// not the limit, the rest of the time counts alone: of 60 % that are left, more than 30 % of waiting for reads mean the disk.
func limit(client, reads float64) WaitingFor {
	switch {
	case client > idleShare:
		return Client
	case reads > (1-client)/2:
		return Disk
	}
	return CPU
}

// rateStoreLocked finds the rates of the store. Requests begin and end many times a second, so those under way are a mean over the looks.
func (h *History) rateStoreLocked(st *Status) {
	if st.Store == nil {
		return
	}
	rate := func(total func(*Store) int64) float64 {
		return rateLocked(h, func(look *Status) *Store { return look.Store }, total)
	}
	r := StoreRates{
		Requests: rate(func(s *Store) int64 { return s.Requests }), Retries: rate(func(s *Store) int64 { return s.Retries }),
		StoreBytes: rate(func(s *Store) int64 { return s.Bytes }), CacheBytes: rate(func(s *Store) int64 { return s.HitBytes }),
	}
	for i, look := range h.looks {
		if i > 0 && look.Store != nil {
			r.UnderWay += float64(look.Store.UnderWay) / float64(len(h.looks)-1)
		}
	}
	if !slices.ContainsFunc(st.Sets, func(set Set) bool { return !set.InStore }) { // other sets' samples take bytes too
		bytes := rateLocked(h, itself, func(st *Status) int64 { return st.ReadBytes })
		r.MemoryBytes = new(max(0, bytes-r.StoreBytes-r.CacheBytes))
	}
	st.Store.Rates = r
}

// rateFeedersLocked finds the rates of each feeder and their sum. Shares are of all samples: those of feeders, and those that were made
// here.
func (h *History) rateFeedersLocked(fs *Feeders) {
	if fs == nil {
		return
	}
	fs.SamplesPerSecond, fs.BytesPerSecond = 0, 0
	for i := range fs.Each {
		f := &fs.Each[i]
		of := func(look *Status) *Feeder { return look.feeder(f.Address) }
		f.SamplesPerSecond = rateLocked(h, of, func(f *Feeder) int64 { return f.Samples })
		f.BytesPerSecond = rateLocked(h, of, func(f *Feeder) int64 { return f.Bytes })
		fs.SamplesPerSecond += f.SamplesPerSecond
		fs.BytesPerSecond += f.BytesPerSecond
	}
	all := max(1e-9, fs.SamplesPerSecond+rateLocked(h, itself, func(st *Status) int64 { return st.Processed }))
	for i := range fs.Each {
		fs.Each[i].Share = fs.Each[i].SamplesPerSecond / all
	}
	fs.Share = fs.SamplesPerSecond / all
}

// busy returns the time of all threads in which they had work.
func (st *Status) busy() float64 {
	return st.Seconds["read"] + st.Reading + st.Seconds["decode"] + st.Seconds["resample"]
}

// session returns a session of the status, or nil.
func (st *Status) session(number uint64) *Session {
	return find(st.Sessions, func(s *Session) bool { return s.Session == number })
}

// feeder returns the feeder of an address, or nil.
func (st *Status) feeder(address string) *Feeder {
	if st.Feeders == nil {
		return nil
	}
	return find(st.Feeders.Each, func(f *Feeder) bool { return f.Address == address })
}

func find[T any](list []T, is func(*T) bool) *T {
	for i := range list {
		if is(&list[i]) {
			return &list[i]
		}
	}
	return nil
}

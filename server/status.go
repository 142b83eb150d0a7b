package server

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/imgfeed/imgfeed/loader"
	"github.com/imgfeed/imgfeed/server/status"
	"github.com/imgfeed/imgfeed/shard/storage"
	"github.com/imgfeed/imgfeed/shard/storage/cache"
)

// statusRequest asks what the server is doing. It takes no session.
type statusRequest struct {
	// Since leaves out of the history what the asker has already: everything up to this moment.
	Since float64 `json:"since,omitempty"`
}

func (c *connection) status(m statusRequest) error { return c.send(c.server.Status(m.Since)) }

// Status says what the server is doing, with the history after since.
func (s *Server) Status(since float64) status.Status {
	st := s.sample()
	st.Bad, st.History = s.bad.list(), s.history.after(since)
	return st
}

// sample takes the status, without history and bad samples.
func (s *Server) sample() status.Status {
	pool, catalog := s.pool.Counters(), s.catalog.Load()
	st := status.Status{
		Server: s.cfg.Name, PID: os.Getpid(), Now: s.moment(time.Now()), Started: seconds(s.started), Page: s.page, Path: s.path,
		Threads: s.pool.Threads(), RingBytes: s.memory.inUse(), RingLimitBytes: s.memory.max,
		ReadBytes: pool.BytesRead, Sets: []status.Set{}, Damaged: []string{}, Sessions: []status.Session{},
		Processed: pool.Images, Connections: len(s.list()), Store: s.store(), Feeders: s.feederStatus(),
	}
	st.Splits, st.Errors = s.totals.load()
	for _, counts := range st.Splits {
		st.Add(counts)
	}
	st.Seconds = pool.Seconds()
	st.Seconds["slot_wait"], st.Seconds["write"] = st.SlotWait, st.Write
	for _, split := range catalog.splits {
		if _, delivered := st.Splits[split]; !delivered {
			st.Splits[split] = status.Counts{}
		}
		st.Sets = append(st.Sets, status.Set{ServedSet: catalog.sets[split].described, Path: catalog.sets[split].Dir()})
	}
	for _, err := range catalog.problems() {
		st.Damaged = append(st.Damaged, err.Error())
	}
	for _, sess := range s.openSessions() {
		of := sess.status(st.Store, st.Feeders)
		st.Sessions = append(st.Sessions, of)
		st.ImagesPerSecond += of.ImagesPerSecond
	}
	slices.SortStableFunc(st.Sessions, func(a, b status.Session) int { return cmp.Or(strings.Compare(a.Split, b.Split), a.Rank-b.Rank) })
	s.addFeeding(&st)
	st.Judge()
	return st
}

// store is the status of the store, nil if no set lies in one.
func (s *Server) store() *status.Store {
	sets, bytes := 0, int64(0)
	catalog := s.catalog.Load()
	for _, set := range catalog.sets {
		if set.Store() != "" {
			sets++
			bytes += set.bytes
		}
	}
	if sets == 0 {
		return nil
	}
	client, rate := s.storage(), s.history.rate
	counts := &client.Counts
	st := status.Store{
		Requests: counts.Requests.Load(), Retries: counts.Retries.Load(), UnderWay: counts.UnderWay.Load(), UnderWayMax: counts.Allowed.Load(),
		Bytes: counts.Bytes.Load(), SetBytes: bytes,
		Rates: status.StoreRates{UnderWay: rate("under way"), Requests: rate("requests"), Retries: rate("retries"),
			StoreBytes: rate("from store"), CacheBytes: rate("from cache")},
	}
	if sets == len(catalog.sets) { // other sets' samples take bytes too
		st.Rates.MemoryBytes = new(max(0, rate("bytes")-st.Rates.StoreBytes-st.Rates.CacheBytes))
	}
	if failed := counts.Failed.Load(); failed != nil {
		st.Failure, st.FailureStatus = fmt.Sprintf("%s: %v", failed.Place, failed.Err), failed.Status
	}
	if kept, is := client.Cache.(*cache.Cache); is {
		used, limit, failure := kept.Status()
		st.HitBytes, st.CacheUsed, st.CacheMax = kept.HitBytes.Load(), used, limit
		if failure != nil {
			st.CacheFailure = failure.Error()
		}
	}
	return &st
}

// storage returns the client that reads the sets.
func (s *Server) storage() *storage.Client { return cmp.Or(s.cfg.Found.Client, storage.Default) }

// moment is the time of day when the server started, and what a clock that nobody sets has counted from there to t. A page
// asks for what came after the last moment that it has, and takes differences of moments: both go wrong where the machine's
// clock is set.
func (s *Server) moment(t time.Time) float64 { return seconds(s.started.Add(t.Sub(s.started))) }

// seconds is a moment as the status has it, to the millisecond.
func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1e3 }

// status is the session's, store and feeders those of the server.
func (s *session) status(store *status.Store, feeders *status.Feeders) status.Session {
	stream := s.stream.Load()
	transform, _, batchSize, set := s.form()
	st := status.Session{
		Session: s.connection.id, ClientPID: s.connection.pid, Split: s.Split, Rank: s.plan.Rank, World: s.plan.World, BatchSize: batchSize,
		Transform: json.RawMessage(transform), Transport: s.Transport, WaitingFor: loader.Idle,
		Counts: s.counted(), ImagesPerSecond: s.server.history.rate(sessionTotal(s.connection.id)),
		Slots: s.ring.Slots(), SlotsFree: s.slotPool.Free(), SlotsLent: s.ring.Lent(), RingBytes: s.ring.Size(),
	}
	if made := s.made.Load(); made != nil { // its epoch goes on while the client has some of the batches
		if stream = made; st.SlotsLent == 0 {
			stream = nil
		}
	}
	if stream != nil {
		p, stats := stream.Plan(), stream.Stats()
		st.Epoch, st.EpochBatches, st.EpochSent = new(p.Config().Epoch), p.Batches(), stats.Batches
		if st.ImagesPerSecond > 0 {
			st.SecondsLeft = new(float64((st.EpochBatches-st.EpochSent)*st.BatchSize) / st.ImagesPerSecond)
		}
		st.WaitingFor = s.server.pool.WaitingFor(s.slotPool)
	}
	if set.Store() == "" {
		store = nil
	}
	st.Judge(s.server.pool.Threads(), &status.Set{ServedSet: set.described, Path: set.Dir()}, store, feeders)
	return st
}

// statsRequest asks what the session has done and what it waits for.
type statsRequest struct{}

// statsReply answers [statsRequest] with the session's status.
type statsReply struct {
	status.Session
	Seconds map[string]float64 `json:"seconds"` // slot_wait, write: of the session; the others: of all threads since the server started
	Threads int                `json:"threads"`
	Page    string             `json:"page,omitempty"` // the URL of the status page
}

func (s *session) stats(statsRequest) error {
	st, seconds := s.status(s.server.store(), s.server.feederStatus()), s.server.pool.Counters().Seconds()
	seconds["thread_wait"], seconds["slot_wait"], seconds["write"] = seconds["wait"], st.SlotWait, st.Write
	delete(seconds, "wait") // its name here is thread_wait
	return s.connection.send(statsReply{st, seconds, s.server.pool.Threads(), s.server.page})
}

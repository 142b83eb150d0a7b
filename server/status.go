package server

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/imgfeed/imgfeed/server/status"
	"github.com/imgfeed/imgfeed/shard/storage"
	"github.com/imgfeed/imgfeed/shard/storage/cache"
)

func (c *connection) status(m status.Request) error { return c.send(c.server.Status(m.Since)) }

// Status says what the server is doing, with the history after since.
func (s *Server) Status(since float64) status.Status {
	st := s.count(time.Now())
	s.history.Judge(&st)
	st.History = s.history.After(since)
	return st
}

// watch adds a moment to the history each second until ctx ends. It is a goroutine of Serve or Feed.
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
	st := s.count(now)
	s.history.Add(&st)
}

// count takes what the server counts at one moment; the history judges it. It takes each lock for itself, one after the other: the figures
// of one source belong together, and those of two may be some microseconds apart. What the status shares with others never changes.
func (s *Server) count(now time.Time) status.Status {
	pool, catalog, threads := s.pool.Counters(), s.catalog.Load(), s.pool.Threads()
	st := status.Status{
		Server: s.cfg.Name, PID: os.Getpid(), Now: s.moment(now), Started: seconds(s.started), Page: s.page, Path: s.path,
		Threads: threads, Workers: cmp.Or(threads, s.cpus), RingBytes: s.memory.inUse(), RingLimitBytes: s.memory.max,
		ReadBytes: pool.BytesRead, Sets: []status.Set{}, Damaged: []string{}, Sessions: []status.Session{},
		Processed: pool.Images, Reading: s.pool.Reading().Seconds(), Connections: len(s.list()),
		Store: s.store(catalog), Feeders: s.feeders.Status(), Seconds: pool.Seconds(),
	}
	s.totals.Fill(&st)
	st.Seconds["slot_wait"], st.Seconds["write"] = st.SlotWait, st.Write
	for _, split := range catalog.splits {
		if _, delivered := st.Splits[split]; !delivered {
			st.Splits[split] = status.Counts{}
		}
		st.Sets = append(st.Sets, catalog.sets[split].described)
	}
	for _, err := range catalog.problems() {
		st.Damaged = append(st.Damaged, err.Error())
	}
	for _, sess := range s.openSessions() {
		st.Sessions = append(st.Sessions, sess.status())
	}
	slices.SortStableFunc(st.Sessions, func(a, b status.Session) int { return cmp.Or(strings.Compare(a.Split, b.Split), a.Rank-b.Rank) })
	if fed := s.feeding.Load(); fed != nil {
		st.Images = fed.Samples.Load()
		st.Feeding = &status.Feeding{Connections: fed.Connections.Load(), Pieces: fed.Pieces.Load()}
	}
	return st
}

// store counts what is read from stores. It is nil if no set lies in one.
func (s *Server) store(c *catalog) *status.Store {
	sets, bytes := 0, int64(0)
	for _, set := range c.sets {
		if set.Store() != "" {
			sets++
			bytes += set.bytes
		}
	}
	if sets == 0 {
		return nil
	}
	client := cmp.Or(s.cfg.Found.Client, storage.Default) // it reads the sets
	counts := &client.Counts
	st := status.Store{
		Requests: counts.Requests.Load(), Retries: counts.Retries.Load(), UnderWay: counts.UnderWay.Load(),
		UnderWayMax: counts.Allowed.Load(), Bytes: counts.Bytes.Load(), SetBytes: bytes,
	}
	if failed := counts.Failed.Load(); failed != nil {
		st.Failure, st.FailureStatus = fmt.Sprintf("%s: %v", failed.Address, failed.Err), failed.Status
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

// moment is t in seconds since 1970, by the time of day when the server started and the monotonic clock since then. Pages ask for what
// came after their last moment, and subtract moments: both would go wrong if somebody set the machine's clock.
func (s *Server) moment(t time.Time) float64 { return seconds(s.started.Add(t.Sub(s.started))) }

// seconds is a moment as the status has it, to the millisecond.
func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1e3 }

// status counts what the session does. Any goroutine may call it, also while the session changes or ends: set, transform, batch size and
// stream are of one snapshot. The stream counts on after the snapshot was taken.
func (s *session) status() status.Session {
	now := s.snapshot.Load()
	st := status.Session{
		Session: s.connection.id, ClientPID: s.connection.pid, Split: s.Split, Rank: s.plan.Rank, World: s.plan.World,
		BatchSize: now.batchSize,
		Transform: json.RawMessage(now.transform), Transport: s.Transport, Set: &now.set.described, Counts: s.server.totals.Of(&s.counts),
		Slots: s.ring.Slots(), SlotsFree: s.slotPool.Free(), SlotsLent: s.ring.Lent(), RingBytes: s.ring.Size(), Waits: s.slotPool.Waits(),
	}
	if now.stream != nil && (now.sends || st.SlotsLent > 0) { // an epoch goes on while the client has some of the batches
		p, stats := now.stream.Plan(), now.stream.Stats()
		st.Epoch, st.EpochBatches, st.EpochSent = new(p.Config().Epoch), p.Batches(), stats.Batches
	}
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

// stats answers with what the page shows of the session, so both give one verdict. Only the name of a time differs.
func (s *session) stats(statsRequest) error {
	all := s.server.Status(math.Inf(1))
	i := slices.IndexFunc(all.Sessions, func(of status.Session) bool { return of.Session == s.connection.id })
	st, seconds := all.Sessions[i], all.Seconds
	seconds["slot_wait"], seconds["write"], seconds["thread_wait"] = st.SlotWait, st.Write, seconds["wait"]
	delete(seconds, "wait")
	return s.connection.send(statsReply{st, seconds, all.Threads, all.Page})
}

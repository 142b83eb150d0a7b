package server

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/loader"
)

// Status is what a server is doing: the one account of it, taken at one moment. The page, /status.json, the metrics, the
// history, the reply to stats and imgfeed top are views of it. Times are in seconds, moments in seconds since 1970, counts
// since the server started.
type Status struct {
	Server  string  `json:"server"`
	PID     int     `json:"pid"`
	Now     float64 `json:"now"`
	Started float64 `json:"started"`

	Threads        int   `json:"threads"`
	RingBytes      int64 `json:"ring_bytes"` // of all sessions
	RingLimitBytes int64 `json:"ring_limit_bytes"`

	Counts
	Errors          map[string]int64   `json:"errors"` // sent to clients, by kind
	ReadBytes       int64              `json:"read_bytes"`
	ImagesPerSecond float64            `json:"images_per_second"` // in the last seconds, as are the sessions'
	Seconds         map[string]float64 `json:"seconds"`           // of all threads: read, decode, resample, wait; of all sessions: slot_wait, write

	Sets     []StatusSet     `json:"sets"`
	Damaged  []string        `json:"damaged"`  // what is here but not served, a sentence each
	Sessions []SessionStatus `json:"sessions"` // by split and rank
	Bad      []BadSample     `json:"bad"`      // the last samples that could not be served, the newest first
	History  []Moment        `json:"history"`  // the last minutes, a moment each second, the newest last

	// For the metrics alone.
	splits      map[string]Counts // of those that are served
	processed   int64             // images that went through the decoding threads
	connections int
}

// A StatusSet is a set that is served, and where it lies.
type StatusSet struct {
	ServedSet
	Path string `json:"path"`
}

// SessionStatus is one session of a [Status]. Its counts are those since it was opened.
type SessionStatus struct {
	Session   uint64          `json:"session"`
	ClientPID int             `json:"client_pid"` // 0 if the system does not say
	Split     string          `json:"split"`
	Rank      int             `json:"rank"`
	World     int             `json:"world"`
	BatchSize int             `json:"batch_size"`
	Transform json.RawMessage `json:"transform"`
	Transport string          `json:"transport"` // shm or socket

	Epoch        *int `json:"epoch"`         // null when none runs
	EpochBatches int  `json:"epoch_batches"` // of the rank, from where it started
	EpochSent    int  `json:"epoch_sent"`    // of them
	// SecondsLeft of the epoch at this rate; null where that is not known.
	SecondsLeft *float64 `json:"seconds_left"`

	WaitingFor loader.WaitingFor `json:"waiting_for"`
	Verdict    string            `json:"verdict"`
	Advice     string            `json:"advice"` // what to do about it, "" if nothing

	Counts
	ImagesPerSecond float64 `json:"images_per_second"`
	SlotWait        float64 `json:"slot_wait"`
	Write           float64 `json:"write"`

	Slots     int   `json:"slots"`
	SlotsFree int   `json:"slots_free"`
	SlotsLent int   `json:"slots_lent"`
	RingBytes int64 `json:"ring_bytes"`

	inFlight int // batches, for the metrics
}

// statusRequest asks what the server is doing. It takes no session.
type statusRequest struct {
	// Since leaves out of the history what the asker has already: everything up to this moment.
	Since float64 `json:"since,omitempty"`
}

func (c *connection) status(m statusRequest) error { return c.send(c.server.Status(m.Since)) }

// Status says what the server is doing, with the history after since.
func (s *Server) Status(since float64) Status {
	st := s.sample()
	st.Bad, st.History = s.bad.list(), s.history.after(since)
	return st
}

// sample takes the status, without history and bad samples.
func (s *Server) sample() Status {
	pool, catalog, sum := s.pool.Counters(), s.catalog.Load(), s.totals.all()
	st := Status{
		Server: s.cfg.Name, PID: os.Getpid(), Now: s.moment(time.Now()), Started: seconds(s.started),
		Threads: s.pool.Threads(), RingBytes: s.memory.inUse(), RingLimitBytes: s.memory.max,
		Counts: sum.Counts, ReadBytes: pool.BytesRead, Errors: s.totals.errorsByKind(),
		Seconds: map[string]float64{
			"read": pool.Read.Seconds(), "decode": pool.Decode.Seconds(), "resample": pool.Resample.Seconds(), "wait": pool.Wait.Seconds(),
			"slot_wait": sum.slotWait.Seconds(), "write": sum.write.Seconds(),
		},
		Sets: []StatusSet{}, Damaged: []string{}, Sessions: []SessionStatus{},
		splits: map[string]Counts{}, processed: pool.Images, connections: len(s.list()),
	}
	for _, split := range catalog.splits {
		st.splits[split] = s.totals.ofSplit(split).load().Counts
		st.Sets = append(st.Sets, StatusSet{describeSet(catalog.sets[split].Set), catalog.found.Sets[split]})
	}
	for _, err := range catalog.problems() {
		st.Damaged = append(st.Damaged, err.Error())
	}
	for _, sess := range s.openSessions() {
		of := sess.status()
		st.Sessions = append(st.Sessions, of)
		st.ImagesPerSecond += of.ImagesPerSecond
	}
	slices.SortStableFunc(st.Sessions, func(a, b SessionStatus) int { return cmp.Or(strings.Compare(a.Split, b.Split), a.Rank-b.Rank) })
	return st
}

// moment is the time of day when the server started, and what a clock that nobody sets has counted from there to t. A page
// asks for what came after the last moment that it has, and takes differences of moments: both go wrong where the machine's
// clock is set.
func (s *Server) moment(t time.Time) float64 { return seconds(s.started.Add(t.Sub(s.started))) }

// seconds is a moment as the status has it, to the millisecond.
func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1e3 }

// secondsLeftMax is where "time left" says nothing any more: a year.
const secondsLeftMax = 365 * 24 * 3600

func (s *session) status() SessionStatus {
	stream, done := s.stream.Load(), s.tally.load()
	st := SessionStatus{
		Session: s.connection.id, ClientPID: s.connection.pid, Split: s.split, Rank: s.plan.Rank, World: s.plan.World, BatchSize: s.plan.BatchSize,
		Transform: json.RawMessage(s.views.String()), Transport: s.transport(), WaitingFor: loader.Idle,
		Counts: done.Counts, ImagesPerSecond: s.server.history.perSecond(s.connection.id), SlotWait: done.slotWait.Seconds(), Write: done.write.Seconds(),
		Slots: s.ring.Usable(), SlotsFree: s.slotPool.Free(), SlotsLent: s.ring.Lent(), RingBytes: s.ring.Size(),
	}
	if stream != nil {
		p, stats := stream.Plan(), stream.Stats()
		epoch := p.Config().Epoch
		st.Epoch, st.EpochBatches, st.EpochSent = &epoch, p.Batches(), stats.Batches
		st.WaitingFor, st.inFlight = stats.WaitingFor, stats.InFlight
		if left := float64((st.EpochBatches-st.EpochSent)*st.BatchSize) / st.ImagesPerSecond; !math.IsNaN(left) && left < secondsLeftMax {
			st.SecondsLeft = &left
		}
	}
	st.Verdict, st.Advice = s.verdict(st), advice[st.WaitingFor]
	return st
}

// advice says what to do about what a session waits for.
var advice = map[loader.WaitingFor]string{
	loader.Disk:   "Put the set on a faster disk or into memory, or pack it smaller: imgshard build --encoding pixels with a resize stores less of large photographs.",
	loader.CPU:    "Give the server more cores (--threads), or pack once with imgshard build --encoding pixels, which takes a fraction of the time to decode.",
	loader.Client: "The feed is ahead: the training step is the limit, and nothing is to be done here.",
}

// verdict says in a sentence, with its evidence, what the session waits for.
func (s *session) verdict(st SessionStatus) string {
	slots := fmt.Sprintf("%d of %d slots are with the client, %d free", st.SlotsLent, st.Slots, st.SlotsFree)
	switch st.WaitingFor {
	case loader.Client:
		if s.shared {
			return "waiting for the client: every batch that fits is ready; " + slots
		}
		return fmt.Sprintf("waiting for the client to read from the socket: %s ready", bytesize.Counted(st.inFlight, "batch is", "batches are"))
	case loader.Disk:
		return "waiting for the disk: threads spend most of their time reading; " + slots
	case loader.CPU:
		return fmt.Sprintf("waiting for the CPU: %s most of the time decoding and resizing; %s", bytesize.Counted(s.server.pool.Threads(), "thread spends", "threads spend"), slots)
	}
	return "no epoch is running"
}

// statsRequest asks what the session has done and what it waits for.
type statsRequest struct{}

// statsReply answers [statsRequest]. Times are in seconds, counts since the session was opened.
type statsReply struct {
	WaitingFor loader.WaitingFor `json:"waiting_for"` // disk, cpu, client or idle
	Verdict    string            `json:"verdict"`     // the same as a sentence, with its evidence
	Counts
	Seconds   map[string]float64 `json:"seconds"` // slot_wait, write: of the session; the others: of all threads since the server started
	SlotsFree int                `json:"slots_free"`
	SlotsLent int                `json:"slots_lent"`
	Threads   int                `json:"threads"`
}

func (s *session) stats(statsRequest) error {
	st, pool := s.status(), s.server.pool.Counters()
	return s.connection.send(statsReply{
		WaitingFor: st.WaitingFor, Verdict: st.Verdict, Counts: st.Counts,
		Seconds: map[string]float64{
			"read": pool.Read.Seconds(), "decode": pool.Decode.Seconds(), "resample": pool.Resample.Seconds(), "thread_wait": pool.Wait.Seconds(),
			"slot_wait": st.SlotWait, "write": st.Write,
		},
		SlotsFree: st.SlotsFree, SlotsLent: st.SlotsLent, Threads: s.server.pool.Threads(),
	})
}

// String describes the status for people, a line each.
func (st Status) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s, %s of %s for batches in use\n", st.Server, bytesize.Counted(st.Threads, "thread", "threads"), bytesize.Format(st.RingBytes), bytesize.Format(st.RingLimitBytes))
	for _, set := range st.Sets {
		fmt.Fprintf(&b, "split %s: %s of %s in %s\n", set.Split, bytesize.Counted(set.Samples, "sample", "samples"), bytesize.Counted(set.Classes, "class", "classes"), set.Path)
	}
	for _, sentence := range st.Damaged {
		fmt.Fprintf(&b, "damaged, and not served: %s\n", sentence)
	}
	for _, sess := range st.Sessions {
		fmt.Fprintf(&b, "session %d: %s, rank %d of %d, %s in %s: %s\n",
			sess.Session, sess.Split, sess.Rank, sess.World, bytesize.Counted(int(sess.Images), "image", "images"),
			bytesize.Counted(int(sess.Batches), "batch", "batches"), sess.Verdict)
	}
	if len(st.Sessions) == 0 {
		b.WriteString("no sessions\n")
	}
	return b.String()
}

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

// statusRequest asks what the server is doing. It takes no session.
type statusRequest struct {
	// Since leaves out of the history what the asker has already: all up to this moment.
	Since float64 `json:"since,omitempty"`
}

// Status is what a server is doing: the answer to a status request, and what the page, imgfeed top and scripts show. Times are in seconds,
// moments in seconds since 1970, counts since the server started.
type Status struct {
	Server  string  `json:"server"`
	PID     int     `json:"pid"`
	Now     float64 `json:"now"`
	Started float64 `json:"started"`

	Threads        int   `json:"threads"`
	RingBytes      int64 `json:"ring_bytes"` // of all sessions
	RingLimitBytes int64 `json:"ring_limit_bytes"`

	Images          int64              `json:"images"` // delivered
	Batches         int64              `json:"batches"`
	Bytes           int64              `json:"bytes"` // of arrays delivered
	Blanks          int64              `json:"blanks"`
	Substitutes     int64              `json:"substitutes"` // of their class, in the place of samples that could not be read
	Errors          map[string]int64   `json:"errors"`      // sent to clients, by kind
	ReadBytes       int64              `json:"read_bytes"`
	ImagesPerSecond float64            `json:"images_per_second"` // of late, as are the sessions'
	Seconds         map[string]float64 `json:"seconds"`           // of all threads: read, decode, resample, wait; of all sessions: slot_wait, write

	Sets     []StatusSet     `json:"sets"`
	Damaged  []string        `json:"damaged"`  // what is here but not served, a sentence each
	Sessions []SessionStatus `json:"sessions"` // by split and rank
	Bad      []BadSample     `json:"bad"`      // the last samples that could not be served, the newest first
	History  []Moment        `json:"history"`  // the last minutes, a moment each second, the newest last
}

// A StatusSet is a set that is served, and where it lies.
type StatusSet struct {
	ServedSet
	Path string `json:"path"`
}

// SessionStatus is one session of a [Status].
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

	Images          int64   `json:"images"` // delivered since the session was opened
	Batches         int64   `json:"batches"`
	Blanks          int64   `json:"blanks"`
	Substitutes     int64   `json:"substitutes"`
	ImagesPerSecond float64 `json:"images_per_second"`
	SlotWait        float64 `json:"slot_wait"`
	Write           float64 `json:"write"`

	Slots     int   `json:"slots"`
	SlotsFree int   `json:"slots_free"`
	SlotsLent int   `json:"slots_lent"`
	RingBytes int64 `json:"ring_bytes"`
}

func (c *connection) status(m statusRequest) error { return c.send(c.server.Status(m.Since)) }

// advice says what to do about what a session waits for.
var advice = map[loader.WaitingFor]string{
	loader.Disk:   "Put the set on a faster disk or into memory, or pack it smaller: imgshard build --encoding pixels with a resize stores less of large photographs.",
	loader.CPU:    "Give the server more cores (--threads), or pack once with imgshard build --encoding pixels, which takes a fraction of the time to decode.",
	loader.Client: "The feed is ahead: the training step is the limit, and nothing is to be done here.",
}

// Status says what the server is doing, with the history after since.
func (s *Server) Status(since float64) Status {
	c := s.pool.Counters()
	st := Status{
		Server: s.cfg.Name, PID: os.Getpid(), Now: s.moment(time.Now()), Started: seconds(s.started),
		Threads: s.pool.Threads(), RingBytes: s.memory.inUse(), RingLimitBytes: s.memory.max,
		ReadBytes: c.BytesRead, Seconds: s.threadSeconds(), Errors: map[string]int64{},
		Sets: []StatusSet{}, Damaged: []string{}, Sessions: []SessionStatus{},
	}
	for stage, t := range s.sessionSeconds() {
		st.Seconds[stage] = t
	}
	for kind, n := range s.totals.errors {
		st.Errors[kind] = n.Load()
	}
	sum := s.totals.all()
	st.Images, st.Batches, st.Bytes, st.Blanks, st.Substitutes = sum.images, sum.batches, sum.bytes, sum.blanks, sum.substitutes
	catalog := s.catalog.Load()
	for _, set := range s.Sets() {
		st.Sets = append(st.Sets, StatusSet{set, catalog.found.Sets[set.Split]})
	}
	for _, err := range catalog.problems() {
		st.Damaged = append(st.Damaged, err.Error())
	}
	for _, sess := range s.openSessions() {
		st.Sessions = append(st.Sessions, sess.status())
		st.ImagesPerSecond += st.Sessions[len(st.Sessions)-1].ImagesPerSecond
	}
	slices.SortStableFunc(st.Sessions, func(a, b SessionStatus) int { return cmp.Or(strings.Compare(a.Split, b.Split), a.Rank-b.Rank) })
	st.Bad = s.bad.list()
	st.History = s.history.after(since)
	return st
}

// moment is the time of day when the server started, and what a clock that nobody sets has counted from there to t. Whoever looks on asks for
// what came after the last moment that was shown, and takes differences of moments: both go wrong where the machine's clock is set.
func (s *Server) moment(t time.Time) float64 { return seconds(s.started.Add(t.Sub(s.started))) }

// seconds is a moment as the status has it, to the millisecond.
func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1e3 }

func (s *session) status() SessionStatus {
	waiting, verdict := s.verdict()
	st := SessionStatus{
		Session: s.connection.id, ClientPID: s.connection.pid, Split: s.split, Rank: s.plan.Rank, World: s.plan.World, BatchSize: s.plan.BatchSize,
		Transform: json.RawMessage(s.views.String()), Transport: s.transport(),
		WaitingFor: waiting, Verdict: verdict, Advice: advice[waiting],
		Images: s.images.Load(), Batches: s.batches.Load(), Blanks: s.blanks.Load(), Substitutes: s.subs.Load(), ImagesPerSecond: s.rate.perSecond(),
		SlotWait: time.Duration(s.slotWait.Load()).Seconds(), Write: time.Duration(s.writeTime.Load()).Seconds(),
		Slots: s.ring.Usable(), SlotsFree: s.slotPool.Free(), SlotsLent: s.ring.Lent(), RingBytes: s.ring.Size(),
	}
	if stream := s.stream.Load(); stream != nil {
		p := stream.Plan()
		epoch := p.Config().Epoch
		st.Epoch, st.EpochBatches, st.EpochSent = &epoch, p.Batches(), stream.Stats().Batches
		if left := float64((st.EpochBatches-st.EpochSent)*st.BatchSize) / st.ImagesPerSecond; !math.IsNaN(left) && left < maxSecondsLeft {
			st.SecondsLeft = &left
		}
	}
	return st
}

// maxSecondsLeft is where "time left" says nothing any more: a year.
const maxSecondsLeft = 365 * 24 * 3600

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

// list returns the connections in the order in which they came.
func (s *Server) list() []*connection {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*connection, 0, len(s.connections))
	for _, c := range s.connections {
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b *connection) int { return int(a.id) - int(b.id) })
	return list
}

// openSessions returns the sessions in the order in which their connections came.
func (s *Server) openSessions() (sessions []*session) {
	for _, c := range s.list() {
		if sess := c.session.Load(); sess != nil {
			sessions = append(sessions, sess)
		}
	}
	return sessions
}

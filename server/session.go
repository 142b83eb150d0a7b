package server

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/imgfeed/imgfeed/loader"
	"github.com/imgfeed/imgfeed/server/internal/ring"
	"github.com/imgfeed/imgfeed/server/internal/traces"
	"github.com/imgfeed/imgfeed/transform"
)

// A session is what an open request has set up: a set, a transform and a ring, from which epoch after epoch is served.
type session struct {
	openConfig
	connection *connection
	server     *Server
	samples    loader.Dataset
	ring       *ring.Ring
	slots      []*loader.Slot   // by number: views of the ring
	slotPool   *loader.SlotPool // the slots that are neither lent nor in a stream
	lentAt     []atomic.Int64   // by number: when it was lent last, in ns since the server started, by a clock that nobody sets
	heardOf    atomic.Int64     // when a slot came back last, or was lent while the client had none, by the same clock
	totals     *splitTally
	traces     traces.Slots

	generation atomic.Uint64 // of the last epoch
	epoch      *epoch        // that runs

	selectionBytes int64 // of plan.Selection, reserved

	shrinking sync.Mutex
	surplus   int           // slots that are to be given up once they come back
	retired   chan struct{} // has one after a slot was given up
	waits     int           // of holdBack, since then, that were in vain
	shut      bool          // the ring is gone
	shrunk    atomic.Int64  // how many slots there are from now on, where the client does not know; else 0

	// For the status and the metrics too.
	stream atomic.Pointer[loader.Stream] // of the running epoch; nil if none runs
	tally  tally                         // since it was opened

	lookMu sync.Mutex // held to look for the stream and its set, and to take the stream away
}

// newSession sets up what an open request asks for, as the connection's session.
func (s *Server) newSession(c *connection, m openRequest) (sess *session, err error) {
	cfg, err := s.checkOpen(m)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			cfg.set.drop()
		}
	}()
	sess = &session{openConfig: cfg, connection: c, server: s, totals: s.totals.ofSplit(cfg.split), retired: make(chan struct{}, 1)}
	if sess.samples, err = loader.FromShards(cfg.set.Set); err != nil {
		return nil, err
	}
	slots, err := s.takeSlots(cfg.asked, cfg.layout.Size)
	if err != nil {
		return nil, err
	}
	s.arriving.Add(1)
	defer s.arriving.Add(-1)
	newRing := ring.NewPrivate
	if cfg.shared {
		newRing = ring.New
	}
	if sess.ring, err = newRing(slots, cfg.layout.Size); err != nil {
		s.memory.give(int64(slots) * cfg.layout.Size)
		return nil, err
	}
	for i := range slots {
		sess.slots = append(sess.slots, viewSlot(i, sess.ring.Bytes(i), cfg.layout))
	}
	sess.lentAt = make([]atomic.Int64, slots)
	if s.tracer != nil {
		sess.traces = make(traces.Slots, slots)
	}
	sess.slotPool = loader.NewSlotPool(sess.slots...)
	c.session.Store(sess)
	return sess, nil
}

// close ends the running epoch and frees the ring.
func (s *session) close() {
	s.stopEpoch()
	for slot := range s.traces {
		s.traces.End(slot, false)
	}
	s.shutRing()
	selected := s.selectionBytes
	s.dropSelection()
	giveBack(selected)
	s.server.gallery.forget(s.connection.id)
	s.letGo(s.set)
}

// letGo drops a set that this session has held.
func (s *session) letGo(set *openSet) {
	if err := set.drop(); err != nil {
		s.server.log.Error("closing a set failed", "err", err)
	}
}

// successor returns the set that takes the place of the session's after a reload, held: the session's own, not held once more, where
// there is none.
func (s *session) successor() *openSet {
	set := s.server.catalog.Load().sets[s.split]
	if set == nil || set == s.set || !set.serves(s.set) || !set.hold() {
		return s.set
	}
	return set
}

// follow takes the place of the session's set by another one that it holds. No epoch runs.
func (s *session) follow(set *openSet) (err error) {
	if set == s.set {
		return nil
	}
	samples, err := loader.FromShards(set.Set)
	if err != nil {
		s.letGo(set)
		return err
	}
	s.letGo(s.set)
	s.set, s.samples = set, samples
	return nil
}

// opened returns the reply to the open request.
func (s *session) opened() openedReply {
	m := s.set.Manifest()
	o := openedReply{
		Session: s.connection.id, Split: s.split, Samples: s.set.Len(), Fingerprint: m.Fingerprint, Rank: s.plan.Rank, World: s.plan.World,
		Slots: s.ring.Slots(), SlotBytes: s.layout.Size, Arrays: s.layout.Arrays, Notes: s.notes(),
	}
	if s.shared {
		o.RingBytes = int64(s.ring.Slots()) * s.layout.Size // of the file: slots may have been given up already
	}
	return o
}

// notes are sentences for the user, to be shown once.
func (s *session) notes() []string {
	notes := []string{}
	if s.notBitExact != "" {
		notes = append(notes, s.notBitExact)
	}
	if partitions := s.set.Partitions(); partitions > 1 && s.plan.World > 1 && s.plan.World != partitions {
		notes = append(notes, fmt.Sprintf("the set has %d partitions and the world %d ranks: every rank may read from several partitions, so all of them must stay here",
			partitions, s.plan.World))
	}
	return notes
}

func (s *session) transport() string {
	if s.shared {
		return transportShm
	}
	return transportSocket
}

func (s *session) imageLayout() transform.Layout {
	if s.nchw {
		return transform.NCHW
	}
	return transform.NHWC
}

// count notes what was delivered.
func (s *session) count(d delivery) {
	s.tally.add(d)
	s.totals.add(d)
}

package server

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/imgfeed/imgfeed/loader"
	"github.com/imgfeed/imgfeed/loader/plan"
	"github.com/imgfeed/imgfeed/server/status"
	"github.com/imgfeed/imgfeed/transform"
)

// A session is what an open request has set up: a set, a transform and a ring, from which epoch after epoch is served.
type session struct {
	openConfig
	*slots
	connection *connection
	server     *Server
	samples    loader.Dataset

	generation atomic.Uint64 // number of the last epoch
	epoch      *epoch        // the running epoch

	selectionBytes int64 // memory reserved for plan.Selection

	counts              status.Counts // deliveries since the session was opened
	batchWait, slotHeld prometheus.Observer

	gallery gallery

	stream atomic.Pointer[loader.Stream] // stream of the running epoch; nil between epochs
	made   atomic.Pointer[madeEpoch]     // the epoch before the running one, until that begins
	lookMu sync.Mutex                    // held to look for the stream and its set, to take the stream away, and to take another set
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
	sess = &session{openConfig: cfg, connection: c, server: s,
		batchWait: s.totals.batchWait.WithLabelValues(cfg.Split), slotHeld: s.totals.slotHeld.WithLabelValues(cfg.Split)}
	if sess.samples, err = loader.FromShards(cfg.set.Set); err != nil {
		return nil, err
	}
	if cfg.buckets != nil {
		sess.selectionBytes, _ = plan.SelectionBytes(cfg.set.Len(), 0)
		if err := s.memory.reserve(sess.selectionBytes); err != nil {
			return nil, err
		}
		defer func() {
			if err != nil {
				s.memory.give(sess.selectionBytes)
			}
		}()
	}
	n, err := s.takeSlots(cfg.Slots, cfg.layout.Size)
	if err != nil {
		return nil, err
	}
	if sess.slots, err = newSlots(n, cfg.layout.Size, cfg.shared, &s.memory, c.log); err != nil {
		return nil, err
	}
	sess.lay(cfg.layout)
	c.session.Store(sess)
	return sess, nil
}

// close ends the running epoch and frees the ring.
func (s *session) close() {
	s.stopEpoch()
	s.slots.close()
	s.dropSelection()
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
	set := s.server.catalog.Load().sets[s.Split]
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
	s.lookMu.Lock()
	defer s.lookMu.Unlock()
	s.set, s.samples = set, samples
	return nil
}

// served returns the session's set, for those who look on.
func (s *session) served() *openSet {
	s.lookMu.Lock()
	defer s.lookMu.Unlock()
	return s.set
}

// opened returns the reply to the open request.
func (s *session) opened() openedReply {
	m := s.set.Manifest()
	o := openedReply{
		Session: s.connection.id, Split: s.Split, Samples: s.set.Len(), Fingerprint: m.Fingerprint, Rank: s.plan.Rank, World: s.plan.World,
		Slots: s.ring.Slots(), SlotBytes: s.slotBytes, Arrays: s.layout.Arrays, Notes: s.notes(), Positions: s.positions(),
	}
	if s.shared {
		o.RingBytes = s.ring.Size()
	}
	return o
}

// notes are sentences for the user, to be shown once.
func (s *session) notes() []string {
	notes := append(append([]string{}, s.server.cfg.Notes...), s.views.Notes()...)
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

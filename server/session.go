package server

import (
	"fmt"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/imgfeed/imgfeed/loader"
	"github.com/imgfeed/imgfeed/loader/plan"
	"github.com/imgfeed/imgfeed/server/internal/ring"
	"github.com/imgfeed/imgfeed/server/status"
)

// A session is what an open request has set up: a set, a transform and a ring, from which epoch after epoch is served.
//
// It belongs to the goroutine of its connection. While an epoch runs, that goroutine changes nothing that the epoch's goroutine reads.
// Everybody else loads the snapshot. Each slot is free, in slotPool; or in a batch of the stream; or lent to the client by the ring.
// Until close, the session holds a use of its set and the memory of its ring and its selection.
type session struct {
	openConfig
	connection *connection
	server     *Server

	ring      *ring.Ring
	slotBytes int64
	slots     []*loader.Slot   // the arrays in the ring
	slotPool  *loader.SlotPool // the free slots

	generation uint64 // number of the last epoch
	epoch      *epoch // the running epoch; nil between epochs

	selectionBytes int64 // memory reserved for plan.Selection

	counts              status.Counts // deliveries since the session was opened
	batchWait, slotHeld prometheus.Observer

	gallery  gallery
	snapshot atomic.Pointer[snapshot]
}

// A snapshot is what the status, the metrics and the gallery know of a session. It never changes: the session's goroutine, or the one of
// its running epoch, publishes another one. Its set may be closed meanwhile: whoever reads from it acquires it first.
type snapshot struct {
	set       *openSet
	fields    *loader.Fields
	transform string
	views     int
	batchSize int
	stream    *loader.Stream // stream of the running epoch, or of the last one if all its batches were sent
	sends     bool           // the stream has batches to send
}

// publish publishes a snapshot of the session as it is now, with the stream of an epoch.
func (s *session) publish(stream *loader.Stream, sends bool) {
	s.snapshot.Store(&snapshot{s.set, s.fields, s.viewsText, len(s.views), s.plan.BatchSize, stream, sends})
}

// count counts what was delivered.
func (s *session) count(c status.Counts) { s.server.totals.Add(s.Split, &s.counts, c) }

// newSession sets up what an open request asks for, as the connection's session.
func (s *Server) newSession(c *connection, m openRequest) (_ *session, err error) {
	sess := &session{openConfig: openConfig{openRequest: m}, connection: c, server: s}
	if sess.set, err = s.chooseSet(&sess.Split); err != nil {
		return nil, err
	}
	defer func() {
		if c.session.Load() != sess { // after a panic too
			sess.close()
		}
	}()
	if err = sess.readChoices(); err == nil {
		err = sess.readOutput(s)
	}
	if err == nil {
		err = sess.reserve()
	}
	if err != nil {
		return nil, err
	}
	sess.batchWait, sess.slotHeld = s.totals.BatchWait.WithLabelValues(sess.Split), s.totals.SlotHeld.WithLabelValues(sess.Split)
	sess.publish(nil, false)
	c.session.Store(sess)
	return sess, nil
}

// reserve reserves the memory of a session, which close releases.
func (s *session) reserve() (err error) {
	memory := &s.server.memory
	if s.buckets != nil {
		selection, _ := plan.SelectionBytes(s.set.Len(), 0)
		if err := memory.reserve(selection); err != nil {
			return err
		}
		s.selectionBytes = selection
	}
	s.slotBytes = s.slotLayout.Size
	n, err := s.server.reserveRing(s.Slots, s.slotBytes)
	if err != nil {
		return err
	}
	if s.ring, err = ring.New(n, s.slotBytes, s.shared); err != nil {
		memory.release(int64(n) * s.slotBytes)
		return err
	}
	for i := range n {
		s.slots = append(s.slots, &loader.Slot{ID: i})
	}
	s.slotPool = loader.NewSlotPool(s.slots...)
	s.viewSlots()
	return nil
}

// viewSlots lays the arrays of a batch over the slots' memory. No epoch runs.
func (s *session) viewSlots() {
	for i, slot := range s.slots {
		*slot = *viewSlot(i, s.ring.Bytes(i), s.slotLayout)
	}
}

// close ends the running epoch and releases what the session has.
func (s *session) close() {
	s.stopEpoch()
	if s.ring != nil {
		size := s.ring.Size()
		if err := s.ring.Close(); err != nil {
			s.connection.log.Error("freeing a ring failed", "err", err)
		}
		s.server.memory.release(size)
	}
	s.dropSelection()
	s.set.release()
}

// notes are sentences for the user, to be shown once.
func (s *session) notes() []string {
	notes := append([]string{}, s.server.cfg.Notes...)
	if s.notBitExact != "" && s.views.OutputBytes() > 3 { // clients that want no images of batches ask for a pixel
		notes = append(notes, s.notBitExact)
	}
	if partitions := s.set.Partitions(); partitions > 1 && s.plan.World > 1 && s.plan.World != partitions {
		notes = append(notes, fmt.Sprintf("the set has %d partitions and the world %d ranks: every rank may read from several "+
			"partitions, so all of them must stay here", partitions, s.plan.World))
	}
	return notes
}

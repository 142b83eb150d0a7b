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
// Who may use it:
//
//   - The goroutine of its connection owns it: it alone opens, changes and closes it.
//   - The goroutine of an epoch reads it without a lock, from start until stopEpoch has returned. The owner changes nothing meanwhile that
//     this one reads: set, output, fields and batch size change only between two epochs.
//   - Everybody else loads the snapshot, and reads what stays as it was opened: split, rank, world, transport, the number of slots.
//
// What holds until close:
//
//   - The session holds one use of its set, and has reserved the memory of its ring and of its selection.
//   - Each slot is free, in slotPool; or in a batch of the stream; or with the epoch's goroutine, to be sent; or lent to the client by the
//     ring. Only the client's release makes a lent slot free again.
type session struct {
	openConfig
	connection *connection
	server     *Server

	ring      *ring.Ring
	slotBytes int64
	slots     []*loader.Slot   // the arrays in the ring
	slotPool  *loader.SlotPool // the free slots

	generation uint64 // number of the last epoch
	epoch      *epoch // the running epoch, or one that has ended and was not stopped yet; nil without one

	selectionBytes int64 // memory reserved for plan.Selection

	counts              status.Counts // deliveries since the session was opened; guarded by the server's totals
	batchWait, slotHeld prometheus.Observer

	gallery  gallery
	snapshot atomic.Pointer[snapshot] // never nil once the connection has the session
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

// newSession sets up what an open request asks for, as the connection's session. Others see it only once it is complete. If something
// fails on the way, close releases what it holds by then.
func (s *Server) newSession(c *connection, m openRequest) (_ *session, err error) {
	sess := &session{openConfig: openConfig{openRequest: m}, connection: c, server: s}
	if sess.set, err = s.chooseSet(&sess.Split); err != nil {
		return nil, err
	}
	defer func() {
		if c.session.Load() != sess { // This also runs after a panic.
			sess.close()
		}
	}()
	if err = sess.reserveBuckets(); err == nil {
		err = sess.readChoices()
	}
	if err == nil {
		err = sess.readOutput(s)
	}
	if err == nil {
		err = sess.reserveRing()
	}
	if err != nil {
		return nil, err
	}
	sess.batchWait, sess.slotHeld = s.totals.BatchWait.WithLabelValues(sess.Split), s.totals.SlotHeld.WithLabelValues(sess.Split)
	sess.publish(nil, false)
	c.session.Store(sess)
	return sess, nil
}

// reserveBuckets reserves the memory of the buckets' selection, before the selection is made. close releases it.
func (s *session) reserveBuckets() error {
	if len(s.Buckets) == 0 {
		return nil
	}
	selection, _ := plan.SelectionBytes(s.set.Len(), 0)
	if err := s.server.memory.reserve(selection); err != nil {
		return err
	}
	s.selectionBytes = selection
	return nil
}

// reserveRing reserves the memory of the ring, first in the server's budget and then of the machine. close releases it.
func (s *session) reserveRing() (err error) {
	memory := &s.server.memory
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

// viewSlots lays the arrays of a batch over the slots' memory. No epoch runs. The client may still hold lent slots: their bytes stay.
func (s *session) viewSlots() {
	for i, slot := range s.slots {
		*slot = *viewSlot(i, s.ring.Bytes(i), s.slotLayout)
	}
}

// close ends the running epoch and releases the session's set, ring and memory. The order matters: no worker writes to the ring once the
// epoch has ended, and nothing reads the set. The owner calls it once, when nobody finds the session through its connection any more.
// Who found it before may still count its slots.
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

package server

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/imgfeed/imgfeed/internal/termsafe"
	"github.com/imgfeed/imgfeed/loader"
	"github.com/imgfeed/imgfeed/loader/plan"
	"github.com/imgfeed/imgfeed/server/feeder"
	"github.com/imgfeed/imgfeed/server/status"
)

// startRequest begins an epoch, and ends the one that runs.
type startRequest struct {
	Epoch    int64 `json:"epoch"`
	Consumed int64 `json:"consumed,omitempty"` // samples that all ranks together have had of this epoch
}

// startedReply answers [startRequest]. Every batch and end that follows it, and every error of the epoch, carries its generation; none of
// an older generation comes after it, as the older epoch has ended by then.
type startedReply struct {
	Epoch      int64  `json:"epoch"`
	Batches    int    `json:"batches"` // batches of this rank from consumed on
	Generation uint64 `json:"generation"`
}

// batchMessage delivers one batch in a slot, which belongs to the client until it releases the slot. If the transport is the
// socket, Bytes raw bytes follow the message: the arrays in their order, without gaps.
type batchMessage struct {
	Generation uint64 `json:"generation"`
	Batch      int    `json:"batch"` // 0-based, from consumed on
	Count      int    `json:"count"` // samples; fewer than batch_size only in the last batch
	Slot       *int   `json:"slot,omitempty"`
	Bytes      int64  `json:"bytes,omitempty"`
	Consumed   int64  `json:"consumed"` // the consumed of a start that goes on after this batch
	// Bad are the samples that could not be served, by position.
	Bad   []badPosition `json:"bad,omitempty"`
	Shape []int         `json:"shape,omitempty"` // shape of one image, in a session with buckets; every image has the room of the largest
}

// A badPosition is a position in a batch whose sample could not be served.
type badPosition struct {
	Position int `json:"place"`
	status.BadSample
}

// endMessage says that the epoch's last batch has been sent.
type endMessage struct {
	Generation uint64 `json:"generation"`
	Epoch      int64  `json:"epoch"`
}

// releaseRequest gives a slot back. It has no reply.
type releaseRequest struct {
	Slot int `json:"slot"`
}

// stopRequest ends the running epoch, if any. It has no reply: batches on their way still arrive, and the client must release them.
type stopRequest struct {
	Generation uint64 `json:"generation,omitempty"` // the epoch to end, so that a late request ends no later one; 0 is the running one
}

// An epoch is one start request at work: a goroutine that takes finished batches from the loader and sends them.
//
// A session has one at most. It ends by itself, after its last batch or an error, or because the session's owner cancels it. In each case
// the goroutine closes the stream and then done. From then on no worker touches a slot, nothing more is sent of this generation, and the
// session's other goroutine may change what the epoch has read.
type epoch struct {
	session    *session
	stream     *loader.Stream
	generation uint64
	number     int64

	cancel context.CancelFunc
	done   chan struct{} // closed when nothing of the epoch is under way any more

	// Of the goroutine alone:
	slotWait time.Duration // the stream's wait that is counted already
	parts    [][]byte      // memory for the parts of a batch that goes through the socket
}

// start ends the running epoch and begins another. The client has the reply before the first batch, as the goroutine that sends batches
// begins after it.
func (s *session) start(m startRequest) error {
	st, p, err := s.newStream(m)
	if err != nil {
		return err
	}
	s.generation++
	if err := s.connection.send(startedReply{Epoch: m.Epoch, Batches: p.Batches(), Generation: s.generation}); err != nil {
		st.Close()
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.epoch = &epoch{session: s, stream: st, generation: s.generation, number: m.Epoch, cancel: cancel, done: make(chan struct{})}
	s.publish(st, true)
	s.connection.log.Debug("epoch started", "epoch", m.Epoch, "consumed", m.Consumed, "batches", p.Batches(), "generation", s.generation)
	go s.epoch.run(ctx)
	return nil
}

// newStream ends the running epoch and begins another, once the request is known to be sound: one that fails changes nothing.
//
// It follows a reload. The session then holds a use of both sets for a moment: it acquires the catalog's before it stops the epoch, and
// releases the other one after that, when nothing reads from it any more.
func (s *session) newStream(m startRequest) (*loader.Stream, *plan.Plan, error) {
	cfg := s.plan
	cfg.Epoch, cfg.Consumed = int(m.Epoch), int(m.Consumed)
	p, err := plan.New(cfg)
	if err != nil {
		return nil, nil, err
	}
	set, err := s.server.chooseSet(&s.Split) // a reload may have replaced the session's
	if err != nil {
		return nil, nil, err
	}
	defer func() { set.release() }() // the one that the session does not read
	if err := checkPlan(set.Set, p); err != nil {
		return nil, nil, err
	}
	s.stopEpoch()
	s.set, set = set, s.set
	s.publish(nil, false)
	st, err := s.server.pool.NewStream(loader.StreamConfig{
		Dataset: s.set.Dataset, Plan: p, Views: s.views, Sized: s.sized, Layout: s.imageLayout, OnError: s.onErr, Bad: s.noteBad,
		Fields: s.fields, Slots: s.slotPool, Log: s.connection.log, Offer: s.offer(),
	})
	return st, p, err
}

// noteBad has the status show a bad sample. Workers and the epoch's goroutine call it, several at a time.
func (s *session) noteBad(bad loader.BadSample) {
	s.server.totals.AddBad(s.server.moment(time.Now()), s.Split, bad)
}

// stop ends the running epoch, unless the request names an older one, which has ended already.
func (s *session) stop(m stopRequest) error {
	if m.Generation == 0 || m.Generation == s.generation {
		s.stopEpoch()
	}
	return nil
}

// stopEpoch ends the running epoch, if any, and waits until nothing of it is under way. A client that does not read holds it up only until
// its connection is closed.
func (s *session) stopEpoch() {
	if s.epoch != nil {
		s.epoch.cancel()
		<-s.epoch.done
		s.epoch = nil
	}
}

// release takes a slot back from the client. The ring goes first: it refuses a slot that is not lent, so that a client can neither free one
// twice nor one that workers fill. In the pool it may be taken for the next batch at once.
func (s *session) release(m releaseRequest) error {
	if !s.shared {
		return badRequest("release: batches of this session come through the socket, there are no slots to release")
	}
	held, err := s.ring.Release(m.Slot)
	if err != nil {
		return err
	}
	s.slotHeld.Observe(held.Seconds())
	s.slotPool.Put(s.slots[m.Slot])
	return nil
}

// run sends batches until the epoch ends, in one way or the other. It is the epoch's goroutine. The stream ends first, so that all slots
// are free or lent; then lookers learn of it; then the client, if it is an error that it can know of.
func (e *epoch) run(ctx context.Context) {
	defer close(e.done)
	defer e.cancel()
	s, c := e.session, e.session.connection
	err := feeder.Guard(c.log, func() error { return e.push(ctx) })
	e.stream.Close()                           // puts the slots back that were not sent
	if last := s.snapshot.Load(); last.sends { // it ends early
		s.publish(nil, false)
	}
	stopped := ctx.Err() != nil || errors.Is(err, loader.ErrClosed)
	gone := errors.Is(err, net.ErrClosed) || is[*net.OpError](err)
	if err == nil || stopped || gone { // serve reads the client's last words, and then meets the same
		return
	}
	if bad, found := errors.AsType[*loader.SampleError](err); found {
		s.noteBad(loader.BadSample{SampleError: bad, By: -1})
	}
	c.server.totals.AddError(kindOf(err))
	c.log.Warn("epoch failed", "epoch", e.number, "err", err)
	c.send(errorMessage{ErrKind: kindOf(err), Message: termsafe.Message(err.Error()), Generation: e.generation})
}

// push sends one batch after the other, and end after the last. It waits either for the loader, which the context ends, or for the client,
// which closing the connection ends.
func (e *epoch) push(ctx context.Context) error {
	for {
		started := time.Now()
		b, err := e.stream.Next(ctx)
		if err == io.EOF {
			e.session.publish(e.stream, false)
			return e.session.connection.send(endMessage{Generation: e.generation, Epoch: e.number})
		}
		if err != nil {
			return err
		}
		took := time.Since(started)
		if err := e.sendBatch(b, took); err != nil {
			return err
		}
	}
}

// sendBatch delivers one batch, which was waited for so long. Its slot is then the client's, or, on the socket, free again. What the client
// may ask for or do once it has the message is prepared before that is sent.
func (e *epoch) sendBatch(b loader.Batch, nextTook time.Duration) error {
	s := e.session
	slot, size := b.Slot.ID, int64(b.Count)*s.slotLayout.SampleBytes
	m := batchMessage{Generation: e.generation, Batch: b.Number, Count: b.Count, Consumed: int64(b.Consumed)}
	for _, bad := range b.Bad {
		m.Bad = append(m.Bad, badPosition{bad.Position, status.NewBadSample(bad)})
	}
	if s.buckets != nil {
		m.Shape = s.imageShape(s.buckets[e.stream.Plan().Bucket(b.Number)])
	}
	s.count(status.CountsOf(b, size)) // first, since the client may ask once it knows
	started := time.Now()
	if s.shared {
		m.Slot = &slot
		s.ring.Lend(slot) // first, since the client may release the slot
		if err := s.connection.send(m); err != nil {
			return err
		}
	} else {
		defer s.slotPool.Put(b.Slot)
		m.Bytes = size
		e.parts = s.slotLayout.AppendParts(e.parts[:0], s.ring.Bytes(slot), b.Count)
		if err := s.connection.send(m, e.parts...); err != nil {
			return err
		}
	}
	slotWait := e.stream.Stats().SlotWait - e.slotWait
	e.slotWait += slotWait
	s.count(status.Counts{Write: time.Since(started).Seconds(), SlotWait: slotWait.Seconds()})
	s.batchWait.Observe(max(0, nextTook-slotWait).Seconds())
	return nil
}

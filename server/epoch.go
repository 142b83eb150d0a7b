package server

import (
	"context"
	"errors"
	"io"
	"net"
	"runtime/debug"
	"time"

	"github.com/imgfeed/imgfeed/internal/wire"
	"github.com/imgfeed/imgfeed/loader"
)

// An epoch is one start request at work: a goroutine that takes finished batches from the loader and sends them.
type epoch struct {
	session    *session
	feed       *feed
	stream     *loader.Stream
	generation uint64
	number     int64

	cancel context.CancelFunc
	done   chan struct{} // closed when nothing of the epoch is under way any more

	slotWait time.Duration // of the stream, already counted
	blank    []int
}

// start ends the running epoch and begins another.
func (s *session) start(f *feed, m wire.StartRequest) error {
	st, p, err := f.checkedStart(m, s.stopEpoch)
	if err != nil {
		return err
	}
	s.generation++
	if err := s.send(wire.Started{Epoch: m.Epoch, Batches: p.Batches(), Generation: s.generation}); err != nil {
		st.Close()
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	e := &epoch{session: s, feed: f, stream: st, generation: s.generation, number: m.Epoch, cancel: cancel, done: make(chan struct{})}
	f.stream.Store(st)
	s.epoch = e
	s.log.Debug("epoch started", "epoch", m.Epoch, "consumed", m.Consumed, "batches", p.Batches(), "generation", s.generation)
	go e.run(ctx)
	return nil
}

// run sends batches until the epoch ends, in one way or the other.
func (e *epoch) run(ctx context.Context) {
	defer close(e.done)
	defer e.cancel()
	err := e.push(ctx)
	e.stream.Close() // puts the slots back that were not sent
	e.feed.stream.Store(nil)
	switch {
	case err == nil || ctx.Err() != nil || errors.Is(err, loader.ErrClosed):
	case errors.Is(err, net.ErrClosed) || is[*net.OpError](err):
		// The connection is gone, and the session's reader will notice or has noticed. To be sure:
		e.session.conn.Close()
	default:
		e.session.server.totals.countError(kindOf(err))
		e.session.log.Warn("epoch failed", "epoch", e.number, "err", err)
		e.session.send(wire.Error{ErrKind: kindOf(err), Message: err.Error(), Generation: e.generation})
	}
}

// push sends one batch after the other, and end behind the last. A panic is our bug; it costs this epoch and no other.
func (e *epoch) push(ctx context.Context) (err error) {
	defer func() {
		if p := recover(); p != nil {
			e.session.log.Error("panic", "value", p, "stack", string(debug.Stack()))
			err = bugError(p)
		}
	}()
	for {
		b, err := e.stream.Next(ctx)
		if errors.Is(err, io.EOF) {
			return e.session.send(wire.End{Generation: e.generation, Epoch: e.number})
		}
		if err != nil {
			return err
		}
		if err := e.sendBatch(b); err != nil {
			return err
		}
	}
}

// sendBatch delivers one batch. Its slot is then the client's, or, on the socket, free again.
func (e *epoch) sendBatch(b loader.Batch) error {
	f := e.feed
	slot, size := b.Slot.ID, f.layout.BatchBytes(b.Count)
	m := wire.Batch{Generation: e.generation, Batch: b.Number, Count: b.Count, Consumed: int64(b.Consumed), Blank: e.blankPlaces(b)}
	f.count(b, size) // before the client can know of it and ask
	started := time.Now()
	if f.shared {
		m.Slot = &slot
		f.ring.Lend(slot) // for the same reason: it may release it
		if err := e.session.send(m); err != nil {
			return err
		}
	} else {
		defer f.supply.Put(b.Slot)
		m.Bytes = size
		images, labels, indices, params := f.layout.Arrays(f.ring.Bytes(slot), b.Count)
		if err := e.session.send(m, images, labels, indices, params); err != nil {
			return err
		}
	}
	waited := e.stream.Stats().SlotWait
	f.countTimes(time.Since(started), waited-e.slotWait)
	e.slotWait = waited
	return nil
}

// blankPlaces returns the places of the samples that could not be read.
func (e *epoch) blankPlaces(b loader.Batch) []int {
	if b.Blank == 0 {
		return nil
	}
	e.blank = e.blank[:0]
	for i, label := range b.Slot.Labels[:b.Count] {
		if label == loader.BlankLabel {
			e.blank = append(e.blank, i)
		}
	}
	return e.blank
}

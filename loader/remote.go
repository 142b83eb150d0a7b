package loader

import (
	"cmp"
	"context"

	"github.com/imgfeed/imgfeed/loader/readahead"
)

// PieceSamplesMax is how many samples a piece has at most.
const PieceSamplesMax = 64

// A Remote makes pieces of batches somewhere else, for [Pool.ServeRemote]: a connection to another machine, for instance. Its methods
// are called by one goroutine at a time, but Takes, which must not block.
type Remote interface {
	// Takes reports whether the remote makes the samples of streams with this [StreamConfig].Offer.
	Takes(offer any) bool
	// Samples is how many samples the next piece is to have at most, 1 to PieceSamplesMax.
	Samples() int
	// Make makes a piece and sets made[i] for each sample i that it has written. After an error no sample counts as made; the remote
	// must have stopped writing to the slot by then, and gets no further piece.
	Make(p *Piece, made []bool) error
}

// A Piece is some samples of a batch in a row. Their results go to a slot.
type Piece struct {
	Offer       any // the stream's
	Seed        int64
	Epoch       int
	Slot        *Slot
	First       int   // position in the slot of the first sample
	Indices     []int // the samples
	Repetitions []int // theirs; empty where no sample is repeated
}

// Repetition returns which one of its sample's repetitions the i-th sample is.
func (p *Piece) Repetition(i int) int {
	if len(p.Repetitions) == 0 {
		return 0
	}
	return p.Repetitions[i]
}

// part returns a part of the piece.
func (p *Piece) part(first, end int) Piece {
	part := *p
	part.First, part.Indices = p.First+first, p.Indices[first:end]
	if len(p.Repetitions) > 0 {
		part.Repetitions = p.Repetitions[first:end]
	}
	return part
}

// ServeRemote gives turns to a remote as to a worker, until it fails, ctx ends or the pool is closed, and returns why. A remote takes
// samples that local workers have not reached: see [PoolConfig]. The pool makes what the remote could not, so batches are the same with
// any number of remotes, even if they fail.
func (p *Pool) ServeRemote(ctx context.Context, r Remote) error {
	defer p.scheduler.join(r)()
	defer context.AfterFunc(ctx, p.scheduler.wake)()
	run := remoteRun{pool: p, remote: r, ctx: ctx}
	for t := (turn{}); ; {
		if t = p.scheduler.next(&run, t, &run.counters); t.work == nil {
			return cmp.Or(run.err, ctx.Err(), ErrClosed)
		}
		run.work(t.work.(*pendingBatch))
	}
}

// A remoteRun is what ServeRemote keeps from piece to piece. It is the remote's taker.
type remoteRun struct {
	pool   *Pool
	remote Remote
	ctx    context.Context
	err    error // the remote's error
	piece  Piece
	made   [PieceSamplesMax]bool
	counters
}

func (r *remoteRun) takes(q *streamQueue, w work) bool {
	return w.ForRemotes() && q.behindLocked() && r.remote.Takes(q.offer)
}
func (r *remoteRun) makes(*streamQueue) bool { return false }
func (r *remoteRun) over() bool              { return r.err != nil || r.ctx.Err() != nil }

// work lets the remote make a piece of a batch.
func (r *remoteRun) work(b *pendingBatch) {
	first, end := b.TakeLast(min(max(1, r.remote.Samples()), PieceSamplesMax))
	if !b.ForRemotes() {
		r.pool.scheduler.landed() // workers that stand by may take what is at hand now
	}
	if first == end {
		return
	}
	r.piece = b.Piece.part(first, end)
	made := r.made[:end-first]
	clear(made)
	if r.err = r.remote.Make(&r.piece, made); r.err != nil {
		clear(made)
	}
	if finished := b.complete(first, made); finished > 0 && b.stream.ctx.Err() == nil {
		b.finish(finished)
	}
}

// complete names the samples that a remote has made, and leaves the others to the workers. It returns the number of the former.
func (b *pendingBatch) complete(first int, made []bool) (finished int) {
	for i, done := range made {
		position := first + i
		if done {
			b.Slot.name(position, b.Indices[position], b.Repetition(position))
			finished++
		} else {
			b.Again(&readahead.Sample{Position: position}, b.Indices[position])
		}
	}
	return finished
}

// Make makes a piece for a stream of another machine: it is the other end of a [Remote]. It makes the piece as a stream does that has
// the set, views, layout and fields of cfg, and sets made[i] for each sample that it could make. It returns an error only if ctx has ended
// or the pool is closed.
func (p *Pool) Make(ctx context.Context, cfg *StreamConfig, piece *Piece, made []bool) error {
	s := &Stream{pool: p, cfg: *cfg, order: make(chan *pendingBatch, 1), spare: make(chan *pendingBatch, 1)}
	s.cfg.OnError, s.cfg.Slots, s.cfg.Offer = leave, NewSlotPool(), nil
	if err := s.open(ctx, 1, func(_ int, buf []int) []int { return append(buf[:0], piece.Indices...) }); err != nil {
		return err
	}
	b := &pendingBatch{Piece: *piece, stream: s, views: cfg.Views, done: make(chan struct{}, 1)}
	s.publish(b)
	select {
	case <-b.done:
		for i := range made {
			made[i] = true
		}
	case <-s.ctx.Done():
	}
	s.cancel()
	p.scheduler.close(s.queue)
	for _, bad := range b.bads {
		made[bad.Position] = false
	}
	if made[0] || len(b.bads) > 0 || s.failed.Load() != nil {
		return nil
	}
	return cmp.Or(ctx.Err(), ErrClosed)
}

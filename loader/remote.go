package loader

import (
	"cmp"
	"context"
	"sync/atomic"

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

// A Piece is some samples of a batch in a row. Their results have a place in a slot.
type Piece struct {
	Offer       any // the stream's
	Seed        int64
	Epoch       int
	Slot        *Slot
	First       int   // the place in the slot of the first sample
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

// ServeRemote gives a remote turns as a worker has, until it fails, ctx ends or the pool is closed, and returns why. A remote takes
// samples that local workers have not reached: see [PoolConfig]. The pool makes what the remote could not, so batches are the same with
// any number of remotes, also where they fail.
func (p *Pool) ServeRemote(ctx context.Context, r Remote) error {
	defer p.scheduler.join(r)()
	defer context.AfterFunc(ctx, p.scheduler.wake)()
	run := remoteRun{pool: p, remote: r, ctx: ctx}
	for t := (turn{}); ; {
		if t = p.scheduler.next(&run, t, &run.waited); t.work == nil {
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
	waited atomic.Int64
	worker *worker // makes samples that the remote did not; nil before the first
	piece  Piece
	made   [PieceSamplesMax]bool
}

func (r *remoteRun) takes(q *streamQueue) bool { return q.behindLocked() && r.remote.Takes(q.offer) }
func (r *remoteRun) over() bool                { return r.err != nil || r.ctx.Err() != nil }

// work lets the remote make a piece of a batch.
func (r *remoteRun) work(b *pendingBatch) {
	first, end := b.take(min(max(1, r.remote.Samples()), PieceSamplesMax), true)
	if first == end {
		return
	}
	r.piece = b.Piece.part(first, end)
	made := r.made[:end-first]
	clear(made)
	if r.err = r.remote.Make(&r.piece, made); r.err != nil {
		clear(made)
	}
	if b.stream.ctx.Err() == nil && r.complete(b, first, made) {
		b.finish(end - first)
	}
}

// complete makes the samples that the remote has not made. It returns false when the stream has ended before.
func (r *remoteRun) complete(b *pendingBatch, first int, made []bool) bool {
	for i, done := range made {
		position := first + i
		if done {
			b.Slot.name(position, b.Indices[position], b.Repetition(position))
			continue
		}
		if b.stream.ctx.Err() != nil {
			return false
		}
		if r.worker == nil {
			r.worker = r.pool.newWorker(r.pool.counters[len(r.pool.counters)-1])
		}
		b.make(r.worker, position, reading{view: true, next: -1})
		r.worker.publish()
	}
	return true
}

// Make makes a piece for a stream of another machine: it is the other end of a [Remote]. It makes the piece as a stream does that has
// the set, views, layout and fields of cfg, and sets made[i] for each sample that it could make. The reads of all its samples begin at
// once, so that a bucket's delay is paid once. It returns an error only if ctx has ended or the pool is closed.
func (p *Pool) Make(ctx context.Context, cfg *StreamConfig, piece *Piece, made []bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	queue := p.ahead.Open(ctx, readahead.Config{
		Set: cfg.Dataset, Batches: 1, BatchSize: len(piece.Indices), Batch: func(int, []int) []int { return piece.Indices },
	})
	queue.Await(true)
	return p.do(ctx, len(piece.Indices), func(w *worker, i int) error {
		queue.Begin(int64(i + 1))
		made[i] = w.make(cfg, cfg.Views, piece, i, piece.Indices[i], reading{queue: queue, number: int64(i), view: true, next: -1}) == nil
		w.publish()
		return nil
	})
}

// A reserve takes the turns that no remote takes, in a pool without threads.
type reserve struct {
	localWorker
	scheduler *scheduler
}

func (r reserve) takes(q *streamQueue) bool { return !r.scheduler.hasRemoteLocked(q) }

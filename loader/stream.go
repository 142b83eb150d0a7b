package loader

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/imgfeed/imgfeed/loader/plan"
	"github.com/imgfeed/imgfeed/loader/readahead"
	"github.com/imgfeed/imgfeed/transform"
)

// StreamConfig says what a stream serves and where to.
type StreamConfig struct {
	Dataset sampleSet       // a [*Dataset]
	Plan    *plan.Plan      // samples and their order; its seed and epoch also key the transform's draws
	Views   transform.Views // what becomes of each: one result, or several
	// Sized, if not nil, has the views of each of the plan's buckets. Views are then the largest of them, which a slot must hold.
	Sized  []transform.Views
	Layout transform.Layout
	// Fields are the fields of the set to deliver; nil: none.
	Fields *Fields
	// Offer describes the stream's samples to remotes, which alone read it. Nil: remotes get nothing of the stream.
	Offer any
	// OnError says what becomes of bad samples.
	OnError OnError
	// Bad, if not nil, is called for each sample served blank or replaced by a substitute, by several goroutines at a time.
	Bad func(BadSample)
	// Slots has the slots, each with room for a batch of the plan. The stream prepares as many batches ahead as it has slots.
	Slots *SlotPool
	// Log receives a line for each of these; nil means slog.Default().
	Log *slog.Logger
}

// viewsOf returns the views of a batch of the plan.
func (c *StreamConfig) viewsOf(batch int) transform.Views {
	if c.Sized == nil {
		return c.Views
	}
	return c.Sized[c.Plan.Bucket(batch)]
}

// A Batch is a finished batch in its slot. The slot belongs to the consumer until it is put back into its pool.
type Batch struct {
	Number   int // position in the plan, from 0
	Slot     *Slot
	Count    int         // samples in the slot
	Bad      []BadSample // samples that could not be served, by position
	Consumed int         // the plan's ConsumedAfter: samples of the epoch used by all ranks once each has had this batch
}

// A Stream prepares the batches of one plan and hands them out in order. Next is for one goroutine at a time; the other
// methods are safe for concurrent use.
type Stream struct {
	pool *Pool
	cfg  StreamConfig

	queue      *streamQueue
	ahead      *readahead.Queue
	ctx        context.Context // ends when the stream or its pool is closed
	cancel     context.CancelFunc
	order      chan *pendingBatch // published batches, in order; closed after the last
	dispatched chan struct{}      // closed when dispatch has returned
	spare      chan *pendingBatch // finished batches, kept for their memory

	mu   sync.Mutex    // Next's, and Close's once Next has returned
	head *pendingBatch // batch taken from order, not handed out
	err  error         // what Next returns from now on

	// Workers, readahead, dispatch and status pages share these. lastWanted only falls, to the first sample that ends the stream.
	failed     atomic.Pointer[SampleError] // its storage is down
	lastWanted atomic.Int64                // number of the last sample to make
	unfinished atomic.Int64                // published batches with unfinished samples
	slotWait   atomic.Int64                // ns

	lastMu  sync.Mutex  // guards the next two, for status pages; held for a moment, also while mu is
	batches int         // handed out
	lastBad []BadSample // bad samples of the last of them
}

// NewStream starts to prepare batches. The stream must be closed.
func (p *Pool) NewStream(cfg StreamConfig) (*Stream, error) {
	if cfg.Dataset == nil || cfg.Plan == nil || len(cfg.Views) == 0 || cfg.Slots == nil {
		return nil, errors.New("loader: a stream needs a set, a plan, a transform and a pool of slots")
	}
	cfg.Log = cmp.Or(cfg.Log, slog.Default())
	s := &Stream{
		pool: p, cfg: cfg,
		order: make(chan *pendingBatch, cap(cfg.Slots.free)), dispatched: make(chan struct{}),
		// A batch outside spare has a slot, or a worker about to leave it.
		spare: make(chan *pendingBatch, cap(cfg.Slots.free)+p.Threads()),
	}
	if err := s.open(context.Background(), cfg.Plan.Batches(), cfg.Plan.Batch); err != nil {
		return nil, err
	}
	go s.dispatch()
	return s, nil
}

// open begins the stream's part in the pool's work, and the reads of its batches.
func (s *Stream) open(ctx context.Context, batches int, batch func(k int, buf []int) []int) (err error) {
	s.lastWanted.Store(math.MaxInt64)
	s.ctx, s.cancel = context.WithCancel(ctx)
	offloadFirst := s.pool.reserve || cap(s.cfg.Slots.free) < offloadFirstSlots
	if s.queue, err = s.pool.scheduler.open(s.cancel, s.cfg.Offer, offloadFirst); err != nil {
		s.cancel()
		return err
	}
	s.ahead = s.pool.ahead.Open(s.ctx, readahead.Config{
		Set: s.cfg.Dataset, Batches: batches, Batch: batch, Landed: s.pool.scheduler.landed, Waits: s.cfg.Slots.reads.set, Down: s.down,
	})
	return nil
}

// down ends a stream whose storage has not answered for so long, with that error.
func (s *Stream) down(index int, after time.Duration) {
	s.failed.Store(newSampleError(s.cfg.Dataset, index, s.cfg.Dataset.Overdue(index, after)))
	s.cancel()
}

// closed is the error of a stream that was cancelled.
func (s *Stream) closed() error {
	if down := s.failed.Load(); down != nil {
		return down
	}
	return ErrClosed
}

// Next returns the next batch, waiting until it is finished. After the last batch it returns [io.EOF]. If the context ends first, it
// returns the context's error and the batch is not lost. When the stream or its pool was closed, it returns [ErrClosed]. When a batch
// holds a bad sample and OnError is [Fail], it returns a [*SampleError], and the stream is over.
func (s *Stream) Next(ctx context.Context) (Batch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return Batch{}, s.err
	}
	if s.head == nil {
		select {
		case b, more := <-s.order:
			if !more {
				if s.ctx.Err() != nil {
					return Batch{}, s.end(s.closed())
				}
				return Batch{}, s.end(io.EOF)
			}
			s.head = b
		case <-s.ctx.Done():
			return Batch{}, s.closed()
		case <-ctx.Done():
			return Batch{}, ctx.Err()
		}
	}
	select {
	case <-s.head.done:
	case <-s.ctx.Done():
		return Batch{}, s.closed()
	case <-ctx.Done():
		return Batch{}, ctx.Err()
	}
	if f := s.head.failure; f != nil {
		return Batch{}, s.end(f.err)
	}
	return s.handOut(), nil
}

// end has Next return err from now on.
func (s *Stream) end(err error) error {
	s.err = err
	return err
}

// handOut gives the finished batch at the head away.
func (s *Stream) handOut() Batch {
	b := s.head
	s.head = nil
	slices.SortFunc(b.bads, func(x, y BadSample) int { return x.Position - y.Position })
	batch := Batch{
		Number: b.number, Slot: b.Slot, Count: len(b.Indices), Bad: b.bads,
		Consumed: s.cfg.Plan.ConsumedAfter(b.number),
	}
	s.lastMu.Lock()
	s.batches, s.lastBad = b.number+1, b.bads
	s.lastMu.Unlock()
	b.Slot = nil
	b.release()
	return batch
}

// Close cancels the stream and waits until no worker touches the slots any more, at most the time of a sample or of a remote's piece.
// Then it puts all slots that were not handed out back into the pool.
func (s *Stream) Close() {
	s.cancel()
	<-s.dispatched
	s.pool.scheduler.close(s.queue)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end(ErrClosed)
	if s.head != nil {
		s.cfg.Slots.Put(s.head.Slot)
		s.head = nil
	}
	for b := range s.order {
		s.cfg.Slots.Put(b.Slot)
	}
}

// Stats describes the stream as it is now.
func (s *Stream) Stats() StreamStats {
	s.lastMu.Lock()
	defer s.lastMu.Unlock()
	return StreamStats{Batches: s.batches, SlotWait: time.Duration(s.slotWait.Load())}
}

// dispatch publishes one batch after the other as slots become free. It is a goroutine of the stream.
func (s *Stream) dispatch() {
	defer close(s.dispatched)
	defer close(s.order)
	s.ahead.Await(false)
	for number := range s.cfg.Plan.Batches() {
		slot := s.takeSlot()
		if slot == nil {
			return
		}
		s.publish(s.newBatch(number, slot))
	}
}

// publish gives a batch to workers and remotes.
func (s *Stream) publish(b *pendingBatch) {
	b.Batch = s.ahead.Publish(b.number, b.Indices, b.Batch)
	b.chunk = chunkFor(len(b.Indices), s.pool.Threads())
	b.unfinished.Store(int64(len(b.Indices)))
	b.holders.Store(2)
	if s.unfinished.Add(1) == 1 {
		s.cfg.Slots.idle.set(false)
	}
	s.pool.scheduler.publish(s.queue, b)
	s.order <- b // The channel has room for every slot.
}

// takeSlot waits for a free slot; nil means that the stream is cancelled.
func (s *Stream) takeSlot() *Slot {
	if s.ctx.Err() != nil {
		return nil
	}
	started := time.Now()
	defer func() { s.slotWait.Add(int64(time.Since(started))) }()
	select {
	case slot := <-s.cfg.Slots.free:
		return slot
	case <-s.ctx.Done():
		return nil
	}
}

// newBatch prepares a batch of the plan, in the memory of a finished one if there is one.
func (s *Stream) newBatch(number int, slot *Slot) *pendingBatch {
	var b *pendingBatch
	select {
	case b = <-s.spare:
	default:
		b = &pendingBatch{stream: s, done: make(chan struct{}, 1)}
	}
	order := s.cfg.Plan.Config()
	b.number, b.views, b.first = number, s.cfg.viewsOf(number), int64(number)*int64(order.BatchSize)
	b.Piece = Piece{
		Offer: s.cfg.Offer, Seed: order.Seed, Epoch: order.Epoch, Slot: slot,
		Indices: s.cfg.Plan.Batch(number, b.Indices), Repetitions: s.cfg.Plan.Repetitions(number, b.Repetitions),
	}
	b.bads, b.failure, b.trials = nil, nil, nil
	return b
}

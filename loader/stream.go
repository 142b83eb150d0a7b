package loader

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/imgfeed/imgfeed/internal/resample"
	"github.com/imgfeed/imgfeed/loader/plan"
	"github.com/imgfeed/imgfeed/transform"
)

// StreamConfig says what a stream serves and where to.
type StreamConfig struct {
	Set    Set
	Plan   *plan.Plan      // which samples, in which order; its seed and epoch also key the transform's draws
	Spec   *transform.Spec // what becomes of each
	Layout resample.Layout
	// OnError says what becomes of bad samples.
	OnError OnError
	// Supply has the slots, each with room for a batch of the plan. As many batches as it has slots are prepared ahead.
	Supply *Supply
	// Log receives a line for each blank sample; nil means slog.Default().
	Log *slog.Logger
}

// A Batch is a finished batch in its slot. The slot belongs to the consumer until it is put back into the supply.
type Batch struct {
	Number   int // in the plan, from 0
	Slot     *Slot
	Count    int // samples in the slot
	Blank    int // of which bad
	Consumed int // the plan's ConsumedAfter: samples of the epoch used by all ranks once each has had this batch
}

// A Stream prepares the batches of one plan and hands them out in order. Next is for one goroutine at a time; the other
// methods are safe for concurrent use.
type Stream struct {
	pool  *Pool
	cfg   StreamConfig
	log   *slog.Logger
	seed  int64
	epoch int

	queue []*job // published batches with samples left; guarded by Pool.mu
	jobs  []*job // all; guarded by Pool.mu
	shut  bool   // closed: no slot is handed out any more; guarded by Pool.mu

	order     chan *job // published batches, in order; closed behind the last
	feedErr   error     // why there are no more, if not for the plan's end; for Next once order is closed
	head      *job      // taken from order, not handed out; Next's
	ctx       context.Context
	cancel    context.CancelFunc
	cancelled atomic.Bool
	fed       chan struct{} // closed when the feeder has ended
	closeOnce sync.Once

	unfinished atomic.Int64 // batches published whose samples are not all finished
	starved    atomic.Int64 // when the feeder began to wait for a slot, in ns since 1970; 0 if it does not wait
	slotWait   atomic.Int64 // ns
	batches    atomic.Int64
	samples    atomic.Int64
	blank      atomic.Int64
	ended      atomic.Bool // the last batch was handed out, or the stream failed
}

// NewStream starts to prepare batches. The stream must be closed.
func (p *Pool) NewStream(cfg StreamConfig) (*Stream, error) {
	switch {
	case cfg.Set == nil || cfg.Plan == nil || cfg.Spec == nil || cfg.Supply == nil:
		return nil, fmt.Errorf("loader: a stream needs a set, a plan, a transform and a supply of slots")
	case cfg.Layout > resample.NCHW:
		return nil, fmt.Errorf("loader: unknown layout %d", cfg.Layout)
	}
	s := &Stream{pool: p, cfg: cfg, log: cfg.Log, fed: make(chan struct{})}
	if s.log == nil {
		s.log = slog.Default()
	}
	s.seed, s.epoch = cfg.Plan.Config().Seed, cfg.Plan.Config().Epoch
	s.order = make(chan *job, cfg.Supply.Cap())
	s.ctx, s.cancel = context.WithCancel(context.Background())
	context.AfterFunc(s.ctx, func() { s.cancelled.Store(true) })
	if err := p.add(s); err != nil {
		s.cancel()
		return nil, err
	}
	go s.feed()
	return s, nil
}

// feed publishes one batch after the other as slots become free.
func (s *Stream) feed() {
	defer close(s.fed)
	defer close(s.order)
	for b := range s.cfg.Plan.Batches() {
		slot := s.takeSlot()
		if slot == nil {
			return
		}
		if n := s.cfg.Plan.BatchLen(b); !slot.fits(n, s.cfg.Spec.OutputBytes()) {
			s.feedErr = fmt.Errorf("loader: slot %d is too small for a batch of %d images of %d bytes", slot.ID, n, s.cfg.Spec.OutputBytes())
			s.cfg.Supply.Put(slot)
			return
		}
		j := s.newJob(b, slot)
		s.unfinished.Add(1)
		s.pool.publish(j)
		s.order <- j // has room for every slot
		s.readAhead(j)
	}
}

// takeSlot waits for a free slot; nil means that the stream is cancelled.
func (s *Stream) takeSlot() *Slot {
	select {
	case <-s.ctx.Done():
		return nil
	default:
	}
	select {
	case slot := <-s.cfg.Supply.free:
		return slot
	default:
	}
	started := time.Now()
	s.starved.Store(started.UnixNano())
	defer func() {
		s.starved.Store(0)
		s.slotWait.Add(int64(time.Since(started)))
	}()
	select {
	case slot := <-s.cfg.Supply.free:
		return slot
	case <-s.ctx.Done():
		return nil
	}
}

// newJob prepares batch b, in the memory of one that is over if there is such.
func (s *Stream) newJob(b int, slot *Slot) *job {
	j := s.idleJob()
	j.number, j.slot = b, slot
	j.indices = s.cfg.Plan.Batch(b, j.indices)
	j.chunk = chunkFor(len(j.indices), s.pool.Threads())
	j.blank.Store(0)
	j.fail.Store(nil)
	j.left.Store(int64(len(j.indices)))
	j.next.Store(0)
	return j
}

func (s *Stream) idleJob() *job {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	s.pruneLocked() // no batch may stand in the queue twice
	for _, j := range s.jobs {
		if !j.inUse && j.active == 0 {
			j.inUse = true
			return j
		}
	}
	j := &job{stream: s, done: make(chan struct{}, 1), inUse: true}
	s.jobs = append(s.jobs, j)
	return j
}

// pruneLocked takes batches without samples left from the head of the queue.
func (s *Stream) pruneLocked() {
	for len(s.queue) > 0 && s.queue[0].exhausted() {
		s.queue = append(s.queue[:0], s.queue[1:]...)
	}
}

// busyLocked reports whether a worker is in one of the stream's batches.
func (s *Stream) busyLocked() bool {
	for _, j := range s.jobs {
		if j.active > 0 {
			return true
		}
	}
	return false
}

// Next returns the next batch, waiting until it is finished. It returns [io.EOF] behind the last batch, the context's
// error if that ends first (the batch is not lost then), [ErrClosed] when the stream or its pool was closed, and a
// [*SampleError] when a batch holds a bad sample and the policy is [Fail]; the stream is over then.
func (s *Stream) Next(ctx context.Context) (Batch, error) {
	if s.head == nil {
		select {
		case j, more := <-s.order:
			if !more {
				return Batch{}, s.end()
			}
			s.head = j
		case <-s.ctx.Done():
			return Batch{}, ErrClosed
		case <-ctx.Done():
			return Batch{}, ctx.Err()
		}
	}
	j := s.head
	select {
	case <-j.done:
	case <-s.ctx.Done():
		return Batch{}, ErrClosed
	case <-ctx.Done():
		return Batch{}, ctx.Err()
	}
	if f := j.fail.Load(); f != nil {
		j.done <- struct{}{} // so that another call says the same
		s.ended.Store(true)
		return Batch{}, f.err
	}
	return s.handOut(j)
}

// end returns what Next has to say when there are no more batches.
func (s *Stream) end() error {
	s.ended.Store(true)
	switch {
	case s.ctx.Err() != nil:
		return ErrClosed
	case s.feedErr != nil:
		return s.feedErr
	}
	return io.EOF
}

// handOut gives the finished batch away, unless the stream was closed meanwhile and Close has put its slot back.
func (s *Stream) handOut(j *job) (Batch, error) {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	if s.shut {
		return Batch{}, ErrClosed
	}
	s.head, j.inUse = nil, false
	batch := Batch{
		Number: j.number, Slot: j.slot, Count: len(j.indices), Blank: int(j.blank.Load()),
		Consumed: s.cfg.Plan.ConsumedAfter(j.number),
	}
	j.slot = nil
	s.batches.Add(1)
	s.samples.Add(int64(batch.Count))
	s.blank.Add(int64(batch.Blank))
	return batch, nil
}

// Close cancels what is under way, waits until no worker touches the slots any more (at most the time of a sample) and
// puts back into the supply all slots that were not handed out.
func (s *Stream) Close() {
	s.closeOnce.Do(func() {
		s.cancelled.Store(true)
		s.cancel()
		<-s.fed
		s.pool.remove(s)
		s.pool.mu.Lock()
		defer s.pool.mu.Unlock()
		s.shut = true
		for _, j := range s.jobs {
			if j.inUse && j.slot != nil {
				s.cfg.Supply.Put(j.slot)
				j.slot = nil
			}
		}
		s.ended.Store(true)
	})
}

// Stats describes the stream as it is now.
func (s *Stream) Stats() StreamStats {
	stats := StreamStats{
		Batches: int(s.batches.Load()), Samples: int(s.samples.Load()), Blank: int(s.blank.Load()),
		Ready: len(s.order), SlotWait: time.Duration(s.slotWait.Load()), WaitingFor: s.WaitingFor(),
	}
	if since := s.starved.Load(); since != 0 {
		stats.SlotWait += time.Since(time.Unix(0, since))
	}
	return stats
}

// WaitingFor names what keeps the stream's batches back at this moment.
func (s *Stream) WaitingFor() WaitingFor {
	switch {
	case s.ended.Load():
		return Idle
	case s.unfinished.Load() == 0:
		return Client // every slot is finished or lent
	}
	return s.pool.limit()
}

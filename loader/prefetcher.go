package loader

import (
	"context"
	"math"
	"sync"
	"sync/atomic"

	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/storage"
)

const (
	// readyMax samples in a row that need no waiting, the rest is taken not to need it either. From then on every probeAtth is looked at.
	readyMax = 256
	probeAt  = 16
	// samplesPerRead is how many samples may be read ahead for each read that may be under way.
	samplesPerRead = 8
	// wakeShare is the part of the bytes read ahead that workers use up before the next samples are read: a wake-up for each would cost more.
	wakeShare = 16
)

// A prefetcher reads the records of a stream into memory before they are due, in the order of the stream's plan. What storage has at hand
// it leaves to the workers.
//
// Its planner is a goroutine, which finds the next sample that is not at hand and memory for it, and begins to read it, without waiting. So reads begin in the
// order in which samples are due, and no more are under way, nor samples or bytes read ahead, than is allowed.
//
// Samples are known by their numbers in the stream. A worker that begins some says so, then takes each of them: it waits for
// a read that has begun, and reads by itself what no reader has begun, which none of them will then.
type prefetcher struct {
	stream  *Stream
	memory  *readMemory
	reads   int           // under way at most
	entries []prefetched  // of the samples that are read ahead, by number modulo their count; none before the first is
	wake    chan struct{} // the planner waits for it
	begun   atomic.Int64  // the first sample that no worker has begun
	wakeAt  atomic.Int64  // of begun, from which on the planner is to look again
	resting atomic.Bool   // samples are at hand: nothing is read ahead
	pending atomic.Int64  // samples that were read, or are, and that no worker has taken
	local   atomic.Int64  // thousandths of the last batches' samples, that workers took and remotes did not

	first chan struct{} // closed once the first reads have begun; workers that came before would read by themselves, one sample after the other
	left  chan struct{} // closed once the planner has left

	// Of the planner alone.
	next    int64 // sample that is planned next
	batch   int   // of the plan, whose samples indices are
	indices []int
	ready   int // samples in a row that were at hand
	isFirst bool

	mu        sync.Mutex
	reading   int   // reads under way
	wakeUnder int   // of reading, at which the planner is to look again
	held      int64 // bytes of memory
	wakeBelow int64 // of held, at which the planner is to look again
	closed    bool

	starved bool // of memory's: there was none left

	probed int // by look: samples since the last one that was looked at
}

// A prefetched sample is one that is being read, or was.
type prefetched struct {
	number int64 // -1: none
	memory piece
	fetch  fetch
	landed bool
}

func newPrefetcher(s *Stream, memory *readMemory) *prefetcher {
	p := &prefetcher{stream: s, memory: memory, reads: 1, wake: make(chan struct{}, 1), batch: -1, first: make(chan struct{}), left: make(chan struct{}), wakeUnder: -1, isFirst: true}
	if s.pool.threads > 0 {
		p.local.Store(1000)
	}
	go p.run()
	return p
}

// run is the planner's life.
func (p *prefetcher) run() {
	defer close(p.left)
	defer p.firstBegun()
	for e := p.plan(); e != nil; e = p.plan() {
		e.fetch.begin()
	}
}

// plan returns the next sample to read, with memory, or nil at the end of the plan and once the stream is over.
func (p *prefetcher) plan() *prefetched {
	for p.stream.ctx.Err() == nil {
		begun := p.begun.Load()
		p.next = max(p.next, begun)
		if p.next >= readyMax {
			p.firstBegun()
		}
		switch {
		case p.resting.Load():
			p.wait(math.MaxInt64, -1, -1)
			continue
		case p.next-begun >= int64(p.window()):
			p.wait(begun+int64(p.window()/wakeShare), -1, -1)
			continue
		}
		index, local, ok := p.index(p.next)
		switch {
		case !ok:
			return nil
		case !local:
			p.next++
			continue
		}
		where, err := p.stream.cfg.Dataset.Range(index)
		if err != nil || where.File == nil || where.File.WillNeed(where.Offset, where.Length) { // an error is the worker's to find
			p.next++
			if p.ready++; p.ready >= readyMax {
				p.resting.Store(true)
			}
			continue
		}
		p.ready = 0
		if e := p.begin(where); e != nil {
			return e
		}
	}
	return nil
}

// firstBegun lets the workers begin.
func (p *prefetcher) firstBegun() {
	if p.isFirst {
		p.isFirst = false
		close(p.first)
	}
}

// window is how many samples are looked at ahead at most: more of them where remotes take many.
func (p *prefetcher) window() int {
	return max(readyMax, p.reads*samplesPerRead) * min(int(1000/max(1, p.local.Load())), p.stream.pool.spread())
}

// index returns the sample of the plan with a number, and whether a worker is likely to take it: all but those at the end of a batch that remotes took of the last
// batches.
func (p *prefetcher) index(number int64) (index int, local, ok bool) {
	plan := p.stream.cfg.Plan
	size := int64(plan.Config().BatchSize)
	batch, at := int(number/size), int(number%size)
	if batch >= plan.Batches() {
		return 0, false, false
	}
	if batch != p.batch {
		p.batch, p.indices = batch, plan.Batch(batch, p.indices)
	}
	n := len(p.indices)
	if at >= n { // a short batch, which in a plan of buckets need not be the last
		return 0, false, batch+1 < plan.Batches()
	}
	share := int(p.local.Load())
	return p.indices[at], share > 0 && at < n*share*9/8000+n/32, true
}

// open prepares for so many reads at a time.
func (p *prefetcher) open(reads int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reads = max(1, reads)
	p.entries = make([]prefetched, max(readyMax, p.reads*samplesPerRead)*p.stream.pool.spread())
	for i := range p.entries {
		e := &p.entries[i]
		e.number, e.fetch.ended = -1, func() { p.land(e) }
	}
}

// begin gives the next sample memory to be read into, waiting for it. It returns nil if workers have come to the sample meanwhile, and if it is too
// large to be read ahead.
func (p *prefetcher) begin(where storage.Range) *prefetched {
	if p.entries == nil {
		p.open(where.File.ReadsMax())
	}
	bytes := where.Length + storage.FetchRoom + shard.SlackBytes
	number := p.next
	for p.stream.ctx.Err() == nil {
		p.pending.Add(1) // before begun is looked at, as a worker does it the other way round
		e, fits := p.tryBegin(number, bytes, where)
		if e != nil {
			return e
		}
		p.pending.Add(-1)
		if !fits || p.begun.Load() > number {
			p.next = number + 1
			return nil
		}
		p.mu.Lock()
		enough, under := max(0, p.held-max(bytes, p.held/wakeShare)), -1
		if p.reading >= p.reads {
			enough, under = -1, p.reads-max(1, p.reads/wakeShare)
		}
		p.mu.Unlock()
		p.wait(number+1, enough, under)
	}
	return nil
}

// tryBegin is begin, without waiting. fits is false for a sample that is too large.
func (p *prefetcher) tryBegin(number, bytes int64, where storage.Range) (e *prefetched, fits bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e = &p.entries[number%int64(len(p.entries))]
	if p.begun.Load() > number || e.number >= 0 { // a worker is still at that one
		return nil, true
	}
	if p.reading >= p.reads {
		return nil, true
	}
	memory, fits := p.memory.take(p, where.File, bytes)
	if memory.bytes == nil {
		return nil, fits
	}
	e.number, e.memory, e.landed = number, memory, false
	p.next = number + 1
	p.held += int64(len(memory.bytes))
	p.reading++
	e.fetch.prepare(where, memory.bytes)
	return e, true
}

// wait has the planner wait until workers have begun the samples before a number, or no more than so many bytes are held, or reads under way; or for somebody
// to poke it.
func (p *prefetcher) wait(begun, held int64, under int) {
	p.firstBegun()
	p.mu.Lock()
	p.wakeBelow, p.wakeUnder = held, under
	reached := p.held <= held || p.reading <= under
	p.mu.Unlock()
	p.wakeAt.Store(begun)
	if p.begun.Load() < begun && !reached {
		select {
		case <-p.wake:
		case <-p.stream.ctx.Done():
		}
	}
	p.wakeAt.Store(math.MaxInt64)
}

func (p *prefetcher) poke() {
	select {
	case p.wake <- struct{}{}:
	default: // it is about to look
	}
}

// land notes that a sample was read.
func (p *prefetcher) land(e *prefetched) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reading--
	if p.closed {
		p.free(e)
		p.leave()
		return
	}
	e.landed = true
	if p.reading <= p.wakeUnder {
		p.poke()
	}
}

// beginBefore notes that a worker has begun the samples before a number.
func (p *prefetcher) beginBefore(number int64) {
	for {
		old := p.begun.Load()
		if old >= number || p.begun.CompareAndSwap(old, number) {
			break
		}
	}
	if number >= p.wakeAt.Load() {
		p.poke()
	}
}

// take returns the bytes of a sample that was read ahead, waiting for them, or memory for them and why they could not be read. If held, it is to be released.
// Without data, the sample is to be read otherwise, or not at all if the stream has ended.
func (p *prefetcher) take(number int64) (data []byte, held bool, err error) {
	if p.pending.Load() == 0 {
		return nil, false, nil
	}
	p.mu.Lock()
	e := &p.entries[number%int64(len(p.entries))]
	has := e.number == number
	p.mu.Unlock()
	if !has {
		return nil, false, nil
	}
	data, landed, err := e.fetch.wait(p.stream.ctx)
	if !landed {
		return nil, false, p.stream.ctx.Err()
	}
	p.pending.Add(-1)
	if err != nil {
		data = e.fetch.memory()
	}
	return data, true, err
}

// release gives back the memory of a sample that was taken.
func (p *prefetcher) release(number int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free(&p.entries[number%int64(len(p.entries))])
	if p.held <= p.wakeBelow {
		p.poke()
	}
}

// exhausted notes that the last sample of a batch was taken, and how many of them workers took.
func (p *prefetcher) exhausted(b *pendingBatch, workers int) {
	p.beginBefore(b.first + int64(len(b.indices)))
	old, now := p.local.Load(), int64(1000*workers/len(b.indices))
	if step := (now - old) / 4; step != 0 {
		now = old + step
	}
	p.local.Store(now)
}

// sweep gives back the memory of samples of a batch that were read for workers, and made by remotes. All samples of the batch are made.
func (p *prefetcher) sweep(b *pendingBatch) {
	if p.pending.Load() == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var under []*prefetched
	for i := range int64(len(b.indices)) {
		number := b.first + i
		e := &p.entries[number%int64(len(p.entries))]
		switch {
		case e.number != number:
			continue
		case e.fetch.over.Load():
			p.free(e)
		default:
			under = append(under, e)
		}
		p.pending.Add(-1)
	}
	if len(under) > 0 {
		go p.freeLater(under)
	}
	p.poke()
}

// freeLater waits until samples have been read, and gives their memory back.
func (p *prefetcher) freeLater(under []*prefetched) {
	for _, e := range under {
		e.fetch.wait(context.Background())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range under {
		if !p.closed {
			p.free(e)
		}
	}
	p.poke()
}

// free gives back a sample's memory. The caller has locked mu.
func (p *prefetcher) free(e *prefetched) {
	p.memory.give(e.memory)
	p.held -= int64(len(e.memory.bytes))
	e.number, e.memory = -1, piece{}
}

// look finds out, from some samples of a batch, whether what was at hand no longer is. It is for dispatch alone.
func (p *prefetcher) look(indices []int) {
	if !p.resting.Load() {
		return
	}
	for _, index := range indices {
		if p.probed++; p.probed < probeAt {
			continue
		}
		p.probed = 0
		where, err := p.stream.cfg.Dataset.Range(index)
		if err == nil && where.File != nil && !where.File.WillNeed(where.Offset, where.Length) {
			p.ready = 0
			p.resting.Store(false)
			p.poke()
			return
		}
	}
}

// close ends the planning and gives back all memory, once nothing is read into it any more: for that a disk that hangs may take its time, and
// nobody waits. The stream is cancelled, and no worker is in its batches.
func (p *prefetcher) close() {
	<-p.left
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	var under []*fetch
	for i := range p.entries {
		switch e := &p.entries[i]; {
		case e.number < 0:
		case e.landed:
			p.free(e)
		default:
			under = append(under, &e.fetch)
		}
	}
	p.leave()
	if len(under) > 0 {
		go func() {
			for _, f := range under {
				f.wait(context.Background())
			}
		}()
	}
}

// leave has a closed prefetcher leave the memory after its last read. The caller has locked mu.
func (p *prefetcher) leave() {
	if p.reading == 0 {
		p.memory.leave(p)
	}
}

package loader

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/imgfeed/imgfeed/loader/plan"
)

// readAheadBytes is what all streams of a pool together have read ahead at most, unless they are told otherwise: what a disk of
// 1 GB/s delivers in 64 ms, six times as long as a thread that computes may keep Go from running a stream's ahead.
const readAheadBytes = 64 << 20

const (
	// aheadSamplesMax is how many samples a stream reads ahead at most: what 32 threads decode in 10 ms, and more requests than
	// disks have in work at a time.
	aheadSamplesMax = 512
	// cachedSamplesMax is the same where nothing but hints is left, and for the next epoch where hints may be dropped: file systems of
	// programs and networks do that while they have as much to do as they take, and a worker then waits for it.
	cachedSamplesMax = 40
	// aheadSteps is the share of what is read ahead that workers have begun before more is asked for: a wake-up for each sample
	// would cost more.
	aheadSteps = 16
	// warmAfter samples in a row that are in memory, the rest is taken to be. From then on every lookAtth is looked at.
	warmAfter = 256
	lookAt    = 16
	// askAt is for file systems where to ask may take as long as reading: only every askAtth sample is looked at.
	askAt = 32
)

// An ahead goes over a stream's plan before its workers do, and has the set read what is not in memory: far enough ahead to keep
// a disk busy, and no further. At the plan's end it goes on with the next epoch's, which is about to be asked for, as a rule.
// Once it finds everything in memory it is warm, and looks at a sample now and then.
type ahead struct {
	stream *Stream
	set    Dataset
	budget *aheadBudget

	cold   atomic.Bool
	taken  atomic.Int64 // samples of the plan that workers have begun
	wakeAt atomic.Int64 // of taken, from which on run is to be woken
	chilly atomic.Bool  // look has found a sample that is not in memory
	wake   chan struct{}
	done   chan struct{} // closed when run has returned

	// Of run alone.
	plan      *plan.Plan // the stream's, then the next epoch's
	over      bool       // and that one is through too
	batch     int        // of plan, that comes next
	indices   []int      // what is left of the one before
	memory    []int      // of indices
	asked     int64      // samples asked for or passed over, from the stream's first on
	freed     int64      // of which workers have begun
	bytes     int64      // that were asked for and not freed
	sizes     [aheadSamplesMax]int64
	residents int  // samples in a row that were in memory
	waits     bool // to ask may take as long as reading
	drops     bool // the set drops hints
	past      pastCache

	looked int // by look: samples since the last one that was looked at
}

// An aheadBudget is shared by the streams of a pool that are cold.
type aheadBudget struct {
	bytes int64
	cold  atomic.Int64 // streams
	held  atomic.Int64 // bytes of memory that is read into
	told  atomic.Bool  // that samples can't be read so

	reading func(bool) // or nil
	mu      sync.Mutex // of isRead, and held during reading
	isRead  bool       // as reading was last told
}

func (b *aheadBudget) share() int64 { return b.bytes / max(1, b.cold.Load()) }

// hold takes a stream's share of what is left, if that is enough for some samples.
func (b *aheadBudget) hold() int64 {
	for {
		held := b.held.Load()
		bytes := min(b.share(), b.bytes-held)
		if bytes < directBytesMin {
			return 0
		}
		if b.held.CompareAndSwap(held, held+bytes) {
			b.tell()
			return bytes
		}
	}
}

func (b *aheadBudget) release(bytes int64) {
	b.held.Add(-bytes)
	b.tell()
}

func (b *aheadBudget) tell() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if is := b.held.Load() > 0; is != b.isRead && b.reading != nil {
		b.isRead = is
		b.reading(is)
	}
}

func newAhead(s *Stream, budget *aheadBudget) *ahead {
	a := &ahead{stream: s, set: s.cfg.Dataset, plan: s.cfg.Plan, budget: budget, wake: make(chan struct{}, 1), done: make(chan struct{})}
	a.past.init(s, budget, &a.taken)
	a.setCold(true) // until it is known better
	return a
}

func (a *ahead) setCold(cold bool) {
	if a.cold.Swap(cold) == cold {
		return
	}
	a.set.Copy(cold)
	if cold {
		a.budget.cold.Add(1)
	} else {
		a.budget.cold.Add(-1)
	}
}

// run asks for one sample after the other, as far ahead as is allowed. It is a goroutine of the stream: to ask may take its time,
// where a disk has more requests than it takes.
func (a *ahead) run() {
	defer close(a.done)
	defer a.setCold(false)
	a.drops = a.set.DropsHints()
	a.past.slow = a.drops
	for {
		a.catchUp(a.taken.Load())
		for a.cold.Load() && a.room() && a.stream.ctx.Err() == nil && a.step() {
		}
		next := int64(math.MaxInt64)
		if a.cold.Load() && !a.over {
			next = a.freed + max(1, (a.asked-a.freed)/aheadSteps)
			if end := int64(a.stream.cfg.Plan.Samples()); a.freed < end {
				next = min(next, end)
			}
		}
		a.wakeAt.Store(next)
		if a.taken.Load() >= next {
			continue
		}
		select {
		case <-a.wake:
			if a.chilly.Swap(false) {
				a.residents = 0
				a.setCold(true)
			}
		case <-a.stream.ctx.Done():
			return
		}
	}
}

// begun notes that a worker has begun so many further samples.
func (a *ahead) begun(samples int) {
	if taken := a.taken.Add(int64(samples)); taken >= a.wakeAt.Load() {
		a.poke()
	}
}

func (a *ahead) poke() {
	select {
	case a.wake <- struct{}{}:
	default: // it is about to wake up
	}
}

// look finds out, from some samples of a batch, whether a warm stream has become cold. It is for dispatch alone.
func (a *ahead) look(indices []int) {
	for _, index := range indices {
		if a.looked++; a.looked < lookAt {
			continue
		}
		if a.looked = 0; a.cold.Load() {
			return
		}
		if resident, _ := a.set.Resident(index); !resident {
			a.chilly.Store(true)
			a.poke()
			return
		}
	}
}

// catchUp frees what workers have begun, and passes over what they have come to by themselves.
func (a *ahead) catchUp(taken int64) {
	for a.freed < min(taken, a.asked) {
		a.bytes -= a.sizes[a.freed%aheadSamplesMax]
		a.freed++
	}
	if taken <= a.asked {
		return
	}
	size := int64(a.stream.cfg.Plan.Config().BatchSize)
	a.asked, a.freed = taken, taken
	a.batch, a.indices = int(taken/size), nil
	if a.fetch() {
		a.indices = a.indices[taken%size:]
	}
}

// room reports whether there may be one more.
func (a *ahead) room() bool {
	most := int64(aheadSamplesMax)
	if a.past.hintsOnly() || a.drops && a.plan != a.stream.cfg.Plan {
		most = cachedSamplesMax
	}
	return !a.over && a.asked-a.freed < most && (a.bytes == 0 || a.bytes < a.budget.share())
}

// step asks for the next sample. It reports false if there is none, or no room for it.
func (a *ahead) step() bool {
	for len(a.indices) == 0 {
		if !a.fetch() && !a.following() {
			a.over = true
			return false
		}
	}
	size, ok := a.ask(a.indices[0])
	if !ok {
		return false
	}
	a.indices = a.indices[1:]
	a.sizes[a.asked%aheadSamplesMax] = size
	a.bytes += size
	a.asked++
	enough := warmAfter
	if a.waits {
		enough /= askAt
	}
	if a.residents >= enough {
		a.setCold(false)
	}
	return true
}

// ask asks for a sample if it is not in memory, as far as is known, and returns how many bytes that makes; false if there is no
// room for them.
func (a *ahead) ask(index int) (bytes int64, ok bool) {
	if !a.waits || a.asked%askAt == 0 {
		var resident bool
		if resident, a.waits = a.set.Resident(index); resident {
			a.residents++
			return 0, true
		}
		a.residents = 0
	}
	if a.residents > 0 || a.plan != a.stream.cfg.Plan {
		return a.set.Prefetch(index), true
	}
	// What is to come into the page cache of a disk is left to its hints, which cost a processor less than reading, and all are taken.
	if past := a.past.wants(index); (past || a.drops) && a.past.isOpen() {
		if bytes, ok, done := a.past.start(a.asked, index, !past); done {
			return bytes, ok
		}
	}
	return a.set.Prefetch(index), true
}

// fetch takes the plan's next batch; false means that there is none.
func (a *ahead) fetch() bool {
	if a.batch >= a.plan.Batches() {
		return false
	}
	a.memory = a.plan.Batch(a.batch, a.memory)
	a.indices = a.memory
	a.batch++
	return true
}

// following goes on with the next epoch's plan after the stream's own.
func (a *ahead) following() bool {
	if a.plan != a.stream.cfg.Plan {
		return false
	}
	cfg := a.plan.Config()
	cfg.Epoch, cfg.Consumed = cfg.Epoch+1, 0
	next, err := plan.New(cfg)
	if err != nil {
		return false
	}
	a.plan, a.batch = next, 0
	return a.fetch()
}

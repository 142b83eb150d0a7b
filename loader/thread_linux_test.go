package loader

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/loader/plan"
	"github.com/imgfeed/imgfeed/loader/readahead"
)

// TestTurnCostsProcessorTimeAndReads makes a batch of two samples, in a turn that is interrupted for an hour of the test's clock after
// each of them. The turn costs the two reads of a minute, and the processor time, which the test's clock does not rule.
func TestTurnCostsProcessorTimeAndReads(t *testing.T) {
	onTestClock(t, func(t *testing.T) {
		p := &Pool{scheduler: newScheduler(), counters: make([]*counters, 1), ahead: readahead.NewPool(readAheadBytes, nil)} // without workers
		set := newMemorySet(t, 2)
		set.bad[0], set.bad[1] = errors.New("bad"), errors.New("bad")
		set.delay = time.Minute
		cfg := testStream(t, set, plan.Config{Samples: 2, BatchSize: 2}, 1)
		cfg.OnError, cfg.Bad = Blank, func(BadSample) { time.Sleep(time.Hour) }
		stream := openStream(t, p, cfg)
		runtime.LockOSThread() // its clock is read
		defer runtime.UnlockOSThread()
		turn := p.scheduler.next(localWorker{}, turn{}, new(counters))
		turn.work.work(p.newWorker(new(counters)), &turn)
		testenv.Check(t, turn.cost > 2*set.delay && turn.cost <= 3*set.delay && time.Since(turn.began) == 2*(set.delay+time.Hour),
			"a turn of %v costs %v", time.Since(turn.began), turn.cost)
		p.scheduler.mu.Lock()
		p.scheduler.leaveLocked(turn)
		p.scheduler.mu.Unlock()
		testenv.Check(t, stream.queue.account == turn.cost,
			"the turn costs %v, and its stream has paid %v", turn.cost, stream.queue.account)
	})
}

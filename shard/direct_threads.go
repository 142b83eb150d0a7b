package shard

import (
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
)

const (
	// readThreadsMax reads by threads are under way at a time: where one takes 2 ms, that makes 16,000 a second.
	readThreadsMax = 32
	// readThreadsFew is the same on a disk where the system has reads of its own: threads do what it does not take.
	readThreadsFew = 2
	// readThreadBytes is the memory that there is to read into for each of them, so that many streams have few.
	readThreadBytes = 1 << 20
)

// readThreads read for a Direct, each of them waiting for the system. A thread is there from the first time on that there are more reads
// than threads.
type readThreads struct {
	direct *Direct
	queue  chan *transfer
	most   int
	there  int          // of the goroutine that starts reads
	under  atomic.Int64 // reads that have not landed
	ended  atomic.Bool
	all    sync.WaitGroup
}

func (r *readThreads) init(d *Direct, bytes int64) {
	r.direct, r.queue = d, make(chan *transfer, directDepth)
	if r.most = int(min(max(bytes/readThreadBytes, readThreadsFew), readThreadsMax)); d.ring != nil && !d.slow {
		r.most = readThreadsFew
	}
}

// read has a transfer read. There is room in the queue, since no more are under way.
func (r *readThreads) read(t *transfer) {
	select {
	case <-t.done: // which nobody has waited for
	default:
	}
	if under := r.under.Add(1); under > int64(r.there) && r.there < r.most {
		r.there++
		r.all.Go(r.run)
	}
	r.queue <- t
}

// run is a thread's life.
func (r *readThreads) run() {
	var b blockingRead
	do := b.do
	for t := range r.queue {
		if t.result = -1; !r.ended.Load() {
			r.fill(t, &b, do)
		}
		r.under.Add(-1)
		r.direct.under.Add(-1)
		t.landed.Store(true)
		select {
		case t.done <- struct{}{}:
		default: // the token of an earlier use will do
		}
	}
}

// fill reads what a transfer is for: past the page cache if its file is open for that and its file system can, else through it.
func (r *readThreads) fill(t *transfer, b *blockingRead, do func(*os.File) error) {
	b.into, b.offset = r.direct.arena[t.from:t.to], t.entry.Offset-int64(t.skip)
	if t.file.flags != 0 && t.file.use(do) == nil {
		t.result = b.n
		return
	}
	b.into = b.into[:t.skip+int(t.entry.length())]
	t.reader.prefetchPieces(t.entry)
	if withFile(t.reader.file, do) == nil {
		t.result = b.n
	}
}

// close has the threads end, once each has what it waits for.
func (r *readThreads) close() {
	r.ended.Store(true)
	close(r.queue)
	r.all.Wait()
}

// A blockingRead is a part of a file that is read, and how much of it there was.
type blockingRead struct {
	into   []byte
	offset int64
	n      int64
}

func (b *blockingRead) do(f *os.File) error {
	n, err := f.ReadAt(b.into, b.offset)
	if b.n = int64(n); errors.Is(err, io.EOF) {
		return nil // where it ends is said by n
	}
	return err
}

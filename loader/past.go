package loader

import "sync/atomic"

// directBytesMin is the least memory in which samples are read ahead: for some of them at a time.
const directBytesMin = 1 << 20

// A pastCache is the part of an ahead that has samples read into memory of the stream's own, and says which of them past the page cache.
//
// The page cache is for what it has room for: of a set that is larger, the same samples in each epoch, as many as fit. Had all of them a
// turn there, hardly one would still be there when it is wanted again.
//
// And to read through it costs a CPU four times as much as to read past it. So while it is CPUs that the stream waits for, half of a set
// that fits comes into the page cache in one epoch and half in the next; while it is the disk or the client, all of it at once. Of a file
// system of a network or a program it is a sixteenth in each epoch, or half while it is that which is waited for.
type pastCache struct {
	stream  *Stream
	budget  *aheadBudget
	reads   atomic.Pointer[directReads] // nil until there is one to start
	begun   *atomic.Int64               // samples of the plan that workers have begun
	first   int64                       // number that may be started
	refused bool
	denied  int     // samples to come until memory is asked for again, which other streams have
	room    float64 // the share of the set that the page cache has room for; below 0: not yet asked
	slow    bool    // the set's file system drops hints
	parts   uint    // log2 of those that come into the page cache in an epoch each
	wanted  int     // calls of wants
	failed  int     // starts in a row that failed
}

// directReads are a stream's, with the memory that they hold.
type directReads struct {
	Direct
	bytes int64
}

func (p *pastCache) init(s *Stream, budget *aheadBudget, begun *atomic.Int64) {
	p.stream, p.budget, p.begun, p.room = s, budget, begun, -1
}

// cachedParts is the log2 of the parts of a set that come into the page cache in an epoch each, by what the stream waits for; of file
// systems that drop hints cachedPartsSlow is. There a read past the page cache costs a CPU hardly more than the copy of a record that is in
// memory, and one through it waits in a thread, for pages that come one by one: half of those under way are as many as there are threads.
var (
	cachedParts     = map[WaitingFor]uint{CPU: 1, Disk: 0, Client: 0}
	cachedPartsSlow = map[WaitingFor]uint{CPU: 4, Disk: 1, Client: 0}
)

// wants reports whether a sample that is not in memory is to be read past the page cache.
func (p *pastCache) wants(index int) bool {
	if p.room < 0 {
		p.room = p.stream.cfg.Dataset.Room()
	}
	hash := uint32(index+1) * 0x9E3779B1 // of Fibonacci hashing: its upper bits are even over any indices
	if p.room < 1 {
		return float64(hash) >= p.room*(1<<32)
	}
	if p.wanted%64 == 0 {
		p.look()
	}
	p.wanted++
	return hash>>(32-p.parts) != uint32(p.stream.epoch)&(1<<p.parts-1)
}

// look finds out what the stream waits for.
func (p *pastCache) look() {
	limit := p.stream.pool.limit()
	if p.stream.waitsForClient() {
		limit = Client
	}
	if p.parts = cachedParts[limit]; p.slow {
		p.parts = cachedPartsSlow[limit]
	}
}

// start begins to read a sample as number n, through the page cache or past it. ok is false if there is no room now; done, unless it is
// to be read otherwise.
func (p *pastCache) start(n int64, index int, cached bool) (bytes int64, ok, done bool) {
	if n < p.first {
		return 0, false, false
	}
	bytes, err := p.reads.Load().Start(n, index, cached)
	if err == nil {
		p.failed = 0
		return bytes, bytes > 0, true
	}
	if p.failed++; p.failed == failedMax {
		p.refuse(err)
	}
	return 0, false, false
}

// failedMax reads in a row that can't be started are not the samples' fault.
const failedMax = 16

// askAgainAfter samples other streams may have ended: one of an epoch that was broken off waits for its last reads.
const askAgainAfter = 16

// isOpen reports whether samples can be read into memory of the stream's own, which it takes once there is some.
func (p *pastCache) isOpen() bool {
	if p.reads.Load() != nil {
		return true
	}
	if p.denied > 0 {
		p.denied--
	}
	return !p.hintsOnly() && p.open() != nil
}

// hintsOnly reports whether there is no memory to read into.
func (p *pastCache) hintsOnly() bool { return p.refused || p.denied > 0 }

func (p *pastCache) open() *directReads {
	bytes := p.budget.hold()
	if bytes == 0 {
		p.denied = askAgainAfter
		return nil
	}
	d, err := p.stream.cfg.Dataset.Direct(bytes, aheadSamplesMax)
	if err != nil {
		p.budget.release(bytes)
		p.refuse(err)
		return nil
	}
	reads := &directReads{d, bytes}
	p.reads.Store(reads)
	// Workers may have come to numbers before these without seeing that there are reads: nobody would ever take them. One may have begun
	// a turn that is not counted yet.
	p.first = p.begun.Load() + int64(p.stream.pool.Threads()*turnSamples)
	return reads
}

// refuse has hints take the place of reading from now on, and says so once.
func (p *pastCache) refuse(err error) {
	p.refused = true
	if !p.budget.told.Swap(true) {
		p.stream.log.Info("samples that are not in memory are left to the system's reading ahead", "because", err)
	}
}

// take returns the record of number n if it was read ahead into memory, waiting for it. If held, it is to be released; if not ok,
// read otherwise.
func (p *pastCache) take(n int64) (r Record, held, ok bool) {
	reads := p.reads.Load()
	if reads == nil {
		return Record{}, false, false
	}
	r, held, err := reads.Take(n)
	return r, held, held && err == nil
}

func (p *pastCache) release(n int64) { p.reads.Load().Release(n) }

// close gives the memory back once nothing is read into it any more, for which a disk that hangs may take its time. No worker looks
// at it.
func (p *pastCache) close() {
	if reads := p.reads.Load(); reads != nil {
		go func() {
			reads.Close()
			p.budget.release(reads.bytes)
		}()
	}
}

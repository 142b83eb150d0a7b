package loader

import (
	"sync"
	"sync/atomic"
	"time"
)

// Counters count the work of workers since they started.
type Counters struct {
	Images    int64 // samples read, bad ones among them
	BytesRead int64 // stored bytes
	// Time spent by all workers together.
	Read     time.Duration // waiting for stored bytes, and checking them
	Decode   time.Duration // stored bytes to RGB
	Resample time.Duration // RGB to finished pixels
	Wait     time.Duration // nothing to do
}

// Sub returns c − d, field by field.
func (c Counters) Sub(d Counters) Counters {
	return Counters{
		c.Images - d.Images, c.BytesRead - d.BytesRead,
		c.Read - d.Read, c.Decode - d.Decode, c.Resample - d.Resample, c.Wait - d.Wait,
	}
}

// Seconds returns the times by stage: read, decode, resample and wait.
func (c Counters) Seconds() map[string]float64 {
	return map[string]float64{
		"read": c.Read.Seconds(), "decode": c.Decode.Seconds(), "resample": c.Resample.Seconds(), "wait": c.Wait.Seconds(),
	}
}

// counters are one worker's, written by it alone and merged when read. The padding keeps two workers' apart in the cache.
type counters struct {
	_                                               [64]byte
	images, bytesRead, read, decode, resample, wait atomic.Int64
	reading                                         atomic.Int64 // since when it waits for reads, since clockStart; 0: it does not
	_                                               [64]byte
}

func (c *counters) add(d *Counters) {
	c.images.Add(d.Images)
	c.bytesRead.Add(d.BytesRead)
	c.read.Add(int64(d.Read))
	c.decode.Add(int64(d.Decode))
	c.resample.Add(int64(d.Resample))
}

// Counters returns the sum over the pool's workers.
func (p *Pool) Counters() Counters {
	var sum Counters
	for _, c := range p.counters {
		sum.Images += c.images.Load()
		sum.BytesRead += c.bytesRead.Load()
		sum.Read += time.Duration(c.read.Load())
		sum.Decode += time.Duration(c.decode.Load())
		sum.Resample += time.Duration(c.resample.Load())
		sum.Wait += time.Duration(c.wait.Load())
	}
	return sum
}

// clockStart is the origin of moments counted in an integer.
var clockStart = time.Now()

// Reading returns how long all workers together have waited for reads so far. Counters count a wait once it is over.
func (p *Pool) Reading() (sum time.Duration) {
	now := time.Since(clockStart)
	for _, c := range p.counters {
		if began := time.Duration(c.reading.Load()); began > 0 {
			sum += max(0, now-began)
		}
	}
	return sum
}

const (
	recentSpan  = 5 * time.Second // longer than the epochs of a small set, which begin with empty slots
	shareAfter  = time.Second     // shortest time over which a share says anything
	forgotAfter = 3 * time.Second // a longer pause between questions means that no epoch ran
)

// WaitingFor names what keeps batches back.
type WaitingFor string

const (
	Disk   WaitingFor = "disk"   // most of the time no sample is at hand: they are being read
	Store  WaitingFor = "store"  // the same, and they come from a bucket or a web server
	CPU    WaitingFor = "cpu"    // most of the time samples are at hand, to decode and resample
	Client WaitingFor = "client" // batches are ready and every slot is in use
	Idle   WaitingFor = "idle"   // nobody wants a batch
)

// WaitingFor names what keeps a consumer's batches back, or kept them back most of the last seconds, whichever stream they are of.
func (p *Pool) WaitingFor(slots *SlotPool) WaitingFor {
	now := time.Since(clockStart)
	client, reads := slots.idle.share(now), slots.reads.share(now)
	switch {
	case client > idleShare:
		return Client
	case reads > (1-client)/2:
		return Disk
	}
	return CPU
}

// idleShare is the share of the time above which the stream waits for the client: every slot is finished or lent.
const idleShare = 0.5

// StreamStats describe a stream at one moment.
type StreamStats struct {
	Batches  int           // handed out
	SlotWait time.Duration // time that the stream stood still for want of a free slot
}

// An idleMeter measures for which share of the time all batches that have a slot were finished: then a consumer is what its streams
// wait for, one after the other. At a single moment that may be so by chance, where batches come off a slow disk in bursts. Times are
// since clockStart.
type idleMeter struct {
	from  atomic.Int64 // start of the current idle time, ns; 0: not idle
	total atomic.Int64 // sum of the finished idle times, ns

	mu          sync.Mutex
	older, last idleMark
	askedAt     time.Duration
}

// An idleMark is a total at a time.
type idleMark struct{ total, at time.Duration }

// set is called when the last batch is finished, and when the next one has its slot.
func (r *idleMeter) set(idle bool) {
	if now := time.Since(clockStart); idle {
		r.begin(now)
	} else {
		r.end(now)
	}
}

func (r *idleMeter) begin(now time.Duration) { r.from.Store(int64(now)) }

func (r *idleMeter) end(now time.Duration) {
	if from := r.from.Swap(0); from != 0 {
		r.total.Add(int64(now) - from)
	}
}

// share returns the share of the last one or two spans, as far back as questions were asked. At first it is 1 or 0, as things are now.
func (r *idleMeter) share(now time.Duration) float64 {
	total, share := time.Duration(r.total.Load()), 0.0
	if from := r.from.Load(); from != 0 {
		total, share = total+now-time.Duration(from), 1
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	mark := idleMark{total, now}
	if r.askedAt == 0 || now-r.askedAt > forgotAfter {
		r.older, r.last = mark, mark
	} else if now-r.last.at >= recentSpan {
		r.older, r.last = r.last, mark
	}
	r.askedAt = now
	if elapsed := now - r.older.at; elapsed >= shareAfter {
		share = float64(total-r.older.total) / float64(elapsed)
	}
	return share
}

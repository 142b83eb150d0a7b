package loader

import (
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
	readingSince                                    atomic.Int64 // start of its wait for reads, since clockStart; 0: it does not wait
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
		if began := time.Duration(c.readingSince.Load()); began != 0 {
			sum += max(0, now-began)
		}
	}
	return sum
}

// StreamStats describe a stream at one moment.
type StreamStats struct {
	Batches  int           // handed out
	SlotWait time.Duration // time that the stream stood still for want of a free slot
}

// Waits say for how long the streams of one consumer have waited so far, one after the other, and whether they wait now.
type Waits struct {
	Client, Reads       time.Duration
	ClientNow, ReadsNow bool // all batches that have a slot are finished; or no sample is at hand, as they are being read
}

// Waits returns for how long the consumer's streams have waited. A single moment says little: batches come off a slow disk in bursts.
func (s *SlotPool) Waits() (w Waits) {
	w.Client, w.ClientNow = s.idle.read()
	w.Reads, w.ReadsNow = s.reads.read()
	return w
}

// A stopwatch sums up the times for which something holds. Any goroutine may set it; where two do at once, one of them counts.
type stopwatch struct{ since, total atomic.Int64 } // ns since clockStart, 0 while it does not hold; ns

// set says whether it holds from now on.
func (w *stopwatch) set(holds bool) {
	now := int64(time.Since(clockStart))
	if holds {
		w.since.CompareAndSwap(0, now)
	} else if since := w.since.Swap(0); since != 0 {
		w.total.Add(now - since)
	}
}

// read returns the time for which it has held so far, and whether it holds now.
func (w *stopwatch) read() (total time.Duration, holds bool) {
	total = time.Duration(w.total.Load())
	if since := time.Duration(w.since.Load()); since != 0 {
		return total + time.Since(clockStart) - since, true
	}
	return total, false
}

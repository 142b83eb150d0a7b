package loader

import (
	"sync/atomic"
	"time"
)

// BatchTimes say when a batch came how far, and what workers did for it. Each moment comes before the next.
type BatchTimes struct {
	Asked     time.Time // its stream wanted a slot for it
	Published time.Time // it had one: from here on it waits for a worker
	Begun     time.Time // a worker took its first sample
	Finished  time.Time // its last sample was finished: from here on it waits to be handed out

	// Of all workers together. Samples of other batches that they serve in between do not count.
	Read, Decode, Resample time.Duration
	BytesRead              int64 // stored bytes
}

// A timing becomes the times of a batch. Every method of a nil one does nothing: most batches have none.
type timing struct {
	at                                BatchTimes
	read, decode, resample, bytesRead atomic.Int64
}

// chooseTiming begins to time a batch, if it is chosen.
func (s *Stream) chooseTiming() *timing {
	if s.cfg.Timed == nil || !s.cfg.Timed() {
		return nil
	}
	return &timing{at: BatchTimes{Asked: time.Now()}}
}

func (t *timing) published() {
	if t != nil {
		t.at.Published = time.Now()
	}
}

// begun is called by the one worker that takes the first sample.
func (t *timing) begun() {
	if t != nil {
		t.at.Begun = time.Now()
	}
}

// add counts what a worker has just done.
func (t *timing) add(c Counters) {
	if t != nil {
		t.read.Add(int64(c.Read))
		t.decode.Add(int64(c.Decode))
		t.resample.Add(int64(c.Resample))
		t.bytesRead.Add(c.BytesRead)
	}
}

// finished is called by the one worker that finishes the last sample, after all have called add.
func (t *timing) finished() {
	if t != nil {
		t.at.Finished = time.Now()
	}
}

// times returns what has come of it, once the batch is finished.
func (t *timing) times() *BatchTimes {
	if t == nil {
		return nil
	}
	t.at.Read, t.at.Decode, t.at.Resample = time.Duration(t.read.Load()), time.Duration(t.decode.Load()), time.Duration(t.resample.Load())
	t.at.BytesRead = t.bytesRead.Load()
	return &t.at
}

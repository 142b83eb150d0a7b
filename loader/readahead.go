package loader

import "time"

// A readAheader is a [Set] that can be told which samples will be read soon.
type readAheader interface {
	// ReadAhead starts to bring sample i into memory and does not wait for it.
	ReadAhead(i int)
}

// readAheadFrom is the mean time of a read from which the samples of published batches are read ahead: well above what a
// sample in the page cache takes, well below what a disk does.
const readAheadFrom = 200 * time.Microsecond

// readAhead asks for the samples of a batch that was just published, if reads have been slow lately or nobody knows.
// Workers read what they are at by themselves; this keeps the disk busy with what comes after.
func (s *Stream) readAhead(j *job) {
	set, ok := s.cfg.Set.(readAheader)
	if !ok || !s.pool.readsSlowly() {
		return
	}
	for _, index := range j.indices {
		if s.cancelled.Load() {
			return
		}
		set.ReadAhead(index)
	}
}

// readsSlowly reports whether reads have taken long in the last seconds, or there have been none.
func (p *Pool) readsSlowly() bool {
	c := p.recent.since(p.Counters(), time.Now())
	return c.Images == 0 || c.Read > time.Duration(c.Images)*readAheadFrom
}

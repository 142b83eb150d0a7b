package loader

import "time"

// prefetchFrom is the mean time of a read from which the samples of published batches are prefetched: well above what a
// sample in the page cache takes, well below what a disk does.
const prefetchFrom = 200 * time.Microsecond

// prefetch asks for the samples of a batch that was just published, if reads have been slow lately or nobody knows.
// Workers read what they are at by themselves; this keeps the disk busy with what comes after.
func (s *Stream) prefetch(indices []int) {
	if !s.pool.readsSlowly() {
		return
	}
	for _, index := range indices {
		if s.ctx.Err() != nil {
			return
		}
		s.cfg.Set.Prefetch(index)
	}
}

// readsSlowly reports whether reads have taken long in the last seconds, or there have been none.
func (p *Pool) readsSlowly() bool {
	c := p.recent.since(p.Counters(), time.Now())
	return c.Images == 0 || c.Read > time.Duration(c.Images)*prefetchFrom
}

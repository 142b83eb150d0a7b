package shard

import "os"

// Prefetch asks the system to have sample i in memory soon, without waiting for it, so that a Read that comes later
// does not wait for the disk. It is a hint: where it can't be given, nothing happens. A sample whose bytes are in memory
// already costs a microsecond.
func (s *Set) Prefetch(i int) {
	p, shard, record, err := s.locate(i)
	if err != nil {
		return
	}
	r := p.shards[shard]
	if f, ok := r.file.(*os.File); ok {
		e := r.Entry(record)
		adviseWillNeed(f, e.Offset, e.length())
	}
}

package shard

import "os"

// Prefetch asks the system to have sample i in memory soon, without waiting for it, so that a Read that comes later
// does not wait for the disk. It is a hint: where it can't be given, nothing happens. A sample whose bytes are in memory
// already costs a microsecond.
func (s *Set) Prefetch(i int) {
	r, record, err := s.reader(i)
	if err != nil {
		return
	}
	e := r.Entry(record)
	withFile(r.file, func(f *os.File) error {
		adviseWillNeed(f, e.Offset, e.length())
		return nil
	})
}

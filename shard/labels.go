package shard

import "fmt"

// Labels fills in the labels of consecutive samples, from first on: -1 where a partition is not here. All of a large set's take a fraction of
// what as many calls of Label do, since entries that are mapped are checked 32 at a time.
func (s *Set) Labels(first int, labels []int32) error {
	if end := first + len(labels); first < 0 || end > s.Len() {
		return fmt.Errorf("shard: %s: samples %d to %d of %d: %w", s.dir, first, end-1, s.Len(), ErrNotFound)
	}
	step := len(s.partitions)
	for at := range min(step, len(labels)) {
		if !s.Has((first + at) % step) {
			for k := at; k < len(labels); k += step {
				labels[k] = -1
			}
			continue
		}
		p, shard, record, err := s.locate(first + at)
		if err != nil {
			return err
		}
		for k := at; k < len(labels); shard, record = shard+1, 0 {
			r, err := p.reader(shard)
			if err != nil {
				return err
			}
			n := min(r.Len()-record, (len(labels)-k+step-1)/step)
			if bad, err := r.labels(record, n, labels[k:], step); err != nil {
				return named(err, bad, first+k+(bad-record)*step)
			}
			k += n * step
		}
	}
	return nil
}

// labels fills every step-th of dst with the labels of n samples from record on. Of an error it returns the record.
func (r *Reader) labels(record, n int, dst []int32, step int) (int, error) {
	entries, first := r.entries.bytes, 0
	var piece [pieceBytes]byte
	for j := range n {
		if at := record + j; r.entries.sums != nil && (j == 0 || at%pieceEntries == 0) {
			var err error
			first = at - at%pieceEntries
			if entries, err = r.entries.piece(at/pieceEntries, piece[:]); err != nil {
				return at, r.corruptEntry(at, err)
			}
		}
		dst[j*step] = parseEntry(entries[entrySize*(record+j-first):]).Label
	}
	return 0, nil
}

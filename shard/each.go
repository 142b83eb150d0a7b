package shard

import "fmt"

// Entries fills in what the index knows of consecutive samples, from first on; those whose partition is not here stay as they are. All of a
// large set's take a fraction of what as many calls of Entry do, since entries that are mapped are checked 32 at a time.
func (s *Set) Entries(first int, entries []Entry) error {
	return s.each(first, len(entries), func(k int, e *Entry) { entries[k] = *e }, func(int) {})
}

// Labels fills in the labels of consecutive samples, from first on, as Entries does: -1 where a partition is not here.
func (s *Set) Labels(first int, labels []int32) error {
	return s.each(first, len(labels), func(k int, e *Entry) { labels[k] = e.Label }, func(k int) { labels[k] = -1 })
}

// each calls take with the entries of n samples from first on, and absent for those whose partition is not here, with the place after first;
// a partition's samples come together.
func (s *Set) each(first, n int, take func(k int, e *Entry), absent func(k int)) error {
	if end := first + n; first < 0 || end > s.Len() {
		return fmt.Errorf("shard: %s: samples %d to %d of %d: %w", s.dir, first, end-1, s.Len(), ErrNotFound)
	}
	step := len(s.partitions)
	for at := range min(step, n) {
		if !s.Has((first + at) % step) {
			for k := at; k < n; k += step {
				absent(k)
			}
			continue
		}
		p, shard, record, err := s.locate(first + at)
		if err != nil {
			return err
		}
		for k := at; k < n; shard, record = shard+1, 0 {
			r, err := p.reader(shard)
			if err != nil {
				return err
			}
			count := min(r.Len()-record, (n-k+step-1)/step)
			if bad, err := r.each(record, count, func(j int, e *Entry) { take(k+j*step, e) }); err != nil {
				return named(err, bad, first+k+(bad-record)*step)
			}
			k += count * step
		}
	}
	return nil
}

// each calls take with n entries from record on, counted from there. Of an error it returns the record.
func (r *Reader) each(record, n int, take func(j int, e *Entry)) (int, error) {
	entries, first := r.entries.bytes, 0
	var piece [pieceBytes]byte
	for j := range n {
		at := record + j
		if r.entries.sums != nil && (j == 0 || at%pieceEntries == 0) {
			var err error
			first = at - at%pieceEntries
			if entries, err = r.entries.piece(at/pieceEntries, piece[:]); err != nil {
				return at, r.corruptEntry(at, err)
			}
		}
		e := parseEntry(entries[entrySize*(at-first):])
		if r.entries.sums != nil {
			if err := r.checkEntry(&e, r.footer.recordsOffset); err != nil { // as Entry does
				return at, r.corruptEntry(at, err)
			}
		}
		take(j, &e)
	}
	return 0, nil
}

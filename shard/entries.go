package shard

import "fmt"

// Entry returns the entry of sample j, 0 ≤ j < Len().
func (r *reader) Entry(j int) Entry {
	e := parseEntry(r.entries[entrySize*j:])
	if e.Label >= 0 && int(e.Label) < len(r.labels) {
		e.Label = r.labels[e.Label]
	}
	return e
}

func (r *reader) corruptEntry(j int, err error) error {
	return &CorruptError{Path: r.path, Section: "entries", Record: j, Index: -1,
		Offset: r.footer.EntriesOffset + entrySize*int64(j), Err: err}
}

// checkEntry returns an entry's fault. Its record may begin at byte free.
func (r *reader) checkEntry(e *Entry, free int64) error {
	f, length := &r.footer, e.length()
	switch {
	case e.Offset < free || e.Offset != alignUp(e.Offset) || e.Offset > f.RecordsEnd || length > f.RecordsEnd-e.Offset:
		return fmt.Errorf("%d bytes at byte %d, not within the free bytes %d to %d", length, e.Offset, free, f.RecordsEnd)
	case length > RecordBytesMax:
		return fmt.Errorf("%d bytes, and a record has at most %d", length, RecordBytesMax)
	case e.FieldsLength > 0 && len(r.header.Fields) == 0:
		return fmt.Errorf("%d bytes of fields, and the shard has none", e.FieldsLength)
	case e.Label < -1 || e.Width < 1 || e.Height < 1:
		return fmt.Errorf("label %d, width %d, height %d", e.Label, e.Width, e.Height)
	}
	return nil
}

// readEntries reads the entries and checks each.
func (r *reader) readEntries() error {
	f := &r.footer
	r.entries = make([]byte, entrySize*int(f.Count))
	if err := r.readAt(r.entries, f.EntriesOffset, "entries"); err != nil {
		return err
	}
	if got := checksum(r.entries); got != f.EntriesCRC {
		return corrupt(r.path, "entries", f.EntriesOffset, &ChecksumError{Length: int64(len(r.entries)), Want: f.EntriesCRC, Got: got})
	}
	free := f.RecordsOffset
	for j := range r.Len() {
		e := r.Entry(j)
		if err := r.checkEntry(&e, free); err != nil {
			return r.corruptEntry(j, err)
		}
		free = e.Offset + e.length()
	}
	return nil
}

// checkLabels checks that every label is the index of a class. Without classes any label will do.
func (r *reader) checkLabels(classes []string) error {
	for j := range r.Len() {
		if e := r.Entry(j); len(classes) > 0 && int(e.Label) >= len(classes) {
			return r.corruptEntry(j, fmt.Errorf("label %d of %d classes", e.Label, len(classes)))
		}
	}
	return nil
}

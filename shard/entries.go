package shard

import (
	"fmt"

	"github.com/imgfeed/imgfeed/shard/storage"
)

// entryTable is the entries of a shard, 40 bytes for each sample. They lie in memory of our own, checked once, or in a mapping of the
// file, and all processes of the machine share its pages. The kernel may drop a page of a mapping and read it again from the disk, so
// every use compares its bytes with the sums of the first check, 32 entries at a time.
//
//	entry   0 … 31 | 32 … 63 | …      1,280 bytes
//	sums       0   |    1    | …      of our own: 4 bytes for 32 samples
type entryTable struct {
	bytes   []byte
	mapping []byte   // mapping around bytes; nil if they are our own
	sums    []uint32 // CRC-32C of each piece of a mapping
	largest int      // the entry with the largest label
}

const (
	pieceEntries = 32
	pieceBytes   = pieceEntries * entrySize

	// entriesOwnBytesMax bounds the memory of our own that the entries of a set take: enough for 1.6 million samples, ImageNet's for
	// one. Entries of larger sets are mapped. A lookup then takes about twice as long, and a truncated shard loses all of its
	// samples.
	entriesOwnBytesMax = 64 << 20
)

// at returns entry j.
func (t *entryTable) at(j int) (Entry, error) {
	if t.sums == nil {
		return parseEntry(t.bytes[entrySize*j:]), nil
	}
	return t.mapped(j)
}

// mapped is at where entries are mapped.
func (t *entryTable) mapped(j int) (Entry, error) {
	var entry [entrySize]byte
	err := t.check(j/pieceEntries, func(piece []byte) { copy(entry[:], piece[entrySize*(j%pieceEntries):]) })
	return parseEntry(entry[:]), err
}

// piece copies piece k of a mapping to buf and returns it.
func (t *entryTable) piece(k int, buf []byte) (copied []byte, err error) {
	err = t.check(k, func(piece []byte) { copied = buf[:copy(buf, piece)] })
	return copied, err
}

// check has piece k of a mapping copied and compares it with its checksum.
func (t *entryTable) check(k int, take func(piece []byte)) error {
	piece := t.bytes[k*pieceBytes : min((k+1)*pieceBytes, len(t.bytes))]
	return guardMemory(piece, func() error {
		take(piece)
		if got := checksum(piece); got != t.sums[k] {
			return fmt.Errorf("the file has changed since it was opened: %w",
				&ChecksumError{Length: int64(len(piece)), Want: t.sums[k], Got: got})
		}
		return nil
	})
}

// close gives a mapping back. Who uses entries meanwhile gets an error.
func (t *entryTable) close() error { return storage.Unmap(t.mapping) }

// Entry returns the entry of sample j, 0 ≤ j < Len(). The error is a *CorruptError: the file has changed since it was opened.
func (r *reader) Entry(j int) (Entry, error) {
	e, err := r.entries.at(j)
	if err == nil && r.entries.sums != nil {
		// Whoever writes to the file now may write what has the right checksum: no place outside of the records is believed.
		err = r.checkEntry(&e, r.footer.recordsOffset)
	}
	if err != nil {
		return Entry{}, r.corruptEntry(j, err)
	}
	r.label(&e)
	return e, nil
}

// label has an entry bear the label of joined sets.
func (r *reader) label(e *Entry) {
	if r.labels != nil && e.Label >= 0 {
		e.Label = r.labels[e.Label]
	}
}

func (r *reader) corruptEntry(j int, err error) error {
	return &CorruptError{Path: r.path, Section: "entries", Record: j, Index: -1,
		Offset: r.footer.entriesOffset + entrySize*int64(j), Err: err}
}

// checkEntry returns an entry's fault. Its record may begin at byte free.
func (r *reader) checkEntry(e *Entry, free int64) error {
	f, length := &r.footer, e.length()
	switch {
	case e.Offset < free || e.Offset != alignUp(e.Offset) || e.Offset > f.recordsEnd || length > f.recordsEnd-e.Offset:
		return fmt.Errorf("%d bytes at byte %d, not within the free bytes %d to %d", length, e.Offset, free, f.recordsEnd)
	case length > RecordBytesMax:
		return fmt.Errorf("%d bytes, and a record has at most %d", length, RecordBytesMax)
	case e.FieldsLength > 0 && len(r.header.Fields) == 0:
		return fmt.Errorf("%d bytes of fields, and the shard has none", e.FieldsLength)
	case e.Label < -1 || e.Width < 1 || e.Height < 1:
		return fmt.Errorf("label %d, width %d, height %d", e.Label, e.Width, e.Height)
	}
	return nil
}

// readEntries reads the entries and checks each: into private memory, or piece by piece if they will be mapped.
func (r *reader) readEntries() error {
	t, buf := r.newEntryTable()
	w := entryWalk{reader: r, table: t, free: r.footer.recordsOffset, labelMax: -1}
	length := entrySize * int(r.footer.count)
	for at := 0; at < length; at += len(buf) {
		if err := w.read(buf[:min(len(buf), length-at)], at); err != nil {
			t.close()
			return err
		}
	}
	err := w.impossible
	if w.crc != r.footer.entriesCRC {
		err = corrupt(r.path, "entries", r.footer.entriesOffset,
			&ChecksumError{Length: int64(length), Want: r.footer.entriesCRC, Got: w.crc})
	}
	if err != nil {
		t.close()
		return err
	}
	r.entries = *t
	return nil
}

// newEntryTable returns an empty table and a buffer to read entries through, which is the table's own memory unless it is a mapping.
func (r *reader) newEntryTable() (*entryTable, []byte) {
	const readBytes = 64 * pieceBytes
	length := entrySize * int64(r.footer.count)
	if r.mapEntries {
		first := r.footer.entriesOffset &^ (pageSize - 1)
		// A system that maps no files, or no more of them, leaves the entries in memory of our own.
		if m, err := r.mapPart(first, r.footer.entriesOffset+length-first); err == nil {
			return &entryTable{bytes: m[r.footer.entriesOffset-first:], mapping: m, sums: []uint32{}}, make([]byte, min(length, readBytes))
		}
	}
	own := make([]byte, length)
	return &entryTable{bytes: own}, own
}

// entryWalk goes through the entries of a shard from the first to the last.
type entryWalk struct {
	*reader
	table      *entryTable
	crc        uint32
	free       int64 // the next record may begin here
	labelMax   int32
	impossible error // the first entry that cannot be
}

// read reads the entries from byte at of the table into p: whole pieces, except the last.
func (w *entryWalk) read(p []byte, at int) error {
	if err := w.readAt(p, w.footer.entriesOffset+int64(at), "entries"); err != nil {
		return err
	}
	if at == 0 {
		w.crc = checksum(p)
	} else {
		w.crc = crc32Append(w.crc, p)
	}
	for i := 0; w.table.sums != nil && i < len(p); i += pieceBytes {
		w.table.sums = append(w.table.sums, checksum(p[i:min(i+pieceBytes, len(p))]))
	}
	for i := 0; i < len(p) && w.impossible == nil; i += entrySize {
		e, j := parseEntry(p[i:]), (at+i)/entrySize
		if err := w.checkEntry(&e, w.free); err != nil {
			w.impossible = w.corruptEntry(j, err)
		}
		if e.Label > w.labelMax {
			w.labelMax, w.table.largest = e.Label, j
		}
		w.free = e.Offset + e.length()
	}
	return nil
}

// checkLabels checks that every label is the index of a class. Without classes any label will do.
func (r *reader) checkLabels(classes []string) error {
	if len(classes) == 0 || r.Len() == 0 {
		return nil
	}
	e, err := r.Entry(r.entries.largest)
	if err == nil && int(e.Label) >= len(classes) {
		err = r.corruptEntry(r.entries.largest, fmt.Errorf("label %d of %d classes", e.Label, len(classes)))
	}
	return err
}

// Entries fills in the index's entries of consecutive samples, from first on; samples in missing partitions stay as they are. For a
// large set it takes a fraction of the time of as many calls of Entry, since mapped entries are checked 32 at a time.
func (s *Set) Entries(first int, entries []Entry) error {
	return s.eachEntry(first, len(entries), func(k int, e *Entry) { entries[k] = *e }, func(int) {})
}

// Labels fills in the labels of consecutive samples, from first on, as Entries does: -1 where a partition is not here.
func (s *Set) Labels(first int, labels []int32) error {
	return s.eachEntry(first, len(labels), func(k int, e *Entry) { labels[k] = e.Label }, func(k int) { labels[k] = -1 })
}

// Sizes fills in width and height, in pixels, of consecutive samples, from first on: 0 where a partition is not here.
func (s *Set) Sizes(first int, sizes [][2]int32) error {
	clear(sizes)
	return s.eachEntry(first, len(sizes), func(k int, e *Entry) { sizes[k] = [2]int32{e.Width, e.Height} }, func(int) {})
}

// eachEntry calls take with the entries of n samples from first on, and absent for samples in missing partitions, with the place
// after first; a partition's samples come together.
func (s *Set) eachEntry(first, n int, take func(k int, e *Entry), absent func(k int)) error {
	if end := first + n; first < 0 || end > s.Len() {
		return fmt.Errorf("shard: %s: samples %d to %d of %d: %w", s.dir, first, end-1, s.Len(), ErrNotFound)
	}
	if s.joined != nil {
		return s.each(func(part *Set, start int) error {
			begin, end := max(first, start), min(first+n, start+part.Len())
			if begin >= end {
				return nil
			}
			return part.eachEntry(begin-start, end-begin, func(k int, e *Entry) { take(k+begin-first, e) }, nil)
		})
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
func (r *reader) each(record, n int, take func(j int, e *Entry)) (int, error) {
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
			if err := r.checkEntry(&e, r.footer.recordsOffset); err != nil { // Entry checks it too.
				return at, r.corruptEntry(at, err)
			}
		}
		r.label(&e)
		take(j, &e)
	}
	return 0, nil
}

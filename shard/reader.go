package shard

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime/debug"
	"unsafe"

	"github.com/imgfeed/imgfeed/internal/crc32c"
	"github.com/imgfeed/imgfeed/shard/storage"
)

// reader reads one shard file. It keeps the file open. Its entries (40 bytes a sample) stay in
// memory. Keys and records are read on demand. All methods may be called by many goroutines at once.
type reader struct {
	path    string
	file    storage.File
	footer  footer
	header  header
	entries []byte                              // checked
	mapped  []byte                              // the whole file; nil unless Map has mapped it
	index   func(offset int64, err error) error // says whose record is damaged, in an index; nil: it is of a shard
	labels  []int32                             // labels that replace those of the entries; nil: no change
}

// Record is a sample as read from a shard. Image, Aux and Fields lie in the buffer that was given to Read, with at least
// SlackBytes readable bytes after each of them: Image[:len(Image)+SlackBytes] is in range.
type Record struct {
	Entry
	Image  []byte
	Aux    []byte
	Fields []byte // the values of the set's fields, which Fields.Split takes apart
}

// makeRecord divides the bytes of an entry's record.
func makeRecord(e Entry, bytes []byte) Record {
	auxEnd := e.ImageLength + e.AuxLength
	return Record{Entry: e, Image: bytes[:e.ImageLength], Aux: bytes[e.ImageLength:auxEnd], Fields: bytes[auxEnd:]}
}

// openReader opens the shard that f holds, and closes f if that fails. It checks the shard's footer, header and entries, and every
// offset and length that they name, and reads no record and no key. The error is *CorruptError, *UnsupportedError, or the file system's.
func openReader(path string, f storage.File) (*reader, error) {
	r := &reader{path: path, file: f}
	for _, step := range []func() error{r.readFooter, r.readHeader, r.readEntries} {
		if err := step(); err != nil {
			f.Close()
			return nil, err
		}
	}
	return r, nil
}

// readAt fills p from offset. A file that ends before is a *CorruptError; other failures are the file system's, a *ReadError.
func (r *reader) readAt(p []byte, offset int64, section string) error {
	n, err := r.file.ReadAt(p, offset)
	if n == len(p) {
		return nil
	}
	return r.unread(n, len(p), offset, section, err)
}

// unread is the error of a read that gave n bytes, which were too few.
func (r *reader) unread(n, length int, offset int64, section string, err error) error {
	if err == nil || err == io.EOF || err == io.ErrUnexpectedEOF {
		return r.corrupt(section, offset, fmt.Errorf("%d bytes, and the file ends after %d of them: %w", length, n, io.ErrUnexpectedEOF))
	}
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err // ReadError names the path.
	}
	return &ReadError{Path: r.path, Section: section, Record: -1, Index: -1, Offset: offset, Length: length, Err: err}
}

// corrupt makes a *CorruptError for a part of an open shard.
func (r *reader) corrupt(section string, offset int64, err error) *CorruptError {
	if r.index != nil {
		err = r.index(offset, err)
	}
	return corrupt(r.path, section, offset, err)
}

func (r *reader) readFooter() error {
	size := r.file.Size()
	if size < prefixSize+4+SlackBytes+footerSize {
		return corrupt(r.path, "file", 0, fmt.Errorf("%d bytes are too few for a shard: %w", size, io.ErrUnexpectedEOF))
	}
	p := make([]byte, footerSize)
	at := size - footerSize
	if err := r.readAt(p, at, "footer"); err != nil {
		return err
	}
	if string(p[footerMagicAt:]) != magicEnd {
		return corrupt(r.path, "footer", at+footerMagicAt,
			fmt.Errorf("ends with %q, a shard with %q: the file is cut short or still being copied", p[footerMagicAt:], magicEnd))
	}
	f := parseFooter(p)
	if got := crc32c.Checksum(p[:footerCRCAt]); got != f.CRC {
		return corrupt(r.path, "footer", at, &ChecksumError{Length: footerCRCAt, Want: f.CRC, Got: got})
	}
	if f.Version < versionOldest || f.Version > versionCurrent {
		return &UnsupportedError{Path: r.path, Version: f.Version}
	}
	if err := f.check(size); err != nil {
		return corrupt(r.path, "footer", at, err)
	}
	r.footer = f
	return nil
}

// readHeader reads and checks the prefix, which must have the footer's version, and the JSON after it.
func (r *reader) readHeader() error {
	p := make([]byte, r.footer.RecordsOffset)
	if err := r.readAt(p, 0, "header"); err != nil {
		return err
	}
	if string(p[:8]) != magicStart {
		return corrupt(r.path, "header", 0, fmt.Errorf("begins with %q, a shard with %q", p[:8], magicStart))
	}
	if first := Version(binary.LittleEndian.Uint32(p[8:])); first != r.footer.Version {
		return corrupt(r.path, "header", 8, fmt.Errorf("version %d, and %d in the footer", first, r.footer.Version))
	}
	length := int64(binary.LittleEndian.Uint32(p[12:]))
	end := prefixSize + length
	if alignUp(end+4) != r.footer.RecordsOffset {
		return corrupt(r.path, "header", 12, fmt.Errorf("%d bytes do not end where the records begin, at byte %d",
			length, r.footer.RecordsOffset))
	}
	got := crc32c.Checksum(p[:end])
	for _, want := range []uint32{binary.LittleEndian.Uint32(p[end:]), r.footer.HeaderCRC} {
		if got != want {
			return corrupt(r.path, "header", 0, &ChecksumError{Length: end, Want: want, Got: got})
		}
	}
	if err := json.Unmarshal(p[prefixSize:end], &r.header); err != nil {
		return corrupt(r.path, "header", prefixSize, err)
	}
	if err := r.header.Fields.checkVersion(r.footer.Version); err != nil {
		return corrupt(r.path, "header", prefixSize, err)
	}
	return nil
}

// Entry returns the entry of sample j, 0 ≤ j < Len().
func (r *reader) Entry(j int) Entry {
	e := parseEntry(r.entries[entrySize*j:])
	if e.Label >= 0 && int(e.Label) < len(r.labels) {
		e.Label = r.labels[e.Label]
	}
	return e
}

func (r *reader) corruptEntry(j int, err error) error {
	return named(corrupt(r.path, "entries", r.footer.EntriesOffset+entrySize*int64(j), err), j, -1)
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

func (r *reader) readEntries() error {
	f := &r.footer
	r.entries = make([]byte, entrySize*int(f.Count))
	if err := r.readAt(r.entries, f.EntriesOffset, "entries"); err != nil {
		return err
	}
	if got := crc32c.Checksum(r.entries); got != f.EntriesCRC {
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

// Len returns the number of samples.
func (r *reader) Len() int { return int(r.footer.Count) }

// Read reads sample j, 0 ≤ j < Len(), into buf and checks its checksum. It replaces a buf with too little room. The buffer used is
// returned, also with an error, for the next call. The bytes after the record, up to SlackBytes, are 0.
func (r *reader) Read(j int, buf []byte) (Record, []byte, error) {
	e := r.Entry(j)
	length := int(e.length())
	buf = growBuffer(buf, length+SlackBytes)
	record, err := r.record(j, e, buf[:length], r.readAt(buf[:length], e.Offset, "record"))
	return record, buf, err
}

// record returns the record in bytes; err is the error of reading them. Wrong bytes are read once more, from their origin if a cache
// gave them; so are bytes that a disk could not read. A store's error stays as it is: storage has tried again.
func (r *reader) record(j int, e Entry, bytes []byte, err error) (record Record, _ error) {
	for again := false; ; again = true {
		if err == nil {
			record, err = r.check(e, bytes)
		}
		if _, remote := errors.AsType[*storage.RemoteError](err); err == nil || again || remote {
			return record, named(err, j, -1)
		}
		forget(r.file, e.Offset, int64(len(bytes)))
		err = r.readAt(bytes, e.Offset, "record")
	}
}

// forget reports whether another read of a range may give other bytes: those of a store, and not of its cache, which has forgotten them.
func forget(f storage.File, offset, length int64) bool {
	cached, is := f.(storage.Forgetter)
	if is {
		cached.Forget(offset, length)
	}
	return is
}

// check returns the record in bytes, if they have its checksum. It clears the bytes after them.
func (r *reader) check(e Entry, bytes []byte) (Record, error) {
	if got := crc32c.Checksum(bytes); got != e.Checksum {
		return Record{}, r.corrupt("record", e.Offset, &ChecksumError{Length: int64(len(bytes)), Want: e.Checksum, Got: got})
	}
	clear(bytes[len(bytes) : len(bytes)+SlackBytes])
	return makeRecord(e, bytes[:len(bytes):len(bytes)+SlackBytes]), nil
}

// growBuffer returns buf with at least n bytes of length, or a new buffer with an eighth to spare.
func growBuffer(buf []byte, n int) []byte {
	if cap(buf) < n {
		const page = 4096
		return make([]byte, (n+n/8+page-1)&^(page-1))
	}
	return buf[:cap(buf)]
}

// keyTable holds the keys of one shard, checked. It is read-only.
type keyTable struct {
	shard   int    // number within the partition
	offsets []byte // count+1 u32, from the start of blob
	blob    []byte
}

func (k *keyTable) Len() int { return len(k.offsets)/4 - 1 }

func (k *keyTable) At(j int) string {
	return string(k.blob[binary.LittleEndian.Uint32(k.offsets[4*j:]):binary.LittleEndian.Uint32(k.offsets[4*j+4:])])
}

// Keys reads the whole key section and checks it. It is large (some 30 bytes a sample): callers drop it when they can.
func (r *reader) Keys() (*keyTable, error) {
	f := &r.footer
	p := make([]byte, f.KeysLength)
	if err := r.readAt(p, f.KeysOffset, "keys"); err != nil {
		return nil, err
	}
	got := crc32c.Checksum(p)
	if got != f.KeysCRC && forget(r.file, f.KeysOffset, f.KeysLength) {
		if err := r.readAt(p, f.KeysOffset, "keys"); err != nil {
			return nil, err
		}
		got = crc32c.Checksum(p)
	}
	if got != f.KeysCRC {
		return nil, r.corrupt("keys", f.KeysOffset, &ChecksumError{Length: f.KeysLength, Want: f.KeysCRC, Got: got})
	}
	table := 4 * (int(f.Count) + 1)
	k := &keyTable{shard: r.header.Shard, offsets: p[:table], blob: p[table:]}
	last := uint32(0)
	for j := range int(f.Count) + 1 {
		at := binary.LittleEndian.Uint32(k.offsets[4*j:])
		if at < last || int64(at) > int64(len(k.blob)) || at-last > keyBytesMax || (j == 0) != (at == last) {
			return nil, corrupt(r.path, "keys", f.KeysOffset+4*int64(j), fmt.Errorf("key %d begins at byte %d of %d, after %d",
				j, at, len(k.blob), last))
		}
		last = at
	}
	if int64(last) != int64(len(k.blob)) {
		return nil, corrupt(r.path, "keys", f.KeysOffset, fmt.Errorf("keys end at byte %d of %d", last, len(k.blob)))
	}
	return k, nil
}

// Close closes the file. Running reads fail or finish; they never read another file. No view may be in use.
func (r *reader) Close() error {
	bytes := r.mapped
	r.mapped = nil
	return errors.Join(storage.Unmap(bytes), r.file.Close())
}

// Map maps every shard here into memory, so that View can hand out records without copying them. It reads nothing, and comes before all
// other uses of the set. The error says why a file can't be mapped; Read works all the same.
func (s *Set) Map() error {
	for r := range s.shards() {
		err := errors.ErrUnsupported
		if m, ok := r.file.(interface{ Map() ([]byte, error) }); ok && r.mapped == nil {
			r.mapped, err = m.Map()
		}
		if r.mapped == nil {
			return fmt.Errorf("shard: %s: map %d bytes: %w", r.path, r.footer.FileLength, err)
		}
	}
	return nil
}

// View returns sample i, as Read does, but without a copy: its slices lie in the file's mapping, read-only. They are valid until the
// set is closed, and the caller closes it only after the last use of a view. Map must have succeeded.
//
// View is for samples in memory, likely to stay there. Others are read by page faults, and in each the thread waits without
// Go's knowledge. Where memory is short, the kernel takes long to find out that mapped pages are not in use.
//
// View has just checked the record's checksum, on the very memory that it hands out. It can't rule out that the file changes
// afterwards: truncation under a view makes the pages after the new end fault. So a caller uses the slices within [Guard], and never
// assumes that a second read finds the same bytes.
func (s *Set) View(i int) (Record, error) {
	r, record, err := s.reader(i)
	if err != nil {
		return Record{}, err
	}
	rec, err := r.view(record)
	return rec, named(err, record, i)
}

func (r *reader) view(j int) (rec Record, err error) {
	e := r.Entry(j)
	length := e.length()
	// After the last record lie slack, entries and footer, so that the slices' capacity is within the file.
	bytes := r.mapped[e.Offset : e.Offset+length : e.Offset+length+SlackBytes]
	err = Guard(func() error {
		if got := crc32c.Checksum(bytes); got != e.Checksum {
			return &ChecksumError{Length: length, Want: e.Checksum, Got: got}
		}
		return nil
	})
	if panicked, ok := err.(*PanicError); ok {
		if err = panicked.Fault(bytes); err == nil {
			panic(panicked)
		}
	}
	if err != nil {
		return Record{}, corrupt(r.path, "record", e.Offset, err)
	}
	return makeRecord(e, bytes), nil
}

// Mapped returns where sample i lies in its file's mapping, unchecked, for whoever will want it soon and can have it
// brought nearer. Nothing of it may be read. It is nil if there is no such sample here, or no mapping.
func (s *Set) Mapped(i int) []byte {
	r, record, err := s.reader(i)
	if err != nil || r.mapped == nil {
		return nil
	}
	e := r.Entry(record)
	return r.mapped[e.Offset : e.Offset+e.length()]
}

// Guard calls do, and returns its error. A panic becomes a [*PanicError], as does a fault of a mapped file that is truncated or unreadable.
func Guard(do func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{Value: p, Stack: debug.Stack()}
		}
	}()
	return do()
}

// A PanicError is a panic within [Guard].
type PanicError struct {
	Value any // value passed to panic
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.Value, e.Stack) }

// Fault returns an error that describes a fault in memory mapped from a file; nil if the panic was anything else.
func (e *PanicError) Fault(memory []byte) error {
	fault, ok := e.Value.(interface {
		error
		Addr() uintptr
	})
	if !ok || cap(memory) == 0 {
		return nil
	}
	start := uintptr(unsafe.Pointer(unsafe.SliceData(memory)))
	if fault.Addr() < start || fault.Addr() >= start+uintptr(cap(memory)) {
		return nil
	}
	return fmt.Errorf("byte %d of the mapped record cannot be read: the file was cut short, or its disk failed", fault.Addr()-start)
}

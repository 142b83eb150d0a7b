package shard

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/imgfeed/imgfeed/shard/storage"
)

// Reader reads one shard file. It keeps the file open, as long as there are descriptors enough, and its entries (40 bytes a sample) in
// memory, its own or in a very large set the page cache's; keys and records are read when they are asked for. All methods may be called by many goroutines at once.
type Reader struct {
	path    string
	file    storage.File
	footer  footer
	header  header
	entries entryTable // checked
	mapped  mapping

	mapEntries bool // not to have entries in memory of our own
}

// Record is a sample as read from a shard. Image, Aux and Fields lie in the buffer that was given to Read, with at least
// SlackBytes readable bytes after each of them: Image[:len(Image)+SlackBytes] is in range.
type Record struct {
	Entry
	Image []byte
	Aux   []byte
	// Fields holds the values of the set's fields, which Fields.Split takes apart.
	Fields []byte
}

// makeRecord divides the bytes of an entry's record.
func makeRecord(e Entry, bytes []byte) Record {
	auxEnd := e.ImageLength + e.AuxLength
	return Record{Entry: e, Image: bytes[:e.ImageLength], Aux: bytes[e.ImageLength:auxEnd], Fields: bytes[auxEnd:]}
}

// OpenReader opens the shard file at path, checks its footer, header and entries, and every place and length they
// name. It reads no record and no key. The error is *CorruptError, *UnsupportedError, or the file system's.
func OpenReader(path string) (*Reader, error) {
	f, err := storage.OpenFile(path)
	if err != nil {
		return nil, err
	}
	return openReader(path, f, false)
}

// openReader opens the shard that f holds, and closes f if that fails.
func openReader(path string, f storage.File, mapEntries bool) (*Reader, error) {
	r := &Reader{path: path, file: f, mapEntries: mapEntries}
	for _, step := range []func() error{r.readFooter, r.readHeader, r.readEntries} {
		if err := step(); err != nil {
			f.Close()
			return nil, err
		}
	}
	return r, nil
}

// readAt fills p from offset. A file that ends before is a *CorruptError; other failures are the file system's, a *ReadError.
func (r *Reader) readAt(p []byte, offset int64, section string) error {
	n, err := r.file.ReadAt(p, offset)
	if n == len(p) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return corrupt(r.path, section, offset, fmt.Errorf("%d bytes, and the file ends after %d of them: %w", len(p), n, io.ErrUnexpectedEOF))
	}
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err // the path is told anyway
	}
	return &ReadError{Path: r.path, Section: section, Record: -1, Index: -1, Offset: offset, Length: len(p), Err: err}
}

// readFooter reads and checks the footer, and the prefix, whose version must be the same.
func (r *Reader) readFooter() error {
	size := r.file.Size()
	if size < prefixSize+4+SlackBytes+footerSize {
		return corrupt(r.path, "file", 0, fmt.Errorf("%d bytes are too few for a shard: %w", size, io.ErrUnexpectedEOF))
	}
	var prefix [prefixSize]byte
	if err := r.readAt(prefix[:], 0, "header"); err != nil {
		return err
	}
	if string(prefix[:8]) != magicStart {
		return corrupt(r.path, "header", 0, fmt.Errorf("begins with %q, a shard with %q", prefix[:8], magicStart))
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
	first := Version(binary.LittleEndian.Uint32(prefix[8:]))
	f := parseFooter(p)
	if first != f.version {
		return corrupt(r.path, "header", 8, fmt.Errorf("version %d, and %d in the footer", first, f.version))
	}
	if first < VersionOldest || first > VersionCurrent {
		return &UnsupportedError{Path: r.path, Version: first}
	}
	if got := checksum(p[:footerCRCAt]); got != f.crc {
		return corrupt(r.path, "footer", at, &ChecksumError{Length: footerCRCAt, Want: f.crc, Got: got})
	}
	if err := f.check(size); err != nil {
		return corrupt(r.path, "footer", at, err)
	}
	r.footer = f
	return nil
}

// readHeader reads and checks the prefix and the JSON after it.
func (r *Reader) readHeader() error {
	p := make([]byte, r.footer.recordsOffset)
	if err := r.readAt(p, 0, "header"); err != nil {
		return err
	}
	length := int64(binary.LittleEndian.Uint32(p[12:]))
	end := prefixSize + length
	if alignUp(end+4) != r.footer.recordsOffset {
		return corrupt(r.path, "header", 12, fmt.Errorf("%d bytes do not end where the records begin, at byte %d", length, r.footer.recordsOffset))
	}
	got, want := checksum(p[:end]), binary.LittleEndian.Uint32(p[end:])
	if got != want || got != r.footer.headerCRC {
		if got == want {
			want = r.footer.headerCRC
		}
		return corrupt(r.path, "header", 0, &ChecksumError{Length: end, Want: want, Got: got})
	}
	if err := json.Unmarshal(p[prefixSize:end], &r.header); err != nil {
		return corrupt(r.path, "header", prefixSize, err)
	}
	if err := r.header.Fields.checkVersion(r.footer.version); err != nil {
		return corrupt(r.path, "header", prefixSize, err)
	}
	return nil
}

// Path returns the file's path.
func (r *Reader) Path() string { return r.path }

// Len returns the number of samples.
func (r *Reader) Len() int { return int(r.footer.count) }

// Encoding returns how the images are stored.
func (r *Reader) Encoding() Encoding { return r.header.Encoding }

// Read reads sample j, 0 ≤ j < Len(), into buf and checks its checksum. A buf that is too small is replaced; the
// buffer used is returned, also with an error, for the next call. The bytes after the record, up to SlackBytes, are 0.
func (r *Reader) Read(j int, buf []byte) (Record, []byte, error) {
	e, err := r.Entry(j)
	if err != nil {
		return Record{}, buf, err
	}
	length := int(e.length())
	buf = growBuffer(buf, length+SlackBytes)
	if err := r.readAt(buf[:length], e.Offset, "record"); err != nil {
		return Record{}, buf, named(err, j, -1)
	}
	record, err := r.check(j, e, buf[:length])
	return record, buf, err
}

// check returns the record whose bytes were read, if they have its checksum. It clears the bytes after them.
func (r *Reader) check(j int, e Entry, bytes []byte) (Record, error) {
	if got := checksum(bytes); got != e.Checksum {
		return Record{}, r.corruptRecord(j, &e, &ChecksumError{Length: int64(len(bytes)), Want: e.Checksum, Got: got})
	}
	clear(bytes[len(bytes) : len(bytes)+SlackBytes])
	return makeRecord(e, bytes[:len(bytes):len(bytes)+SlackBytes]), nil
}

func (r *Reader) corruptRecord(j int, e *Entry, err error) error {
	return &CorruptError{Path: r.path, Section: "record", Record: j, Index: -1, Offset: e.Offset, Err: err}
}

// growBuffer returns buf with at least n bytes of length, or a new buffer with an eighth to spare.
func growBuffer(buf []byte, n int) []byte {
	if cap(buf) < n {
		const page = 4096
		return make([]byte, (n+n/8+page-1)&^(page-1))
	}
	return buf[:cap(buf)]
}

// Keys holds the keys of one shard, checked. It is read-only.
type Keys struct {
	offsets []byte // count+1 u32, from the start of blob
	blob    []byte
}

// Len returns the number of keys.
func (k *Keys) Len() int { return len(k.offsets)/4 - 1 }

// At returns key j.
func (k *Keys) At(j int) string {
	return string(k.blob[binary.LittleEndian.Uint32(k.offsets[4*j:]):binary.LittleEndian.Uint32(k.offsets[4*j+4:])])
}

// Keys reads the whole key section and checks it. It is large (some 30 bytes a sample): callers drop it when they can.
func (r *Reader) Keys() (*Keys, error) {
	f := &r.footer
	p := make([]byte, f.keysLength)
	if err := r.readAt(p, f.keysOffset, "keys"); err != nil {
		return nil, err
	}
	if got := checksum(p); got != f.keysCRC {
		return nil, corrupt(r.path, "keys", f.keysOffset, &ChecksumError{Length: f.keysLength, Want: f.keysCRC, Got: got})
	}
	table := 4 * (int(f.count) + 1)
	k := &Keys{offsets: p[:table], blob: p[table:]}
	last := uint32(0)
	for j := range int(f.count) + 1 {
		at := binary.LittleEndian.Uint32(k.offsets[4*j:])
		if at < last || int64(at) > int64(len(k.blob)) || at-last > KeyBytesMax || (j == 0) != (at == last) {
			return nil, corrupt(r.path, "keys", f.keysOffset+4*int64(j), fmt.Errorf("key %d begins at byte %d of %d, after %d", j, at, len(k.blob), last))
		}
		last = at
	}
	if int64(last) != int64(len(k.blob)) {
		return nil, corrupt(r.path, "keys", f.keysOffset, fmt.Errorf("keys end at byte %d of %d", last, len(k.blob)))
	}
	return k, nil
}

// Close closes the file. Reads that are under way fail or finish; none reads another file. No view may be in use.
func (r *Reader) Close() error {
	r.mapped.once.Do(func() { r.mapped.err = os.ErrClosed }) // so that it is not mapped later
	bytes := r.mapped.bytes
	r.mapped.bytes = nil
	return errors.Join(r.entries.close(), storage.Unmap(bytes), r.file.Close())
}

package shard

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"log/slog"
	"sort"
	"sync"
	"time"

	"github.com/imgfeed/imgfeed/internal/crc32c"
	"github.com/imgfeed/imgfeed/internal/termsafe"
	"github.com/imgfeed/imgfeed/shard/storage"
)

// Index says that a set is an index: its files lack the images, which lie in objects elsewhere, such as tars in a bucket.
//
// A file of it is a shard without the images, a table of where the images would lie in the shard, and a trailer. [indexedFile] reads it as
// if it were the shard, so nothing else knows of indexes. docs/format/index.md specifies every byte.
type Index struct {
	Source  string `json:"source"`  // a folder's path, or a URL, with the objects
	Objects int    `json:"objects"` // number of lines in ObjectsName
	SHA256  string `json:"sha256"`  // checksum of ObjectsName
}

// ShardIndex is what the manifest knows of a file of an index.
type ShardIndex struct {
	Bytes int64 `json:"bytes"` // length of the index's file; ShardInfo has the lengths of the shard that it represents
	Tail  int64 `json:"tail"`  // start of entries, keys, table and trailer, all read when the file is opened
}

// Outside says where the image of a sample lies that an index does not hold.
type Outside struct {
	Object   int   // its line in ObjectsName, counted from 0
	Offset   int64 // offset in the object
	Length   int
	Checksum uint32 // CRC-32C
}

// OutsideOf returns an index's record of an image, without saying where the image lies.
func OutsideOf(image []byte) *Outside {
	return &Outside{Length: len(image), Checksum: crc32c.Checksum(image)}
}

const (
	magicIndex   = "imgindex"
	locationSize = 32
	trailerSize  = 64
	trailerCRCAt = 60
	indexedAlign = 4096 // alignment of records: a cache's blocks hold one record each
)

// imageLocation is an entry of the table: bytes [at, at+length) of the shard are the image, and byte rest of the file is what follows it.
type imageLocation struct {
	at, rest int64
	length   uint32
	object   uint32
	offset   int64 // offset in the object
}

func (p *imageLocation) end() int64 { return p.at + int64(p.length) }

// indexTrailer ends a file of an index, as it lies there.
type indexTrailer struct {
	Magic    [8]byte
	Version  Version
	Count    uint32
	Length   int64 // length of the shard
	Records  int64 // start of the records in the shard, and of the rest of the first one in the file
	Entries  int64 // start of the bytes after the records in the shard; they are at Tail in the file
	Tail     int64
	_        int64
	TableCRC uint32
	CRC      uint32 // checksum of the bytes before it
}

func alignIndexed(n int64) int64 { return (n + indexedAlign - 1) &^ (indexedAlign - 1) }

// indexedStorage is the storage of an index's set. Its files are shards. mu guards files and open; the other fields never change.
type indexedStorage struct {
	storage.Storage
	source   storage.Storage
	manifest *Manifest
	infos    map[string]*ShardInfo   // files of the index, by path
	files    map[string]*indexedFile // those that are open
	objects  *objectLines

	mu   sync.RWMutex
	open map[uint32]openObject
}

// openObject is the file of an object, and its path for messages.
type openObject struct {
	storage.File
	path string
}

// newIndexedStorage returns the storage of the shards of an index. It reads the list of objects.
func newIndexedStorage(files storage.Storage, m *Manifest) (_ storage.Storage, err error) {
	s := &indexedStorage{Storage: files, manifest: m, infos: map[string]*ShardInfo{}, files: map[string]*indexedFile{},
		open: map[uint32]openObject{}}
	if s.source, err = files.Source(m.Index.Source); err != nil {
		return nil, fmt.Errorf("shard: %s: the images of this index: %w", files, err)
	}
	slog.Info("the images of an index are read from where they are", "index", files, "images", m.Index.Source)
	if s.objects, err = readObjects(files, m.Index.SHA256); err != nil {
		return nil, err
	}
	for i := range m.Shards {
		s.infos[m.Shards[i].Path] = &m.Shards[i]
	}
	return s, nil
}

// Open implements [storage.Storage]. The file is the shard, put together from the index's own file and the objects.
func (s *indexedStorage) Open(name string, _ int64, identity string) (storage.File, error) {
	info := s.infos[name]
	if info == nil || info.Index == nil {
		return nil, fmt.Errorf("%s: the manifest does not say that it is of an index", name)
	}
	file, err := s.Storage.Open(name, info.Index.Bytes, identity)
	if err != nil {
		return nil, err
	}
	f := &indexedFile{set: s, path: storage.Join(s.String(), name), File: file}
	err = f.openTable(info)
	if err != nil && forget(file, 0, file.Size()) {
		err = f.openTable(info)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	s.mu.Lock()
	s.files[name] = f
	s.mu.Unlock()
	c, cached := s.source.(storage.Cacher)
	own, known := file.(storage.Original)
	if !cached || !known || own.Origin() == "" {
		return f, nil
	}
	m := s.manifest.Index // the list of objects has been checked
	return c.Cached(f, f.path, fmt.Sprintf("%s %s with images of %s %s", own.Origin(), identity, m.Source, m.SHA256)), nil
}

// object returns the open file of the object that holds an image. done, to call after the read, closes a file of one image alone.
func (s *indexedStorage) object(p *imageLocation) (f openObject, done func(), err error) {
	done = func() {}
	s.mu.RLock()
	f, open := s.open[p.object]
	s.mu.RUnlock()
	if open {
		return f, done, nil
	}
	o, err := s.objects.at(p.object)
	if err != nil {
		return openObject{path: s.objects.path}, nil, err
	}
	if !fs.ValidPath(o.Path) {
		return openObject{path: s.objects.path}, nil, fmt.Errorf("line %d: %q does not lie below %s, the source of this index",
			p.object+1, o.Path, s.manifest.Index.Source)
	}
	f.path = storage.Join(s.manifest.Index.Source, o.Path)
	if f.File, err = s.source.OpenObject(o.Path, o.Object); err != nil {
		return f, nil, err
	}
	if p.offset == 0 && o.Bytes == int64(p.length) { // the file of one image is opened for it
		return f, func() { f.Close() }, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if other, open := s.open[p.object]; open {
		f.Close()
		return other, done, nil
	}
	s.open[p.object] = f
	return f, done, nil
}

func (s *indexedStorage) Close() (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.open {
		err = errors.Join(err, f.Close())
	}
	s.open = map[uint32]openObject{}
	return err
}

func (s *indexedStorage) readObject(p *imageLocation, buf []byte, skip int64) error {
	f, done, err := s.object(p)
	n := 0
	if err == nil {
		defer done()
		n, err = f.ReadAt(buf, p.offset+skip)
	}
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err // objectError names the path.
	}
	advised := true
	switch {
	case n == len(buf):
		return nil
	case errors.Is(err, storage.ErrReplaced):
		err = fmt.Errorf("%w: it has changed since it was indexed: %s", err, s.again())
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("%w: the images of this index are looked for where they were indexed: put them back, or index them where they are",
			err)
	case err == nil || err == io.EOF:
		err = fmt.Errorf("it ends before byte %d, where an image lies: %s", p.offset+int64(p.length), s.again())
	default:
		advised = false
	}
	if _, named := errors.AsType[*storage.RemoteError](err); named {
		return err
	}
	return &objectError{f.path, err, advised}
}

// again says how to make the index anew.
func (s *indexedStorage) again() string {
	return fmt.Sprintf("index it again: imgfeed makes an index in its cache anew if you remove it (rm -r %s), and imgshard index "+
		"--force any other", termsafe.Shell(s.String()))
}

// damage adds to the fault of a record the path of its image, or that it is of an index, with the remedy.
func (s *indexedStorage) damage(name string, offset int64, err error) error {
	path := "the index is damaged"
	s.mu.RLock()
	f := s.files[name]
	s.mu.RUnlock()
	for j := range int(f.Count) {
		p := f.location(j)
		if p.at != offset {
			continue
		}
		if o, unknown := s.objects.at(p.object); unknown == nil {
			path = storage.Join(s.manifest.Index.Source, o.Path)
			err = fmt.Errorf("not the image that was indexed, or the index is damaged: %w", err)
		}
	}
	return &objectError{path, fmt.Errorf("%w: %s", err, s.again()), true}
}

// An objectError names the object that could not be read.
type objectError struct {
	path    string
	err     error
	advised bool // err includes the remedy
}

func (e *objectError) Error() string { return e.path + ": " + e.err.Error() }

func (e *objectError) Unwrap() error { return e.err }

// An indexedFile is a shard with its images elsewhere.
type indexedFile struct {
	storage.File // the index's own
	set          *indexedStorage
	path         string

	indexTrailer
	table []byte // the images' locations
}

// openTable reads the end of the file, and checks it.
func (f *indexedFile) openTable(info *ShardInfo) error {
	x := info.Index
	bad := func(offset int64, format string, args ...any) error {
		return corrupt(f.path, "table", offset, fmt.Errorf(format, args...))
	}
	size, length := f.File.Size(), locationSize*int64(info.Samples)
	table := size - trailerSize - length
	if size != x.Bytes || x.Tail < 0 || table < x.Tail {
		return bad(0, "%d bytes for %d images, the manifest says %d", size, info.Samples, x.Bytes)
	}
	end := make([]byte, size-table)
	if n, err := f.File.ReadAt(end, table); n < len(end) {
		return err
	}
	t := end[len(end)-trailerSize:]
	if _, err := binary.Decode(t, binary.LittleEndian, &f.indexTrailer); err != nil {
		return err
	}
	if got := crc32c.Checksum(t[:trailerCRCAt]); string(f.Magic[:]) != magicIndex || f.Version != version1 || got != f.CRC {
		return bad(size-trailerSize, "ends in %.16q with the CRC-32C %08x: the file is damaged, or no index's", t, got)
	}
	switch {
	case int(f.Count) != info.Samples || f.Length != info.Bytes || f.Tail != x.Tail:
		return bad(size-trailerSize, "%d samples in %d bytes, the manifest says %d in %d", f.Count, f.Length, info.Samples, info.Bytes)
	case f.Length-f.Entries != table-f.Tail || f.Records < 0 || f.Records > f.Tail || f.Entries > f.Length:
		return bad(size-trailerSize, "its parts do not fill %d bytes", size)
	}
	f.table = end[:length]
	if got := crc32c.Checksum(f.table); got != f.TableCRC {
		return corrupt(f.path, "table", table, &ChecksumError{Length: length, Want: f.TableCRC, Got: got})
	}
	last := imageLocation{at: f.Records, rest: f.Records}
	for j := range int(f.Count) {
		p := f.location(j)
		if p.at < last.end() || p.rest < last.rest || p.rest-last.rest > p.at-last.end() ||
			int(p.object) >= len(f.set.objects.starts) || p.offset < 0 {
			return bad(table+locationSize*int64(j), "image %d is said to lie where it can't", j)
		}
		last = p
	}
	if last.end() > f.Entries || f.Tail < last.rest || f.Tail-last.rest > f.Entries-last.end() {
		return bad(table, "the images go beyond the records")
	}
	return nil
}

func (f *indexedFile) location(j int) imageLocation {
	b, le := f.table[locationSize*j:], binary.LittleEndian
	return imageLocation{int64(le.Uint64(b)), int64(le.Uint64(b[8:])), le.Uint32(b[16:]), le.Uint32(b[20:]), int64(le.Uint64(b[24:]))}
}

// piece returns the length of the shard's part at an offset. It is of an image, or at an offset in the file, or of zeros if at is -1.
func (f *indexedFile) piece(offset int64) (length int64, image *imageLocation, at int64) {
	if offset >= f.Entries {
		return f.Length - offset, nil, f.Tail + offset - f.Entries
	}
	next := sort.Search(int(f.Count), func(j int) bool { return f.location(j).at > offset })
	before, after := imageLocation{}, imageLocation{at: f.Entries, rest: f.Tail}
	if next > 0 {
		before = f.location(next - 1)
	}
	if next < int(f.Count) {
		after = f.location(next)
	}
	if offset < before.end() {
		return before.end() - offset, &before, 0
	}
	at = before.rest + offset - before.end()
	if at < after.rest {
		return after.rest - at, nil, at
	}
	return after.at - offset, nil, -1
}

func (f *indexedFile) Size() int64 { return f.Length }

func (f *indexedFile) ReadAt(p []byte, offset int64) (n int, err error) {
	for n < len(p) && offset+int64(n) < f.Length {
		at := offset + int64(n)
		length, image, from := f.piece(at)
		part := p[n:min(int64(len(p)), int64(n)+length)]
		switch {
		case image != nil:
			err = f.set.readObject(image, part, at-image.at)
		case from >= 0:
			_, err = io.ReadFull(io.NewSectionReader(f.File, from, int64(len(part))), part)
		default:
			clear(part)
		}
		if err != nil {
			return n, err
		}
		n += len(part)
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// Forget implements [storage.Forgetter], for the index's own file.
func (f *indexedFile) Forget(int64, int64) { forget(f.File, 0, f.File.Size()) }

// Hangs implements [storage.File]: images may lie anywhere.
func (f *indexedFile) Hangs() (may bool, limit time.Duration) {
	if folder, is := f.set.source.(*storage.Folder); is {
		limit = folder.Timeout()
	}
	return true, limit
}

// WillNeed implements [storage.File]: reading an image may wait for a disk or a network.
func (f *indexedFile) WillNeed(int64, int64) bool { return false }

func (f *indexedFile) Fetch(buf []byte, offset, length int64) ([]byte, error) {
	return storage.ReadRange(f, buf, offset, length)
}

// ObjectsName is the list of an index's objects, a JSON object in each line. Its path is relative to the source.
const ObjectsName = "objects.jsonl"

// An IndexObject is a file that holds images of an index.
type IndexObject struct {
	Path string `json:"path"`
	storage.Object
}

const objectsMax = 1 << 30 // bytes of ObjectsName

// AddObject adds a file to the list of those that the images of an index lie in, and returns its number. A set with one is an index.
func (w *SetWriter) AddObject(o IndexObject) (number int, err error) {
	if w.objects == nil {
		file, err := w.CreateFile(ObjectsName)
		if err != nil {
			return 0, err
		}
		sha := sha256.New()
		w.objects = &objectList{file: file, lines: bufio.NewWriter(io.MultiWriter(file, sha)), sha: sha}
	}
	l := w.objects
	line, err := encodeJSON(o, "")
	if err == nil {
		_, err = l.lines.Write(line)
	}
	l.count++
	return l.count - 1, err
}

// An objectList is ObjectsName as it is written.
type objectList struct {
	file  io.WriteCloser
	lines *bufio.Writer
	sha   hash.Hash
	count int
}

// finish ends the list, and returns the manifest's entry for it.
func (l *objectList) finish(source string) (*Index, error) {
	if l == nil {
		return nil, nil
	}
	err := errors.Join(l.lines.Flush(), l.file.Close())
	return &Index{Source: source, Objects: l.count, SHA256: hex.EncodeToString(l.sha.Sum(nil))}, err
}

// objectLines is ObjectsName in memory.
type objectLines struct {
	path   string
	data   []byte
	starts []uint32 // offset of each line
}

// readObjects reads the list of an index and checks its SHA-256, sum.
func readObjects(files storage.Storage, sum string) (l *objectLines, err error) {
	l = &objectLines{path: storage.Join(files.String(), ObjectsName)}
	l.data, err = files.ReadFile(ObjectsName, objectsMax, func(data []byte) error {
		if got := fmt.Sprintf("%x", sha256.Sum256(data)); got != sum {
			return corrupt(l.path, "file", 0, fmt.Errorf("SHA-256 %s, the manifest says %.64s", got, sum))
		}
		return nil
	})
	if _, damaged := errors.AsType[*CorruptError](err); err != nil && !damaged {
		err = fmt.Errorf("shard: %s, the list of the files that this index is of: %w", l.path, err)
	}
	at := 0
	for line := range bytes.Lines(l.data) {
		l.starts = append(l.starts, uint32(at))
		at += len(line)
	}
	return l, err
}

func (l *objectLines) at(number uint32) (o IndexObject, err error) {
	line, _, _ := bytes.Cut(l.data[l.starts[number]:], []byte("\n"))
	if err = json.Unmarshal(line, &o); err != nil {
		err = fmt.Errorf("line %d: %v", number+1, err)
	}
	return o, err
}

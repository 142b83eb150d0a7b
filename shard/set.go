package shard

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"sort"
	"strings"
	"sync/atomic"
	"time"

	"github.com/imgfeed/imgfeed/shard/storage"
)

// Set is an open shard set, or the partitions of one on this machine. It holds 40 bytes for each sample, and an open file for each
// shard; of very many shards only the last used stay open. All methods may be called by many goroutines at once.
type Set struct {
	dir        string
	manifest   *Manifest   // the whole set's
	partitions []partition // those of the only part; of joined sets one, which is here
	parts      []*part     // one after the other; one, unless Join made the set
	lengths    []int       // samples of each of the sets that Join got; nil: it did not make the set
}

// A part of a set is what one folder holds of it.
type part struct {
	dir        string
	manifest   *Manifest
	partitions []partition
	files      storage.Storage // its shards
	start      int             // index in the set of its first sample
}

// A partition has some of the samples, in consecutive shards: those that one rank needs of as many ranks as there are partitions.
type partition struct {
	number  int
	present bool // here, and whole
	damage  *DamagedPartitionError
	starts  []int // position in the partition of each shard's first sample
	shards  []*reader
	keys    atomic.Pointer[keyTable] // the keys of the last shard that a caller needed
}

func (p *partition) close() (err error) {
	for _, r := range p.shards {
		if r != nil {
			err = errors.Join(err, r.Close())
		}
	}
	return err
}

// Location says where a sample lies.
type Location struct {
	Partition int
	Shard     int    // number within the partition
	Path      string // path of the shard, relative to the set
	Record    int    // position in the shard
}

// Close closes every shard. Running reads fail or finish.
func (s *Set) Close() error {
	var err error
	for _, part := range s.parts {
		err = errors.Join(err, part.close())
	}
	return err
}

func (part *part) close() (err error) {
	for i := range part.partitions {
		err = errors.Join(err, part.partitions[i].close())
	}
	return errors.Join(err, closeShards(part.files))
}

func (s *Set) shards() iter.Seq[*reader] {
	return func(yield func(*reader) bool) {
		for _, part := range s.parts {
			for i := range part.partitions {
				for _, r := range part.partitions[i].shards {
					if !yield(r) {
						return
					}
				}
			}
		}
	}
}

// Dir returns the set's folder; of joined sets the folders with " + " between them.
func (s *Set) Dir() string { return s.dir }

// Store returns the URL of the storage behind a network that images come from, "" if they lie on this machine.
func (s *Set) Store() string {
	url := s.parts[0].dir
	if index := s.parts[0].manifest.Index; index != nil {
		url = index.Source
	}
	if !storage.IsRemote(url) {
		return ""
	}
	return url
}

// Manifest returns the set's manifest. It is shared: don't change it.
func (s *Set) Manifest() *Manifest { return s.manifest }

// Len returns the number of samples of the whole set, of missing partitions too.
func (s *Set) Len() int { return s.manifest.Samples }

// Bytes returns the size of the shards here.
func (s *Set) Bytes() (bytes int64) {
	for _, part := range s.parts {
		for _, info := range part.manifest.Shards {
			if part.partitions[info.Partition].present {
				bytes += info.Bytes
			}
		}
	}
	return bytes
}

// Partitions returns the number of partitions.
func (s *Set) Partitions() int { return s.manifest.Partitions }

// Has reports whether a partition, 0 ≤ partition < Partitions(), is here and whole. One that has no samples always is.
func (s *Set) Has(partition int) bool { return s.partitions[partition].present }

// Missing returns the absent and the damaged partitions.
func (s *Set) Missing() []int {
	var missing []int
	for r := range s.partitions {
		if !s.partitions[r].present {
			missing = append(missing, r)
		}
	}
	return missing
}

// locate finds sample i: its partition, the number of the shard there, and the position in that shard.
func (s *Set) locate(i int) (p *partition, shard, record int, err error) {
	if i < 0 || i >= s.manifest.Samples {
		return nil, 0, 0, fmt.Errorf("shard: %s: sample %d of %d: %w", s.dir, i, s.manifest.Samples, ErrNotFound)
	}
	part := s.parts[sort.Search(len(s.parts), func(n int) bool { return s.parts[n].start > i })-1]
	i -= part.start
	number, position := i%len(part.partitions), i/len(part.partitions)
	p = &part.partitions[number]
	if !p.present { // all of joined sets are
		return nil, 0, 0, s.Absence(number)
	}
	shard = sort.SearchInts(p.starts, position+1) - 1
	return p, shard, position - p.starts[shard], nil
}

// reader finds sample i: its shard, open, and the position there.
func (s *Set) reader(i int) (r *reader, record int, err error) {
	p, shard, record, err := s.locate(i)
	if err != nil {
		return nil, 0, err
	}
	return p.shards[shard], record, nil
}

// Locate says where sample i lies. The error wraps ErrNotFound or is *MissingPartitionError, as for all methods that take an index.
func (s *Set) Locate(i int) (Location, error) {
	p, shard, record, err := s.locate(i)
	if err != nil {
		return Location{}, err
	}
	return Location{Partition: p.number, Shard: shard, Path: shardPath(p.number, shard), Record: record}, nil
}

// Entry returns what the index knows of sample i.
func (s *Set) Entry(i int) (Entry, error) {
	r, record, err := s.reader(i)
	if err != nil {
		return Entry{}, err
	}
	return r.Entry(record), nil
}

// Label returns the label of sample i.
func (s *Set) Label(i int) (int32, error) {
	e, err := s.Entry(i)
	return e.Label, err
}

// Read reads sample i into buf and checks its checksum. It replaces a buf with too little room, and returns the buffer used for the next
// call, also with an error. It allocates nothing else.
func (s *Set) Read(i int, buf []byte) (Record, []byte, error) {
	r, record, err := s.reader(i)
	if err != nil {
		return Record{}, buf, err
	}
	rec, buf, err := r.Read(record, buf)
	return rec, buf, named(err, record, i)
}

// A Need describes the cost of reading a sample ahead of its use.
type Need struct {
	Ready    bool // the record is in memory, or on this machine's disk where Read and View get it without waiting
	Kept     bool // it is in a cache of storage that may hang: only ReadKept gets it without waiting
	Bytes    int  // size of the buffer that Fetch takes
	ReadsMax int  // concurrent reads of the set that are worthwhile
	Blocks   bool // a read holds a thread for long: the file system is a network's or a program's
	// Timeout is how long to wait for Fetch, which may not end by itself: then the error is Overdue's. 0 means that it does.
	Timeout time.Duration
}

// MayHang reports whether reading samples may wait for a network or a program, even if they are in memory. Those that a cache keeps on this
// machine are ready for ReadKept alone.
func (s *Set) MayHang() bool {
	for _, part := range s.parts {
		for i := range part.partitions {
			if shards := part.partitions[i].shards; len(shards) > 0 { // all of a partition lie in one storage
				if hangs, _ := shards[0].file.Hangs(); hangs {
					return true
				}
			}
		}
	}
	return false
}

// WillNeed announces that sample i will be read soon, and returns the cost.
func (s *Set) WillNeed(i int) (Need, error) {
	r, record, err := s.reader(i)
	if err != nil {
		return Need{}, err
	}
	e := r.Entry(record)
	hangs, limit := r.file.Hangs()
	ready := r.file.WillNeed(e.Offset, e.length())
	return Need{
		Ready: ready, Kept: ready && hangs,
		Bytes: int(e.length()) + storage.FetchRoom + SlackBytes, ReadsMax: r.file.ReadsMax(), Blocks: r.file.Blocks(), Timeout: limit,
	}, nil
}

// ReadKept reads sample i into buf, as Read does, if a cache on this machine keeps the right bytes of it. Otherwise Fetch and Check tell
// why not.
func (s *Set) ReadKept(i int, buf []byte) (rec Record, _ []byte, kept bool) {
	r, record, err := s.reader(i)
	if err != nil {
		return Record{}, buf, false
	}
	e, file := r.Entry(record), r.file.(storage.Keeper)
	length := int(e.length())
	buf = growBuffer(buf, length+SlackBytes)
	if !file.ReadKept(buf[:length], e.Offset) {
		return Record{}, buf, false
	}
	rec, err = r.check(e, buf[:length])
	return rec, buf, err == nil
}

// Fetch reads the bytes of sample i, for Check, if WillNeed said that it is not ready. It chooses the records that the caches of this
// machine keep. buf has the size that WillNeed returned and begins at a page.
func (s *Set) Fetch(i int, buf []byte) ([]byte, error) {
	r, record, err := s.reader(i)
	if err != nil {
		return nil, err
	}
	e := r.Entry(record)
	bytes, err := r.file.Fetch(buf, e.Offset, e.length())
	if err != nil {
		return buf[:e.length()], r.unread(0, int(e.length()), e.Offset, "record", err)
	}
	return bytes, nil
}

// Check returns sample i from the result of Fetch, if that has its checksum. The goroutine that decodes the record calls it, so that the
// bytes come into the caches of one processor alone. It does not read: after an error that is not a store's, another Fetch may give the
// right bytes, as no cache keeps the wrong ones.
func (s *Set) Check(i int, bytes []byte, err error) (Record, error) {
	r, record, openErr := s.reader(i)
	if openErr != nil {
		return Record{}, openErr
	}
	e, rec := r.Entry(record), Record{}
	if err == nil {
		rec, err = r.check(e, bytes)
	}
	if _, remote := errors.AsType[*storage.RemoteError](err); err != nil && !remote {
		forget(r.file, e.Offset, e.length())
	}
	return rec, named(err, record, i)
}

// Overdue returns the error of sample i if Fetch has not returned for so long.
func (s *Set) Overdue(i int, after time.Duration) error {
	r, record, err := s.reader(i)
	if err != nil {
		return err
	}
	if p, is := r.file.(*indexedFile); is { // the images lie elsewhere
		return storage.Overdue(p.set.source.String(), 0, -1, after)
	}
	e := r.Entry(record)
	return storage.Overdue(r.path, e.Offset, e.length(), after)
}

// Waited notes that somebody waits for a Fetch of sample i, which tells the storage that its reads are the limit.
func (s *Set) Waited(i int) {
	if r, _, err := s.reader(i); err == nil {
		if w, ok := r.file.(storage.Waiter); ok {
			w.Waited()
		}
	}
}

// Corrupt makes err, which was found when sample i's record was used, a *CorruptError that names the record.
func (s *Set) Corrupt(i int, err error) error {
	r, record, openErr := s.reader(i)
	if openErr != nil {
		return err
	}
	return named(r.corrupt("record", r.Entry(record).Offset, err), record, i)
}

// Key returns the key of sample i. It reads the keys a shard at a time and keeps those of the last shard of each partition. So going
// through them in order is fast, and a random one costs a read of some hundred KB.
func (s *Set) Key(i int) (string, error) {
	p, shard, record, err := s.locate(i)
	if err != nil {
		return "", err
	}
	keys, err := p.shardKeys(shard)
	if err != nil {
		return "", err
	}
	return keys.At(record), nil
}

// shardKeys returns the keys of a shard, from the last call or from the disk.
func (p *partition) shardKeys(shard int) (*keyTable, error) {
	if keys := p.keys.Load(); keys != nil && keys.shard == shard {
		return keys, nil
	}
	keys, err := p.shards[shard].Keys()
	if err != nil {
		return nil, err
	}
	p.keys.Store(keys)
	return keys, nil
}

// Find returns the index of the sample with a key. Samples are in the order of OrderHash, so it is a binary search in each partition. Where
// partitions are missing, a key that isn't found may lie there: the error then is *MissingPartitionError, otherwise it wraps ErrNotFound.
func (s *Set) Find(key string) (int, error) {
	for _, part := range s.parts {
		want := OrderHash(part.manifest.Seed, key)
		for r := range part.partitions {
			p := &part.partitions[r]
			if !p.present {
				continue
			}
			shard, record, ok, err := p.find(part.manifest.Seed, want, key)
			if err != nil {
				return 0, err
			}
			if ok {
				return part.start + (p.starts[shard]+record)*len(part.partitions) + r, nil
			}
		}
	}
	if missing := s.Missing(); len(missing) > 0 {
		return 0, fmt.Errorf("shard: key %q is in no partition that is here: %w", key, s.Absence(missing[0]))
	}
	return 0, fmt.Errorf("shard: %s: key %q: %w", s.dir, key, ErrNotFound)
}

// find looks for a key with the OrderHash want: first for the last shard that doesn't begin after it, then in there.
func (p *partition) find(seed, want uint64, key string) (shard, record int, ok bool, err error) {
	after := func(k string) bool { // k stands after key
		h := OrderHash(seed, k)
		return h > want || h == want && k > key
	}
	shard = sort.Search(len(p.shards), func(k int) bool {
		keys, e := p.shardKeys(k)
		if e != nil {
			err = e
			return true
		}
		return after(keys.At(0))
	}) - 1
	if err != nil || shard < 0 {
		return 0, 0, false, err
	}
	keys, err := p.shardKeys(shard)
	if err != nil {
		return 0, 0, false, err
	}
	record = sort.Search(keys.Len(), func(j int) bool { return after(keys.At(j)) }) - 1
	return shard, record, record >= 0 && keys.At(record) == key, nil
}

// Join makes one set of several of the same split: the samples of the second follow those of the first. It has one partition, so that every
// reader needs all of it. All partitions of the sets must be here. The joined set owns the others, and closes them; so does Join before it
// returns an error. A class keeps its label from the first set that knows it, and classes known only to later sets follow. If apart is set,
// each set's classes follow those of the sets before it, even where names are equal. The error says which set does not go with the first.
func Join(parts []*Set, apart bool) (*Set, error) {
	first := parts[0].manifest
	m := &Manifest{
		Format: first.Format, Version: first.Version, Split: first.Split, Encoding: first.Encoding,
		Partitions: 1, Fields: slices.Clone(first.Fields),
	}
	s := &Set{manifest: m, partitions: []partition{{present: true}}}
	var dirs []string
	fingerprint, content := sha256.New(), sha256.New()
	fmt.Fprintf(fingerprint, "imgfeed join v1\x00%t", apart)
	whole := true
	for _, one := range parts {
		s.parts = append(s.parts, one.parts...)
	}
	for _, one := range parts {
		if err := m.checkJoin(one); err != nil {
			s.Close()
			return nil, fmt.Errorf("shard: %s can't be joined with %s: %w", one.dir, parts[0].dir, err)
		}
		dirs = append(dirs, one.dir)
		one.relabel(m.addClasses(one.manifest.Classes, apart))
		for _, part := range one.parts {
			part.start += m.Samples
		}
		m.Samples += one.Len()
		s.lengths = append(s.lengths, one.Len())
		fmt.Fprintf(fingerprint, "\x00%s %q", one.manifest.Fingerprint, one.manifest.Classes)
		io.WriteString(content, one.manifest.Content)
		whole = whole && one.manifest.Content != ""
	}
	s.dir = strings.Join(dirs, " + ")
	m.Fingerprint = hex.EncodeToString(fingerprint.Sum(nil))
	if whole {
		m.Content = hex.EncodeToString(content.Sum(nil))
	}
	return s, nil
}

// checkJoin says why a set can't be joined with those before it, and notes the lengths of its fields.
func (m *Manifest) checkJoin(s *Set) error {
	p := s.manifest
	switch {
	case !p.Encoding.Equal(m.Encoding):
		return fmt.Errorf("its images are stored as %s, the others as %s: imgshard repack makes them alike", p.Encoding, m.Encoding)
	case !p.Fields.Equal(m.Fields) && fmt.Sprint(p.Fields) == fmt.Sprint(m.Fields):
		return fmt.Errorf("its objects or masks have other classes or columns than the others' (%v)", m.Fields)
	case !p.Fields.Equal(m.Fields):
		return fmt.Errorf("its fields are %v, the others' %v", p.Fields, m.Fields)
	case len(s.Missing()) > 0:
		return fmt.Errorf("every partition must be here: %w", s.Absence(s.Missing()[0]))
	}
	for i := range m.Fields {
		m.Fields[i].BytesMax = max(m.Fields[i].BytesMax, p.Fields[i].BytesMax)
	}
	return nil
}

// addClasses adds a set's classes, and returns the new label of each.
func (m *Manifest) addClasses(classes []string, apart bool) []int32 {
	labels, known := make([]int32, len(classes)), map[string]int32{}
	for label, name := range m.Classes {
		known[name] = int32(label)
	}
	for i, name := range classes {
		label, is := known[name]
		if !is || apart {
			label = int32(len(m.Classes))
			m.Classes = append(m.Classes, name)
		}
		labels[i] = label
	}
	return labels
}

// relabel has the entries of a set bear other labels from now on. It comes before all readers.
func (s *Set) relabel(labels []int32) {
	for r := range s.shards() {
		if r.labels == nil {
			r.labels = labels
			continue
		}
		again := make([]int32, len(r.labels)) // the set is a joined one itself
		for of, label := range r.labels {
			again[of] = labels[label]
		}
		r.labels = again
	}
}

// Parts returns how many samples each of the sets has that it was joined of; nil for any other set.
func (s *Set) Parts() (lengths []int) { return slices.Clone(s.lengths) }

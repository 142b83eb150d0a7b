package shard

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"
)

// ShardBytesDefault is the size of a shard unless told.
const ShardBytesDefault = 512 << 20

// SetOptions says what set to write.
type SetOptions struct {
	Split        string
	Encoding     Encoding
	Classes      []string          // names by label; may come later, by SetClasses
	Fields       Fields            // fields of each sample beside the label; the writer finds their BytesMax
	Partitions   int               // partitions; 0 is 1
	Seed         uint64            // seed of the samples' order, see OrderHash
	ShardBytes   int64             // limit of a shard, unless a single sample is larger; 0 is ShardBytesDefault
	ShardSamples int               // limit of a shard; 0 is ShardSamplesMax
	Built        map[string]string // how, for the manifest: the options of the build
	Replace      bool              // replace an existing set
	Source       string            // URL or folder of an index's objects; "": no index
}

// SetWriter writes a shard set. It is not safe for concurrent use. Everything is written to a hidden folder beside the
// set's folder and gets its name at the end of Commit; until then nothing there looks whole.
type SetWriter struct {
	options   SetOptions
	stage     *stage
	open      []*fileWriter // the partitions' unfinished shards
	infos     [][]ShardInfo // the partitions' finished shards
	syncs     errgroup.Group
	digests   *digests // nil until the first sample
	samples   int
	lastHash  uint64
	lastKey   string
	split     [][]byte // fields of the last sample
	anyLength Fields   // the fields while the lengths of values are not known
	failed    error
	objects   *objectList // nil: no index

	create func(name string) (writableFile, error)
}

// NewSetWriter begins a set in dir. It fails at once if something else is there, or if another process is writing the same set; what an
// interrupted build of it left is removed. Call Abort when done (after Commit it does nothing).
func NewSetWriter(dir string, options SetOptions) (*SetWriter, error) {
	o := options
	o.Partitions = cmp.Or(o.Partitions, 1)
	o.ShardBytes = cmp.Or(o.ShardBytes, ShardBytesDefault)
	o.ShardSamples = cmp.Or(o.ShardSamples, ShardSamplesMax)
	switch {
	case o.Partitions < 0 || o.ShardBytes < 0 || o.ShardSamples < 0:
		return nil, fmt.Errorf("shard: %d partitions, shard bytes %d, shard samples %d: they cannot be negative",
			o.Partitions, o.ShardBytes, o.ShardSamples)
	case o.Partitions > PartitionsMax:
		return nil, tooLarge("number of partitions", int64(o.Partitions), PartitionsMax)
	case o.Encoding.Name == "":
		return nil, errors.New("shard: a set needs an encoding")
	case len(o.Encoding.Params) > 0 && !json.Valid(o.Encoding.Params):
		return nil, fmt.Errorf("shard: parameters of encoding %s are not JSON: %.100q", o.Encoding.Name, o.Encoding.Params)
	}
	if err := checkTexts(append([]string{o.Split, o.Encoding.Name}, o.Classes...)); err != nil {
		return nil, err
	}
	if err := o.Fields.Check(); err != nil {
		return nil, fmt.Errorf("shard: %w", err)
	}
	o.Fields = o.Fields.bounded(0)
	o.ShardSamples = min(o.ShardSamples, ShardSamplesMax)
	st, err := newStage(dir, o.Replace)
	if err != nil {
		return nil, err
	}
	return &SetWriter{
		options: o, stage: st, anyLength: o.Fields.bounded(RecordBytesMax),
		open: make([]*fileWriter, o.Partitions), infos: make([][]ShardInfo, o.Partitions),
		create: st.create,
	}, nil
}

// SetClasses sets the names of the classes, by label. It must come before the first Append.
func (w *SetWriter) SetClasses(classes []string) error {
	if w.digests != nil {
		return errors.New("shard: SetClasses after Append")
	}
	if err := checkTexts(classes); err != nil {
		return err
	}
	w.options.Classes = classes
	return nil
}

// checkTexts refuses names that JSON cannot hold as they are.
func checkTexts(names []string) error {
	for _, name := range names {
		if !utf8.ValidString(name) {
			return fmt.Errorf("shard: name %q is not UTF-8", name)
		}
	}
	return nil
}

// Scratch returns a folder for the caller's temporary files; it is on the set's file system and is removed by Commit
// and Abort, or by the next build if this one is killed.
func (w *SetWriter) Scratch() (string, error) {
	dir := filepath.Join(w.stage.partial, scratchName)
	if err := os.Mkdir(dir, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("shard: %w", err)
	}
	return dir, nil
}

// Append adds the next sample by index, to the next partition in turn. Samples come in the order of (OrderHash(seed, key), key), each
// key once. After an error of the file system the set can only be aborted. A refused sample (too large, or out of order) leaves the
// set as it was. The bytes may be used again after Append.
func (w *SetWriter) Append(s Sample) error {
	if w.failed != nil {
		return w.failed
	}
	if err := w.check(&s); err != nil {
		return err
	}
	if w.digests == nil {
		w.digests = newDigests(w.options.Partitions, w.options.Classes, w.options.Encoding)
	}
	partition := w.samples % w.options.Partitions
	crc, err := w.appendTo(partition, &s)
	if err != nil {
		w.failed = fmt.Errorf("shard: write %s: %w", shardPath(partition, len(w.infos[partition])), err)
		return w.failed
	}
	for i, v := range w.split {
		if f := &w.options.Fields[i]; !f.Numeric() {
			f.BytesMax = max(f.BytesMax, len(v))
		}
	}
	w.digests.add(s.Key, s.Label, crc)
	w.samples++
	return nil
}

// check refuses a sample that the set cannot take, and remembers the position in the order of one that it can.
func (w *SetWriter) check(s *Sample) error {
	if err := checkSample(s); err != nil {
		return err
	}
	if n := len(w.options.Classes); n > 0 && int(s.Label) >= n {
		return fmt.Errorf("shard: %s: label %d of %d classes", s.Key, s.Label, n)
	}
	split, err := w.anyLength.checkValues(s.Fields)
	if err != nil {
		return fmt.Errorf("shard: %s: %w", s.Key, err)
	}
	hash := OrderHash(w.options.Seed, s.Key)
	if w.samples > 0 && (hash < w.lastHash || hash == w.lastHash && s.Key <= w.lastKey) {
		if s.Key == w.lastKey {
			return fmt.Errorf("shard: key %q twice", s.Key)
		}
		return fmt.Errorf("shard: key %q after %q is out of order", s.Key, w.lastKey)
	}
	w.lastHash, w.lastKey, w.split = hash, s.Key, split
	return nil
}

// appendTo writes a sample to a partition, in a new shard if the current one is full, and returns the CRC of its record.
func (w *SetWriter) appendTo(partition int, s *Sample) (crc uint32, err error) {
	o := &w.options
	if f := w.open[partition]; f != nil && f.full(s, o.ShardBytes, o.ShardSamples) {
		if err := w.finish(partition); err != nil {
			return 0, err
		}
	}
	if w.open[partition] == nil {
		file, err := w.create(shardPath(partition, len(w.infos[partition])))
		if err != nil {
			return 0, err
		}
		h := header{
			Split: o.Split, Partition: partition, Partitions: o.Partitions, Shard: len(w.infos[partition]),
			Encoding: o.Encoding, Fields: o.Fields.bounded(0),
		}
		if w.open[partition], err = newFileWriter(file, h); err != nil {
			file.Close()
			return 0, err
		}
	}
	return w.open[partition].append(s)
}

// finish ends a partition's current shard and syncs it in the background.
func (w *SetWriter) finish(partition int) error {
	f := w.open[partition]
	info, err := f.finish()
	if err != nil {
		return err
	}
	info.Partition, info.Path = partition, shardPath(partition, len(w.infos[partition]))
	w.infos[partition] = append(w.infos[partition], info)
	w.open[partition] = nil
	w.syncs.Go(f.file.Close)
	return nil
}

// Commit ends the set: everything is synced, the manifest is written last, and the folder gets its name in one step.
// It returns the manifest. After an error nothing has appeared, and Abort cleans up.
func (w *SetWriter) Commit() (*Manifest, error) {
	if w.failed != nil {
		return nil, w.failed
	}
	w.failed = errors.New("shard: the set is already committed or aborted")
	m, err := w.commit()
	if err != nil {
		w.failed = fmt.Errorf("shard: write %s: %w", w.stage.dir, err)
		return nil, w.failed
	}
	return m, nil
}

func (w *SetWriter) commit() (*Manifest, error) {
	for partition, f := range w.open {
		if f == nil {
			continue
		}
		if err := w.finish(partition); err != nil {
			return nil, err
		}
	}
	if err := w.syncs.Wait(); err != nil {
		return nil, err
	}
	m := w.manifest()
	var err error
	if m.Index, err = w.objects.finish(w.options.Source); err != nil {
		return nil, err
	}
	data, err := m.encode()
	if err != nil {
		return nil, err
	}
	if len(data) > manifestBytesMax {
		return nil, tooLarge(fmt.Sprintf("bytes of the manifest, with %d shards (make larger ones)", len(m.Shards)),
			int64(len(data)), manifestBytesMax)
	}
	if _, err := decodeManifest(manifestName, data); err != nil {
		return nil, err
	}
	file, err := w.create(manifestName)
	if err != nil {
		return nil, err
	}
	_, err = file.Write(data)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	return m, w.stage.publish()
}

// manifest describes the finished shards.
func (w *SetWriter) manifest() *Manifest {
	o := &w.options
	if w.digests == nil {
		w.digests = newDigests(o.Partitions, o.Classes, o.Encoding)
	}
	fingerprint, content := w.digests.sums()
	return &Manifest{
		Format: manifestFormat, Version: o.Fields.version(), Fingerprint: fingerprint, Content: content,
		Split: o.Split, Encoding: o.Encoding, Samples: w.samples, Partitions: o.Partitions, Seed: o.Seed,
		Fields: o.Fields, Built: o.Built,
		Classes: append([]string{}, o.Classes...), // Without any, JSON has an empty list.
		Shards:  append([]ShardInfo{}, slices.Concat(w.infos...)...),
	}
}

// Abort gives the set up and removes its files. After Commit it does nothing.
func (w *SetWriter) Abort() error {
	w.failed = errors.New("shard: the set is already committed or aborted")
	for partition, f := range w.open {
		if f != nil {
			f.file.abort()
			w.open[partition] = nil
		}
	}
	if w.objects != nil {
		w.objects.file.Close()
	}
	w.syncs.Wait()
	return w.stage.abort()
}

// CreateFile makes a file of the caller's in the set's folder, beside the manifest: a list of rejected files, say. It appears and
// goes with the set. Its name may not be that of one of the set's own files. The caller closes it before Commit.
func (w *SetWriter) CreateFile(name string) (io.WriteCloser, error) {
	if w.failed != nil {
		return nil, w.failed
	}
	if name == "" || name == ".." || name != filepath.Base(name) || name == manifestName || name == scratchName ||
		strings.HasPrefix(name, "rank-") || strings.HasPrefix(name, ".") {
		return nil, fmt.Errorf("shard: a set cannot have a file %q", name)
	}
	return w.create(name)
}

package shard

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/imgfeed/imgfeed/shard/storage"
)

const openParallel = 16 // how many shards are opened at a time: opening waits for the disk, not for the CPU

// OpenSet opens the set in dir: the manifest and the partitions present. Each must be whole; Found.Open accepts damaged ones. It reads
// and checks the entries of every shard, but no key and no record. The error is or wraps *DamagedPartitionError, *CorruptError or
// *UnsupportedError, wraps ErrNotSet, or is the file system's. A set with no partition at all is *MissingPartitionError.
func OpenSet(dir string) (*Set, error) {
	s, err := openWhole(storage.Default, dir, nil)
	if err == nil && s.Err() != nil {
		s.Close()
		return nil, s.Err()
	}
	return s, err
}

// openWhole opens the set in dir as OpenSet does, but serves its whole partitions.
func openWhole(client *storage.Client, dir string, say func(opened, shards int)) (*Set, error) {
	opening := client.Opening()
	defer opening.End()
	m, here, files, err := findShards(opening, dir)
	if err != nil {
		return nil, err
	}
	opening.Steps()
	only := &part{dir: files.String(), manifest: m, partitions: make([]partition, m.Partitions), files: files}
	s := &Set{dir: only.dir, manifest: m, partitions: only.partitions, parts: []*part{only}}
	for i := range s.partitions {
		s.partitions[i].number, s.partitions[i].present = i, here[i]
	}
	err = only.openShards(m.numbered(here), say)
	served := m.Samples == 0
	for i := range s.partitions {
		served = served || len(s.partitions[i].shards) > 0
	}
	if err == nil && !served {
		err = s.Err()
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// openShards opens shards of the partitions present, several at a time. A partition with an unusable shard is no longer present.
// The error is for causes outside the files: no descriptors or memory remain, or a store does not answer.
func (part *part) openShards(shards []numberedShard, say func(opened, shards int)) error {
	for _, info := range shards {
		p := &part.partitions[info.Partition]
		p.starts, p.shards = append(p.starts, info.start), append(p.shards, nil)
	}
	var opened atomic.Int64
	if say != nil {
		defer eachSecond(func() { say(int(opened.Load()), len(shards)) })()
	}
	group, ctx := errgroup.WithContext(context.Background())
	group.SetLimit(openParallel)
	problems := make([]error, len(shards))
	for i, info := range shards {
		p := &part.partitions[info.Partition]
		group.Go(func() error {
			if ctx.Err() != nil {
				return nil
			}
			r, err := openShard(part.manifest, info, part.files)
			switch {
			case storage.IsDown(err):
				return err
			case isExhausted(err):
				return fmt.Errorf("%w: this process has reached its limits (ulimit -n, ulimit -v)", err)
			}
			p.shards[info.number], problems[i] = r, err
			opened.Add(1)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for i, err := range problems {
		if p := &part.partitions[shards[i].Partition]; err != nil {
			if p.damage == nil {
				p.damage = &DamagedPartitionError{Dir: part.dir, Partition: p.number, Partitions: len(part.partitions),
					Shards: len(p.shards),
					index:  part.manifest.Index != nil}
				p.close()
				p.present, p.shards, p.starts = false, nil, nil
			}
			p.damage.Problems = append(p.damage.Problems, err)
		}
	}
	return nil
}

// isExhausted tells a lack of the machine's means from a fault of a file.
func isExhausted(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}

// eachSecond calls do once a second until it is stopped.
func eachSecond(do func()) (stop func()) {
	end, tick := make(chan struct{}), time.Tick(time.Second)
	go func() {
		for {
			select {
			case <-tick:
				do()
			case <-end:
				return
			}
		}
	}()
	return func() { close(end) }
}

// findPartitions tells which partitions have a folder or no samples; all do in a storage without lists. A set without any is an error.
func findPartitions(files storage.Storage, m *Manifest) ([]bool, error) {
	here := make([]bool, m.Partitions)
	names, err := files.Names("")
	listed := err == nil
	if err != nil && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("shard: %w", err)
	}
	found := m.Samples == 0
	for i := range here {
		empty := partitionLen(m.Samples, m.Partitions, i) == 0
		here[i] = empty || !listed || slices.Contains(names, partitionDir(i)+"/")
		found = found || here[i] && !empty
	}
	if !found {
		return nil, &MissingPartitionError{Dir: files.String(), Partition: 0, Partitions: m.Partitions}
	}
	return here, nil
}

// openShard opens one shard of a set and checks that it is the one that the manifest means. If a store or its cache gave wrong bytes, the
// cache forgets all that it keeps of the shard, and it is opened once more.
func openShard(m *Manifest, info numberedShard, files storage.Storage) (*reader, error) {
	r, file, err := openShardOnce(m, info, files)
	if _, failed := errors.AsType[*storage.RemoteError](err); err == nil || failed {
		return r, err
	}
	if file != nil && forget(file, 0, file.Size()) {
		r, _, err = openShardOnce(m, info, files)
	}
	return r, err
}

// openShardOnce also returns the file, if there is one. It is closed after an error.
func openShardOnce(m *Manifest, info numberedShard, files storage.Storage) (r *reader, file storage.File, err error) {
	path := storage.Join(files.String(), info.Path)
	file, err = files.Open(info.Path, info.Bytes, info.SHA256)
	if err == nil {
		r, err = openReader(path, file)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, file, corrupt(path, "file", 0, fmt.Errorf("%w, and the manifest names it", err))
	}
	if err != nil {
		return nil, file, err
	}
	h, f := &r.header, &r.footer
	switch {
	case int(f.Count) != info.Samples:
		err = fmt.Errorf("%d samples, the manifest says %d", f.Count, info.Samples)
	case f.FileLength != info.Bytes:
		err = fmt.Errorf("%d bytes, the manifest says %d", f.FileLength, info.Bytes)
	case h.Split != m.Split || h.Partitions != m.Partitions || h.Partition != info.Partition || h.Shard != info.number:
		err = fmt.Errorf("shard %d of partition %d of %d, of split %q, "+
			"the manifest says %d of partition %d of %d, of split %q: it is another set's",
			h.Shard, h.Partition, h.Partitions, h.Split, info.number, info.Partition, m.Partitions, m.Split)
	case f.Version != m.Version:
		err = fmt.Errorf("format version %d, the manifest says %d", f.Version, m.Version)
	case !h.Fields.Equal(m.Fields):
		err = fmt.Errorf("fields %v, the manifest says %v", h.Fields, m.Fields)
	case !h.Encoding.Equal(m.Encoding):
		err = fmt.Errorf("encoding %s, the manifest says %s", h.Encoding, m.Encoding)
	case fmt.Sprintf("%08x", f.CRC) != info.Footer:
		err = fmt.Errorf("footer CRC-32C %08x, the manifest says %.8s: it is another build's", f.CRC, info.Footer)
	}
	if err == nil {
		err = r.checkLabels(m.Classes)
	}
	if x, is := files.(*indexedStorage); is {
		r.index = func(offset int64, err error) error { return x.damage(info.Path, offset, err) }
	}
	if err != nil {
		r.Close()
		if _, ok := errors.AsType[*CorruptError](err); !ok {
			err = corrupt(path, "file", 0, err)
		}
		return nil, file, err
	}
	return r, file, nil
}

// findShards returns a set's manifest, the partitions that are here, and the storage of its shards, to close with closeShards.
func findShards(opening *storage.Opening, dir string) (m *Manifest, here []bool, files storage.Storage, err error) {
	if files, err = opening.At(dir); err != nil {
		return nil, nil, nil, err
	}
	if m, _, err = readManifest(files); err != nil {
		return nil, nil, nil, err
	}
	if here, err = findPartitions(files, m); err == nil && m.Index != nil {
		files, err = newIndexedStorage(files, m)
	}
	return m, here, files, err
}

// closeShards closes what the storage of a set's shards has open beside them.
func closeShards(files storage.Storage) error {
	if indexed, is := files.(*indexedStorage); is {
		return indexed.Close()
	}
	return nil
}

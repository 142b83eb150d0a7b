package shard

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"
)

// A DamagedPartitionError says that a partition's folder is here and is not whole: shards are missing, cut short, damaged
// or another build's, as when copying it was interrupted. Unwrap gives what is wrong with each of those shards, mostly a
// *CorruptError.
type DamagedPartitionError struct {
	Dir        string // of the set
	Partition  int
	Partitions int     // that the set was built for
	Shards     int     // of the partition
	Problems   []error // one for each shard that cannot be used
}

// namedMax is how many of many things an error names.
const namedMax = 3

// Error names the partition, the first few of its bad shards with what is wrong, and the remedy.
func (e *DamagedPartitionError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "shard: %s: partition %d of %d is not whole, %d of its %d shards cannot be used: ",
		filepath.Join(e.Dir, partitionDir(e.Partition)), e.Partition, e.Partitions, len(e.Problems), e.Shards)
	for i, err := range e.Problems[:min(len(e.Problems), namedMax)] {
		if i > 0 {
			b.WriteString("; ")
		}
		text := strings.TrimPrefix(err.Error(), "shard: ")
		if c, ok := errors.AsType[*CorruptError](err); ok {
			text = c.finding()
			if errors.Is(err, fs.ErrNotExist) {
				text = c.Path + " is missing"
			}
		}
		if r, ok := errors.AsType[*ReadError](err); ok {
			text = r.finding()
		}
		b.WriteString(text)
	}
	if more := len(e.Problems) - namedMax; more > 0 {
		fmt.Fprintf(&b, "; and %d more", more)
	}
	fmt.Fprintf(&b, "; copy the folder again from where the set is whole (rsync -a --checksum SET/%s %s/) or rebuild the set; imgshard verify lists all damage",
		partitionDir(e.Partition), e.Dir)
	return b.String()
}

// Unwrap returns what is wrong with each bad shard.
func (e *DamagedPartitionError) Unwrap() []error { return e.Problems }

// OpenWhole opens the set in dir as OpenSet does, but serves what is whole: a partition that is here and damaged counts
// as missing, and Damaged names it. The error is OpenSet's where the manifest is damaged or no partition with samples is
// whole.
func OpenWhole(dir string) (*Set, error) {
	s, err := openPartitions(dir)
	if err != nil {
		return nil, err
	}
	damaged := s.Damaged()
	for i := range s.partitions {
		if s.partitions[i].present && PartitionLen(s.manifest.Samples, len(s.partitions), i) > 0 {
			return s, nil
		}
	}
	if len(damaged) == 0 {
		return s, nil // no samples
	}
	s.Close()
	return nil, joinDamage(damaged)
}

// Damaged returns the partitions that are here but not whole, in order. They count as missing.
func (s *Set) Damaged() []*DamagedPartitionError {
	var damaged []*DamagedPartitionError
	for i := range s.partitions {
		if d := s.partitions[i].damage; d != nil {
			damaged = append(damaged, d)
		}
	}
	return damaged
}

// Absence says why a partition cannot be served: *DamagedPartitionError or *MissingPartitionError; nil if it can.
func (s *Set) Absence(partition int) error {
	p := &s.partitions[partition]
	switch {
	case p.present:
		return nil
	case p.damage != nil:
		return p.damage
	}
	return &MissingPartitionError{Dir: s.dir, Partition: partition, Partitions: len(s.partitions)}
}

// joinDamage makes one error of damaged partitions, of which there is at least one.
func joinDamage(damaged []*DamagedPartitionError) error {
	if len(damaged) == 1 {
		return damaged[0]
	}
	var errs []error
	for _, d := range damaged[:min(len(damaged), namedMax)] {
		errs = append(errs, d)
	}
	if more := len(damaged) - namedMax; more > 0 {
		errs = append(errs, fmt.Errorf("shard: and %d more partitions of %s are not whole", more, damaged[0].Dir))
	}
	return errors.Join(errs...)
}

// openShards opens the shards of the partitions that are present, several at a time. A partition with one that cannot be
// used is no longer present. The error is for what has nothing to do with the files: no descriptors or memory are left.
func (s *Set) openShards() error {
	shards := s.manifest.placed()
	for _, info := range shards {
		if p := &s.partitions[info.Partition]; p.present {
			p.starts = append(p.starts, info.start)
			p.shards = append(p.shards, nil)
		}
	}
	errs := make([]error, len(shards))
	var group errgroup.Group
	group.SetLimit(openParallel)
	for i, info := range shards {
		p := &s.partitions[info.Partition]
		if !p.present {
			continue
		}
		place := &p.shards[info.number]
		group.Go(func() (err error) {
			*place, err = openShard(s.dir, s.manifest, info)
			if isExhausted(err) {
				return fmt.Errorf("%w: a set takes a descriptor for each of its shards", err)
			}
			errs[i] = err
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	s.dropDamaged(shards, errs)
	return nil
}

// dropDamaged closes the partitions of which a shard could not be opened, and notes why.
func (s *Set) dropDamaged(shards []placedShard, errs []error) {
	for i, err := range errs {
		if err == nil {
			continue
		}
		partition := shards[i].Partition
		p := &s.partitions[partition]
		if p.damage == nil {
			p.damage = &DamagedPartitionError{Dir: s.dir, Partition: partition, Partitions: len(s.partitions), Shards: len(p.shards)}
		}
		p.damage.Problems = append(p.damage.Problems, err)
	}
	for i := range s.partitions {
		if p := &s.partitions[i]; p.damage != nil {
			closeReaders(p.shards)
			p.present, p.shards, p.starts = false, nil, nil
		}
	}
}

// isExhausted tells a lack of the machine's means from a fault of a file.
func isExhausted(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}

// A DamagedSet is a folder that is a set, or part of one, but cannot be told to be which.
type DamagedSet struct {
	Dir string
	Err error // names the manifest and what is wrong with it
}

// checkManifest reads the manifest of a folder that may be a set. A folder with partitions but no manifest is a damaged set.
func checkManifest(dir string) (*Manifest, error) {
	m, err := ReadManifest(dir)
	if errors.Is(err, ErrNotSet) && hasRankDir(dir) {
		return nil, corrupt(filepath.Join(dir, manifestName), "manifest", 0,
			errors.New("it is missing, and there are partitions beside it: copy it too"))
	}
	return m, err
}

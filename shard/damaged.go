package shard

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/imgfeed/imgfeed/shard/storage"
)

// A DamagedPartitionError says that a partition's folder is here and is not whole: shards are missing, cut short, damaged
// or another build's, as when copying it was interrupted. Unwrap gives what is wrong with each of those shards, mostly a
// *CorruptError.
type DamagedPartitionError struct {
	Dir        string // folder of the set
	Partition  int
	Partitions int     // number of partitions in the set
	Shards     int     // number of shards in the partition
	Problems   []error // one for each shard that cannot be used
}

// namedMax is how many of many things an error names.
const namedMax = 3

// Error names the partition, the first few of its bad shards with their faults, and the remedy.
func (e *DamagedPartitionError) Error() string {
	var list []string
	for _, err := range e.Problems[:min(len(e.Problems), namedMax)] {
		list = append(list, finding(err))
	}
	if more := len(e.Problems) - namedMax; more > 0 {
		list = append(list, fmt.Sprintf("and %d more", more))
	}
	remedy := fmt.Sprintf("bring it back from a good copy of the set (imgshard copy GOOD %s) or rebuild the set", e.Dir)
	if storage.IsRemote(e.Dir) {
		remedy = "put the partition there again"
	}
	return fmt.Sprintf("shard: %s: partition %d of %d is not whole, %d of its %d shards cannot be used: %s; %s; "+
		"imgshard verify lists all damage",
		storage.Join(e.Dir, partitionDir(e.Partition)), e.Partition, e.Partitions, len(e.Problems), e.Shards, strings.Join(list, "; "), remedy)
}

// finding describes the fault of a shard without a remedy.
func finding(err error) string {
	if corrupt, ok := errors.AsType[*CorruptError](err); ok && errors.Is(err, fs.ErrNotExist) {
		return corrupt.Path + " is missing"
	} else if ok {
		return corrupt.Finding()
	}
	if unread, ok := errors.AsType[*ReadError](err); ok {
		return unread.Finding()
	}
	return strings.TrimPrefix(err.Error(), "shard: ")
}

// Unwrap returns the fault of each bad shard.
func (e *DamagedPartitionError) Unwrap() []error { return e.Problems }

// Err returns the damage of the partitions here, or nil if they are whole.
func (s *Set) Err() error {
	damaged := s.Damaged()
	var errs []error
	for _, d := range damaged[:min(len(damaged), namedMax)] {
		errs = append(errs, d)
	}
	if more := len(damaged) - namedMax; more > 0 {
		errs = append(errs, fmt.Errorf("shard: and %d more partitions of %s are not whole", more, s.dir))
	}
	return errors.Join(errs...)
}

// Damaged returns the damaged partitions here, in order. They count as missing.
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

// A DamagedSet is a folder that holds a set or part of one, too damaged to say which.
type DamagedSet struct {
	Dir string
	Err error // names the manifest and what is wrong with it
}

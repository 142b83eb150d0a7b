package shard

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"github.com/imgfeed/imgfeed/internal/termsafe"
	"github.com/imgfeed/imgfeed/shard/storage"
)

var (
	// ErrNotSet is wrapped by the errors of OpenSet and FindSets when a folder holds no shard set.
	ErrNotSet = errors.New("not a shard set")
	// ErrNotFound is wrapped by the errors for a key that a set does not hold and for an index outside it.
	ErrNotFound = errors.New("no such sample")
)

// A CorruptError says that a file's bytes are not those written: cut short, flipped, foreign or made up.
type CorruptError struct {
	Path    string // path of the file
	Section string // "manifest", "header", "record", "entries", "keys" or "footer"; "file" for the whole
	Record  int    // position of the record in the file, or -1
	Index   int    // index of the sample in the set, or -1 where it isn't known
	Offset  int64  // offset of the first byte concerned
	Err     error  // what was wrong; *ChecksumError when a checksum told
}

// Error names file, section, record, offset, the finding and the remedy.
func (e *CorruptError) Error() string {
	if isAdvised(e.Err) {
		return "shard: " + e.Finding()
	}
	return fmt.Sprintf("shard: %s; bring it back from a good copy of the set (imgshard copy GOOD SET) or rebuild the set; "+
		"imgshard verify lists all damage", e.Finding())
}

// Finding is the error without the remedy.
func (e *CorruptError) Finding() string {
	return fmt.Sprintf("%s: %v", location(e.Path, e.Section, e.Record, e.Index, e.Offset), e.Err)
}

// location says where in a file something is: "a.imgshard: record 3 (sample 7) at byte 4096".
func location(path, section string, record, index int, offset int64) string {
	if record >= 0 {
		section += fmt.Sprintf(" %d", record)
	}
	if index >= 0 {
		section += fmt.Sprintf(" (sample %d)", index)
	}
	return fmt.Sprintf("%s: %s at byte %d", path, section, offset)
}

// named adds to a *CorruptError or a *ReadError which record it is of, and to what sample that belongs.
func named(err error, record, index int) error {
	if c, ok := errors.AsType[*CorruptError](err); ok {
		c.Record, c.Index = record, index
	}
	if r, ok := errors.AsType[*ReadError](err); ok {
		r.Record, r.Index = record, index
	}
	return err
}

func (e *CorruptError) Unwrap() error { return e.Err }

// corrupt makes a *CorruptError for a part of a file outside the records.
func corrupt(path, section string, offset int64, err error) *CorruptError {
	return &CorruptError{Path: path, Section: section, Record: -1, Index: -1, Offset: offset, Err: err}
}

// ReadError says that the file system failed when a part of a file was read. The file may be in order.
type ReadError struct {
	Path    string // path of the file
	Section string // same names as in CorruptError
	Record  int    // position of the record in the file, or -1
	Index   int    // index of the sample in the set, or -1 where it isn't known
	Offset  int64  // offset of the first byte to read
	Length  int    // number of bytes to read
	Err     error  // the system's
}

// Error names file, section, record, offset, the system's error and the remedy.
func (e *ReadError) Error() string {
	remedy := "the disk failed, and the kernel's log says more: once it is well, go on; " +
		"else copy the file from a good one (imgshard verify lists all damage)"
	for _, gone := range []error{syscall.ENOTCONN, syscall.ECONNABORTED, syscall.ESTALE, syscall.ENODEV} {
		if errors.Is(e.Err, gone) {
			remedy = "its file system is gone: mount it again, and have the server look again (imgfeed reload)"
		}
	}
	if errors.Is(e.Err, storage.ErrReplaced) || errors.Is(e.Err, fs.ErrNotExist) {
		remedy = "the set was replaced or removed since it was opened: have the server look again (imgfeed reload)"
	}
	if _, remote := errors.AsType[*storage.RemoteError](e.Err); remote || isAdvised(e.Err) {
		return "shard: " + e.Finding() // The finding includes the remedy.
	}
	return fmt.Sprintf("shard: %s: %s", e.Finding(), remedy)
}

// isAdvised reports whether an error about an index says what to do.
func isAdvised(err error) bool {
	object, ok := errors.AsType[*objectError](err)
	return ok && object.advised
}

// Finding is the error without the remedy.
func (e *ReadError) Finding() string {
	return fmt.Sprintf("%s: %d bytes cannot be read: %v", location(e.Path, e.Section, e.Record, e.Index, e.Offset), e.Length, e.Err)
}

func (e *ReadError) Unwrap() error { return e.Err }

// ChecksumError says that bytes do not have the CRC-32C that was stored with them.
type ChecksumError struct {
	Length    int64 // number of bytes that the checksum covers
	Want, Got uint32
}

func (e *ChecksumError) Error() string {
	return fmt.Sprintf("CRC-32C %08x, expected %08x, over %d bytes", e.Got, e.Want, e.Length)
}

// UnsupportedError says that a file is in order but of a version that this package does not read.
type UnsupportedError struct {
	Path    string
	Version Version
}

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("shard: %s: format version %d; this program reads versions %d to %d: use a newer imgfeed, or rebuild the set",
		e.Path, e.Version, versionOldest, versionCurrent)
}

// tooLarge says that a sample, a shard or a set is larger than the format allows.
func tooLarge(what string, got, limit int64) error {
	return fmt.Errorf("shard: %s: %d, and the limit is %d", what, got, limit)
}

// MissingPartitionError says that a sample lies in a partition missing on this machine.
type MissingPartitionError struct {
	Dir        string // folder of the set
	Partition  int
	Partitions int // number of partitions in the set
}

func (e *MissingPartitionError) Error() string {
	return fmt.Sprintf("shard: %s: partition %d of %d is not here: copy %s beside the manifest, "+
		"or serve only the ranks whose partitions are here", e.Dir, e.Partition, e.Partitions, partitionDir(e.Partition))
}

// A DamagedPartitionError says that a partition's folder is here and is not whole: shards are missing, cut short, damaged or another
// build's, as when copying it was interrupted. Unwrap gives what is wrong with each of those shards, mostly a *CorruptError.
type DamagedPartitionError struct {
	Dir        string // folder of the set
	Partition  int
	Partitions int     // number of partitions in the set
	Shards     int     // number of shards in the partition
	Problems   []error // one for each shard that cannot be used
	index      bool    // the set is an index
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
	switch {
	case e.index:
		remedy = "index the images again (rm -r " + termsafe.Shell(e.Dir) + ", and imgshard index if you made it by that)"
	case storage.IsRemote(e.Dir):
		remedy = "put the partition there again"
	}
	return fmt.Sprintf("shard: %s: partition %d of %d is not whole, %d of its %d shards cannot be used: %s; %s; "+
		"imgshard verify lists all damage",
		storage.Join(e.Dir, partitionDir(e.Partition)), e.Partition, e.Partitions, len(e.Problems), e.Shards,
		strings.Join(list, "; "), remedy)
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

package shard

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrNotSet is wrapped by the errors of OpenSet and FindSets when a folder holds no shard set.
	ErrNotSet = errors.New("not a shard set")
	// ErrNotFound is wrapped by the errors for a key that a set does not hold and for an index outside it.
	ErrNotFound = errors.New("no such sample")
)

// CorruptError says that a file's bytes are not what was written: cut short, flipped, foreign or made up.
type CorruptError struct {
	Path    string // of the file
	Section string // "manifest", "header", "record", "entries", "keys" or "footer"; "file" for the whole
	Record  int    // place of the record in the file, or -1
	Index   int    // index of the sample in the set, or -1 where it isn't known
	Offset  int64  // of the first byte concerned
	Err     error  // what was wrong; *ChecksumError when a checksum told
}

// Error names file, section, record, offset, the finding and the remedy.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("shard: %s; copy the file again from a good one or rebuild the set (imgshard verify lists all damage)", e.finding())
}

// finding is the error without the remedy.
func (e *CorruptError) finding() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", e.Path, e.Section)
	if e.Record >= 0 {
		fmt.Fprintf(&b, " %d", e.Record)
	}
	if e.Index >= 0 {
		fmt.Fprintf(&b, " (sample %d)", e.Index)
	}
	fmt.Fprintf(&b, " at byte %d: %v", e.Offset, e.Err)
	return b.String()
}

// Unwrap returns what was wrong.
func (e *CorruptError) Unwrap() error { return e.Err }

// corrupt makes a *CorruptError for a part of a file that is no record.
func corrupt(path, section string, offset int64, err error) *CorruptError {
	return &CorruptError{Path: path, Section: section, Record: -1, Index: -1, Offset: offset, Err: err}
}

// ChecksumError says that bytes do not have the CRC-32C that was stored with them.
type ChecksumError struct {
	Length    int64 // of the bytes that the checksum covers
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
		e.Path, e.Version, VersionOldest, VersionCurrent)
}

// LimitError says that a sample, a shard or a set is larger than the format allows.
type LimitError struct {
	What     string
	Got, Max int64
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("shard: %s: %d, and the limit is %d", e.What, e.Got, e.Max)
}

// MissingPartitionError says that a sample lies in a partition whose folder is not on this machine.
type MissingPartitionError struct {
	Dir        string // of the set
	Partition  int
	Partitions int // that the set was built for
}

func (e *MissingPartitionError) Error() string {
	return fmt.Sprintf("shard: %s: partition %d of %d is not here: copy %s beside the manifest, or serve only the ranks whose partitions are here",
		e.Dir, e.Partition, e.Partitions, partitionDir(e.Partition))
}

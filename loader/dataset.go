package loader

import (
	"cmp"
	"fmt"
	"time"

	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/encoding"
	"github.com/imgfeed/imgfeed/shard/encoding/registry"
	"github.com/imgfeed/imgfeed/shard/storage"
	"github.com/imgfeed/imgfeed/transform"
)

// A Dataset is where samples come from, by index: a shard set. Its methods are called by many goroutines at a time.
type Dataset interface {
	// Encoding decodes the images of records that the set's encoding made, according to their format.
	Encoding() transform.Encoding
	// Label returns the label of sample i without reading its record; ok is false if the label is not known.
	Label(i int) (label int32, ok bool)
	// Key returns the name of sample i, for messages.
	Key(i int) (string, error)
	// MayHang reports whether reading may wait for a network or a program. No sample is ready then.
	MayHang() bool
	// WillNeed announces that sample i will be read soon, and returns the cost of reading it. A sample in memory is ready.
	WillNeed(i int) (shard.Need, error)
	// Fetch reads the bytes of a sample that was not ready into the memory described by its Need. A caller that waits for it calls Waited.
	// If it has not ended in the Need's time, Overdue is the sample's error.
	Fetch(i int, buf []byte) ([]byte, error)
	Waited(i int)
	Overdue(i int, after time.Duration) error
	// Check returns the sample that Fetch has read, as Read does, or an error of both.
	Check(i int, bytes []byte, err error) (shard.Record, error)
	// Read checks the record of sample i against its checksum and returns it with the buffer for the next call, which may be larger.
	// view allows the record to lie in a mapped file instead. While samples are read from a disk, copies cost less than the page
	// faults of a mapping, and do not block their thread.
	Read(i int, buf []byte, view bool) (shard.Record, []byte, error)
	// Mapped returns where in memory sample i lies, unchecked: not to be read, only to be fetched into the processor's caches.
	// It is nil for a sample that lies in no mapped file.
	Mapped(i int) []byte
	// Corrupt turns err, met in the middle of sample i's record, into an error that names file, record and offset. A set without
	// files returns err.
	Corrupt(i int, err error) error
}

// A SampleError says which sample could not be served. Unwrap gives the reason, which names file, record and offset if
// the shard is at fault.
type SampleError struct {
	Index int
	Key   string // "" if it cannot be read either
	Err   error
}

func (e *SampleError) Error() string {
	if e.Key == "" {
		return fmt.Sprintf("loader: sample %d: %v", e.Index, e.Err)
	}
	return fmt.Sprintf("loader: sample %d (%s): %v", e.Index, e.Key, e.Err)
}

func (e *SampleError) Unwrap() error { return e.Err }

func newSampleError(set Dataset, index int, err error) *SampleError {
	key := ""
	if !storage.IsDown(err) { // Keys come from the storage too.
		key, _ = set.Key(index)
	}
	return &SampleError{Index: index, Key: key, Err: err}
}

// A BadSample is a sample of a batch that could not be served, with what fills its place.
type BadSample struct {
	*SampleError
	Position int // place in the batch
	// By is the index of the sample of the same class that replaces it, -1 if the place is blank.
	By int
}

// OnError chooses what happens to a sample that cannot be read or decoded.
type OnError uint8

const (
	// Fail ends the stream with a [*SampleError] when the sample's batch is due.
	Fail OnError = iota
	// Blank gives black pixels and the label [BlankLabel], counts the sample and logs why.
	Blank
	// Substitute serves another sample of the same class, as served in this epoch, counts it and logs it. It takes the first of
	// [plan.Plan.Alternatives] that has the class and can be served, so the choice depends only on seed, epoch, sample and data. If
	// the first 16 candidates fail, it does as Fail does.
	Substitute
	// leave notes the sample for its caller, and does nothing else.
	leave
)

// substitutesMax is how many samples are tried in the place of one that cannot be served: a dead disk must not be tried for each sample
// of a class.
const substitutesMax = 16

// BlankLabel is the label of a blank sample: the ignore_index of torch's cross-entropy loss.
const BlankLabel = -100

// FromShards makes an open shard set a [Dataset]. It reads the encoding's parameters once; one that this program
// cannot decode is an error. The set stays the caller's to close.
func FromShards(set *shard.Set) (Dataset, error) {
	e, err := encodingOf(set)
	if err != nil {
		return nil, err
	}
	return &shardSet{Set: set, encoding: e, mapped: e.Mapped() && set.Map() == nil}, nil
}

func encodingOf(set *shard.Set) (encoding.Encoding, error) {
	e, err := registry.Open(set.Manifest().Encoding)
	if err != nil {
		return nil, fmt.Errorf("loader: %s: %w", set.Dir(), err)
	}
	return e, nil
}

// A NotBitExactError says that a transform of a set's stored images does not give the bits that it gives of the originals.
type NotBitExactError struct{ msg string }

func (e *NotBitExactError) Error() string { return e.msg }

// CheckBitExact returns a note for the user if the transform's results of the set's stored images differ from those of the originals, or
// from torchvision's, in any view. Where they must not, that is a [*NotBitExactError].
func CheckBitExact(set *shard.Set, views transform.Views, required bool) (note string, err error) {
	e, err := encodingOf(set)
	if err != nil {
		return "", err
	}
	for _, spec := range views {
		if note = cmp.Or(note, e.NotBitExact(spec), spec.Inexact()); note != "" && required {
			return "", &NotBitExactError{fmt.Sprintf("loader: %s: bit-exact results were asked for: %s", set.Dir(), note)}
		}
	}
	return note, nil
}

// A shardSet is a shard set as a Dataset.
type shardSet struct {
	*shard.Set
	encoding transform.Encoding
	mapped   bool // records may be viewed
}

func (s *shardSet) Encoding() transform.Encoding { return s.encoding }

func (s *shardSet) Read(i int, buf []byte, view bool) (shard.Record, []byte, error) {
	if view && s.mapped {
		record, err := s.Set.View(i)
		return record, buf, err
	}
	return s.Set.Read(i, buf)
}

func (s *shardSet) Label(i int) (int32, bool) {
	label, err := s.Set.Label(i)
	return label, err == nil
}

func (s *shardSet) Mapped(i int) []byte {
	if !s.mapped {
		return nil
	}
	return s.Set.Mapped(i)
}

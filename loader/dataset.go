package loader

import (
	"cmp"
	"fmt"
	"time"

	"github.com/imgfeed/imgfeed/loader/readahead"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/encoding"
	"github.com/imgfeed/imgfeed/shard/encoding/registry"
	"github.com/imgfeed/imgfeed/shard/storage"
	"github.com/imgfeed/imgfeed/transform"
)

// A Dataset is a shard set as streams read it.
type Dataset struct {
	*shard.Set
	encoding encoding.Encoding
	mapped   bool // records may be viewed
}

// FromShards makes an open shard set a [Dataset]. It reads the encoding's parameters once; one that this program
// cannot decode is an error. The set stays the caller's to close.
func FromShards(set *shard.Set) (*Dataset, error) {
	e, err := encodingOf(set)
	if err != nil {
		return nil, err
	}
	return &Dataset{Set: set, encoding: e, mapped: e.Mapped() && set.Map() == nil}, nil
}

// Encoding decodes the images of records that the set's encoding made, according to their format.
func (d *Dataset) Encoding() transform.Encoding { return d.encoding }

// Record checks the record of sample i against its checksum and returns it with the buffer for the next call, which may be larger.
// view allows the record to lie in a mapped file instead. While samples are read from a disk, copies cost less than the page
// faults of a mapping, and do not block their thread.
func (d *Dataset) Record(i int, buf []byte, view bool) (shard.Record, []byte, error) {
	if view && d.mapped {
		record, err := d.Set.View(i)
		return record, buf, err
	}
	return d.Set.Read(i, buf)
}

// sampleSet is what streams need of a [Dataset]. Tests have others.
type sampleSet interface {
	readahead.Set
	Encoding() transform.Encoding
	Record(i int, buf []byte, view bool) (shard.Record, []byte, error)
	ReadKept(i int, buf []byte) (record shard.Record, _ []byte, kept bool)
	Label(i int) (int32, error)
	Key(i int) (string, error)
	Mapped(i int) []byte
	Overdue(i int, after time.Duration) error
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

func newSampleError(set sampleSet, index int, err error) *SampleError {
	key := ""
	if !storage.IsDown(err) { // Keys come from the storage too.
		key, _ = set.Key(index)
	}
	return &SampleError{Index: index, Key: key, Err: err}
}

// A BadSample is a sample of a batch that could not be served, with what replaces it.
type BadSample struct {
	*SampleError
	Position int // position in the batch
	// By is the index of the sample of the same class that replaces it, -1 if the position is blank.
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

// substitutesMax is how many samples are tried instead of one that cannot be served: a dead disk must not be tried for each sample
// of a class.
const substitutesMax = 16

// BlankLabel is the label of a blank sample: the ignore_index of torch's cross-entropy loss.
const BlankLabel = -100

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

package loader

import (
	"fmt"

	"github.com/imgfeed/imgfeed/transform"
)

// A Dataset is where samples come from, by index: a shard set. Its methods are called by many goroutines at a time.
// What a set cannot do it answers as the method's comment says.
type Dataset interface {
	// Read reads sample i into buf, grown if it is too small, and returns the record, whose slices lie in the buffer or in
	// a mapped file, and the buffer for the next call. It has checked the sample's checksum.
	Read(i int, buf []byte) (Record, []byte, error)
	// Label returns the label of sample i, of which nothing is read for it; ok is false where it is not known.
	Label(i int) (label int32, ok bool)
	// Key returns the name of sample i, for messages.
	Key(i int) (string, error)
	// Resident reports whether sample i is in memory, so that Read need not wait for a disk; waits, whether to ask may take as
	// long as to read. A set that knows no disk says true and false.
	Resident(i int) (resident, waits bool)
	// Prefetch starts to bring sample i into memory and does not wait for it. It returns the stored bytes. A set that cannot
	// does nothing and returns 0.
	Prefetch(i int) (bytes int64)
	// DropsHints reports whether Prefetch's hints may come to nothing while the system has much to do.
	DropsHints() bool
	// Room is the share of the set that the page cache has room for, 0 to 1, and 1 where there is none to think of.
	Room() float64
	// Direct prepares for count samples at a time to be read ahead, into so many bytes. An error says why that can't be done.
	Direct(bytes int64, count int) (Direct, error)
	// Copy tells whether Read is to copy samples into buf even where it might hand out a mapped file's memory: while samples
	// come from the disk, copies cost less than the faults by which a mapping gets its pages, and don't hold up their thread.
	Copy(on bool)
	// Mapped returns where in memory sample i lies, unchecked: not to be read, only to be fetched into the processor's caches.
	// It is nil for a sample that lies in no mapped file.
	Mapped(i int) []byte
	// Corrupt makes err, which was met in the middle of sample i's record, an error that names file, record and offset. A set
	// that has no files returns err.
	Corrupt(i int, err error) error
}

// A Direct reads samples into memory of its own, ahead of their use, each as a number: those of the calls rise. See [shard.Direct],
// which is one.
type Direct interface {
	// Start begins to read sample i as number n, through the page cache or past it. 0 bytes mean that there is no room now, an error
	// that it can't be read so.
	Start(n int64, i int, cached bool) (bytes int64, err error)
	// Take waits for number n and returns its record, to be released if it is held. With an error it is to be read otherwise. A number
	// that was not started by then is not read any more.
	Take(n int64) (r Record, held bool, err error)
	// Release is called when the record of number n is no longer looked at.
	Release(n int64)
	// Close drops what is not begun, and waits for what is.
	Close()
}

// A Record is one stored sample.
type Record struct {
	transform.Source
	Label int32
	// Fields holds the values of the set's fields.
	Fields []byte
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
	key, keyErr := set.Key(index)
	if keyErr != nil {
		key = ""
	}
	return &SampleError{Index: index, Key: key, Err: err}
}

// A BadSample is a sample of a batch that could not be served, and what became of its place.
type BadSample struct {
	*SampleError
	Position int // in the batch
	// By is the index of the sample of the same class that stands there in its place, -1 if the place is blank.
	By int
}

// OnError says what becomes of a sample that cannot be read or decoded.
type OnError uint8

const (
	// Fail ends the stream with a [*SampleError] when the sample's batch is due.
	Fail OnError = iota
	// Blank gives black pixels and the label [BlankLabel], counts the sample and logs why.
	Blank
	// Substitute serves another sample of the same class in its place, as that is served in this epoch, counts and logs it: the first of
	// [plan.Plan.Alternatives] that is of its class and can be served, which nothing but seed, epoch, sample and data says. Where that is
	// none of the first [SubstitutesMax], it does as Fail does.
	Substitute
)

// SubstitutesMax is how many samples are tried in the place of one that cannot be served: a disk that fails altogether must not
// be asked for each of a class.
const SubstitutesMax = 16

// BlankLabel is the label of a blank sample: the ignore_index of torch's cross-entropy loss.
const BlankLabel = -100

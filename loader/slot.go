package loader

import "github.com/imgfeed/imgfeed/transform"

// A Slot is the memory for one batch of up to len(Labels) samples. The stream writes it between taking it from its
// [Supply] and handing it out with a [Batch]; in between nobody else may touch it.
type Slot struct {
	// ID is the owner's name for the slot; the loader does not look at it.
	ID int
	// Images holds len(Labels) images of Spec.OutputBytes() bytes each, uint8, one after the other.
	Images []byte
	// Labels and Indices hold each sample's label (BlankLabel if it could not be decoded) and index in the set.
	Labels, Indices []int64
	// Params holds each sample's transform.Params, ParamsLen numbers a sample; nil if they are not wanted.
	Params []int32
	// Fields holds the samples' values of each of the stream's fields.
	Fields [][]byte
}

// NewSlot allocates a slot for batchSize images of imageBytes bytes in ordinary memory.
func NewSlot(id, batchSize, imageBytes int) *Slot {
	return &Slot{
		ID:      id,
		Images:  make([]byte, batchSize*imageBytes),
		Labels:  make([]int64, batchSize),
		Indices: make([]int64, batchSize),
		Params:  make([]int32, batchSize*paramsPerSample),
	}
}

const paramsPerSample = transform.ParamsLen

// fits reports whether the slot has room for n images of imageBytes bytes.
func (s *Slot) fits(n, imageBytes int) bool {
	return len(s.Images) >= n*imageBytes && len(s.Labels) >= n && len(s.Indices) >= n &&
		(s.Params == nil || len(s.Params) >= n*paramsPerSample)
}

// A Supply holds the free slots of one consumer. Streams take from it and put back what they did not hand out; the
// consumer puts back what it has used. It may serve one stream after another. Safe for concurrent use.
type Supply struct {
	free chan *Slot
}

// NewSupply returns a supply that holds the given slots, all free.
func NewSupply(slots ...*Slot) *Supply {
	s := &Supply{free: make(chan *Slot, max(1, len(slots)))}
	for _, slot := range slots {
		s.free <- slot
	}
	return s
}

// Put gives a slot back. It never blocks; giving back more slots than there are is the caller's bug and panics.
func (s *Supply) Put(slot *Slot) {
	select {
	case s.free <- slot:
	default:
		panic("loader: a slot was put back twice")
	}
}

// Free returns the number of slots that wait to be filled.
func (s *Supply) Free() int { return len(s.free) }

// Cap returns the number of slots that the supply was made with.
func (s *Supply) Cap() int { return cap(s.free) }

package loader

import (
	"unsafe"

	"github.com/imgfeed/imgfeed/transform"
)

// A Slot is the memory for one batch of up to len(Labels) samples. The stream writes it between taking it from its
// [SlotPool] and handing it out with a [Batch]; in between nobody else may touch it. It must have room for the batch.
type Slot struct {
	// ID is the owner's name for the slot; the loader does not look at it.
	ID int
	// Images holds, for each view of the transform, len(Labels) images of its Spec.OutputBytes() bytes each, uint8, one after the other.
	Images [][]byte
	// Labels and Indices hold each sample's label (BlankLabel if it could not be decoded) and index in the set.
	Labels, Indices []int64
	// Repetitions holds which repetition of its sample each position has in the plan, see plan.Selection; nil if they are not wanted.
	Repetitions []int64
	// Params holds, for each view, each sample's transform.Params, ParamsLen numbers a sample; nil if they are not wanted.
	Params [][]int32
	// Fields holds the samples' values of each of the stream's fields.
	Fields [][]byte
}

// NewSlot allocates a slot for batchSize samples in ordinary memory.
func NewSlot(id, batchSize int, views transform.Views) *Slot {
	s := &Slot{ID: id, Labels: make([]int64, batchSize), Indices: make([]int64, batchSize), Repetitions: make([]int64, batchSize)}
	for _, spec := range views {
		s.Images = append(s.Images, make([]byte, batchSize*spec.OutputBytes()))
		s.Params = append(s.Params, make([]int32, batchSize*paramsPerSample))
	}
	return s
}

const paramsPerSample = transform.ParamsLen

// name says which sample a position is for.
func (s *Slot) name(position, index, repetition int) {
	s.Indices[position] = int64(index)
	if s.Repetitions != nil {
		s.Repetitions[position] = int64(repetition)
	}
}

// blank makes a sample black, without params.
func (s *Slot) blank(position int, views transform.Views) {
	for v, spec := range views {
		size := spec.OutputBytes()
		clear(s.Images[v][position*size:][:size])
		if s.Params != nil {
			clear(s.Params[v][position*paramsPerSample:][:paramsPerSample])
		}
	}
	s.Labels[position] = BlankLabel
}

// AppendSamples appends the memory of n positions of a slot, from first on, as it travels from [Pool.Make] to a [Remote]: labels, then
// params, images and fields. Numbers are sent as they lie in memory, in this machine's byte order. Indices and repetitions are known
// on both sides.
func (s *Slot) AppendSamples(parts [][]byte, first, n int) [][]byte {
	room := len(s.Labels)
	add := func(memory []byte) {
		stride := len(memory) / room
		parts = append(parts, memory[first*stride:(first+n)*stride:(first+n)*stride])
	}
	add(bytesOf(s.Labels))
	for _, params := range s.Params {
		add(bytesOf(params))
	}
	for _, images := range s.Images {
		add(images)
	}
	for _, field := range s.Fields {
		add(field)
	}
	return parts
}

func bytesOf[T int32 | int64](numbers []T) []byte {
	var zero T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(numbers))), len(numbers)*int(unsafe.Sizeof(zero)))
}

// A SlotPool holds the free slots of one consumer. Streams take from it and put back the slots that they did not hand out; the
// consumer puts back its used ones. It may serve one stream after another. Safe for concurrent use.
//
// At any time a slot is free, or it belongs to one stream or to the consumer, who alone writes to it. So free has room for all, and Put
// never waits.
type SlotPool struct {
	free  chan *Slot
	idle  stopwatch // all batches of the streams that have a slot are finished
	reads stopwatch // a stream waits for its storage
}

// NewSlotPool returns a pool that holds the given slots, all free.
func NewSlotPool(slots ...*Slot) *SlotPool {
	s := &SlotPool{free: make(chan *Slot, max(1, len(slots)))}
	for _, slot := range slots {
		s.free <- slot
	}
	return s
}

// Put gives a slot back. It never blocks; giving back more slots than there are is the caller's bug and panics.
func (s *SlotPool) Put(slot *Slot) {
	select {
	case s.free <- slot:
	default:
		panic("loader: a slot was put back twice")
	}
}

// Free returns the number of slots that wait to be filled.
func (s *SlotPool) Free() int { return len(s.free) }

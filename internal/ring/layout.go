package ring

import (
	"fmt"
	"math"
	"os"
)

// arrayAlign is the alignment of each array within a slot: a cache line, and the width of the widest vector.
const arrayAlign = 64

// paramsBytes is the size of one sample's params: five int32.
const paramsBytes = 5 * 4

// A Layout says where the arrays of a batch lie in a slot, in bytes. For 256 samples of 224×224 with params:
//
//	Images   0           256 × 224 × 224 × 3 uint8 = 38,535,168
//	Labels   38,535,168  256 int64
//	Indices  38,537,216  256 int64
//	Params   38,539,264  256 × 5 int32
//	Size     38,547,456  a whole number of pages
type Layout struct {
	BatchSize   int
	SampleBytes int64 // of one sample's image
	WithParams  bool
	Images      int64
	Labels      int64
	Indices     int64
	Params      int64 // 0 without params
	Size        int64
}

// A SizeError means that a batch or a ring would be larger than it may be.
type SizeError struct{ Msg string }

func (e *SizeError) Error() string { return "ring: " + e.Msg }

// NewLayout lays out batchSize samples of height×width×channels bytes. It returns a [*SizeError] for sizes that are not
// positive or whose product does not fit.
func NewLayout(batchSize, height, width, channels int, withParams bool) (Layout, error) {
	const sizeMax = math.MaxInt64 / 4
	sample := int64(1)
	for _, n := range []int{height, width, channels} {
		if n < 1 || sample > sizeMax/int64(n) {
			return Layout{}, &SizeError{fmt.Sprintf("an image of %d × %d × %d bytes is impossible", height, width, channels)}
		}
		sample *= int64(n)
	}
	if batchSize < 1 || int64(batchSize) > sizeMax/(sample+8+8+paramsBytes) {
		return Layout{}, &SizeError{fmt.Sprintf("a batch of %d images of %d bytes is impossible", batchSize, sample)}
	}
	l := Layout{BatchSize: batchSize, SampleBytes: sample, WithParams: withParams}
	n := int64(batchSize)
	l.Labels = alignUp(l.Images+n*sample, arrayAlign)
	l.Indices = alignUp(l.Labels+n*8, arrayAlign)
	end := l.Indices + n*8
	if withParams {
		l.Params = alignUp(end, arrayAlign)
		end = l.Params + n*paramsBytes
	}
	l.Size = alignUp(end, int64(os.Getpagesize()))
	return l, nil
}

// BatchBytes returns the size of the arrays of count samples without the gaps between them.
func (l Layout) BatchBytes(count int) int64 {
	n := l.SampleBytes + 8 + 8
	if l.WithParams {
		n += paramsBytes
	}
	return int64(count) * n
}

// Arrays returns the parts of slot that hold the arrays of count samples, in the order in which they travel: images,
// labels, indices and, in a session with params, params (nil otherwise).
func (l Layout) Arrays(slot []byte, count int) (images, labels, indices, params []byte) {
	n := int64(count)
	images = slot[l.Images : l.Images+n*l.SampleBytes]
	labels = slot[l.Labels : l.Labels+n*8]
	indices = slot[l.Indices : l.Indices+n*8]
	if l.WithParams {
		params = slot[l.Params : l.Params+n*paramsBytes]
	}
	return images, labels, indices, params
}

func alignUp(n, to int64) int64 { return (n + to - 1) / to * to }

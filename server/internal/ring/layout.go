package ring

import (
	"fmt"
	"math"
	"os"

	"github.com/imgfeed/imgfeed/shard"
)

// arrayAlign is the alignment of each array within a slot: a cache line, and the width of the widest vector.
const arrayAlign = 64

// Kinds of arrays.
const (
	Images  = "images"
	Labels  = "labels"
	Indices = "indices"
	Params  = "params"
	Field   = "field" // a field of the set, by its name

	Repetitions = "repetitions"
)

// dtypes are the bytes of an element of each type that arrays have. Arrays of other types come with their Stride.
var dtypes = map[string]int64{"uint8": 1, "int32": 4, "int64": 8, "float32": 4}

// An Array is one of the arrays that a slot holds: an element of Shape for each sample of the batch, one after the other. It is what the
// reply to open says of it.
type Array struct {
	Kind   string `json:"kind"`           // what it holds
	Name   string `json:"name,omitempty"` // name among several arrays of a kind
	Dtype  string `json:"dtype"`
	Shape  []int  `json:"shape"`  // shape of one sample; empty: a single number
	Offset int64  `json:"offset"` // within the slot, bytes
	Stride int64  `json:"stride"` // bytes from one sample to the next

	Columns []shard.Column `json:"columns,omitempty"` // numbers of each object, in an array of objects
}

// A Layout says which arrays a slot has and where they lie. For 256 samples of 224×224 with params:
//
//	images   uint8 [224 224 3]   0           256 × 150,528 = 38,535,168.
//	labels   int64               38,535,168  256 × 8.
//	indices  int64               38,537,216  256 × 8.
//	params   int32 [5]           38,539,264  256 × 20.
//	Size                         38,547,456  a whole number of pages.
type Layout struct {
	BatchSize int
	Arrays    []Array // arrays in the order of memory and wire
	Size      int64

	SampleBytes int64 // size of a sample in all arrays, without the gaps between them
}

// sizeMax bounds a slot, so that sums of sizes do not overflow.
const sizeMax = math.MaxInt64 / 4

// NewLayout lays out batchSize samples: it sets Offset and Stride of the arrays, which it keeps. It returns a [*RequestError] for sizes
// that are not positive or whose product does not fit.
func NewLayout(batchSize int, arrays ...Array) (Layout, error) {
	l := Layout{BatchSize: batchSize, Arrays: arrays}
	if batchSize < 1 || int64(batchSize) > sizeMax {
		return Layout{}, &RequestError{fmt.Sprintf("a batch of %d samples is impossible", batchSize)}
	}
	for i := range arrays {
		a := &arrays[i]
		if size := dtypes[a.Dtype]; size > 0 {
			for _, n := range a.Shape {
				if n < 1 || size > sizeMax/int64(n) {
					return Layout{}, &RequestError{fmt.Sprintf("%s of the shape %v are impossible", a.Kind, a.Shape)}
				}
				size *= int64(n)
			}
			a.Stride = size
		}
		if int64(batchSize) > (sizeMax-l.Size)/a.Stride {
			return Layout{}, &RequestError{fmt.Sprintf("a batch of %d samples of %d bytes of %s is impossible",
				batchSize, a.Stride, a.Kind)}
		}
		a.Offset = alignUp(l.Size, arrayAlign)
		l.Size = a.Offset + int64(batchSize)*a.Stride
		l.SampleBytes += a.Stride
	}
	l.Size = alignUp(l.Size, int64(os.Getpagesize()))
	return l, nil
}

// AppendParts appends to parts those of slot that hold the arrays of count samples, in order.
func (l Layout) AppendParts(parts [][]byte, slot []byte, count int) [][]byte {
	for i := range l.Arrays {
		a := &l.Arrays[i]
		end := a.Offset + int64(count)*a.Stride
		parts = append(parts, slot[a.Offset:end:end])
	}
	return parts
}

func alignUp(n, to int64) int64 { return (n + to - 1) / to * to }

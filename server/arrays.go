package server

import (
	"strconv"
	"unsafe"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/loader"
	"github.com/imgfeed/imgfeed/server/internal/ring"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/transform"
)

// channels of every output: RGB.
const channels = 3

// arrays are those that a slot of the session has: a further kind is described here, and laid under the loader's slot by viewSlot. Their
// order is that of the memory and of the wire, and the client finds each by its kind and name.
func (c *openConfig) arrays() []ring.Array {
	var arrays []ring.Array
	for v, spec := range c.views {
		height, width := spec.OutputSize()
		shape := c.imageShape([2]int{height, width})
		arrays = append(arrays, ring.Array{Kind: ring.Images, Name: c.viewName(v), Dtype: "uint8", Shape: shape})
	}
	none := []int{} // not nil, which JSON would write as null
	arrays = append(arrays, ring.Array{Kind: ring.Labels, Dtype: "int64", Shape: none},
		ring.Array{Kind: ring.Indices, Dtype: "int64", Shape: none})
	for v := range c.views {
		if c.WithParams {
			arrays = append(arrays, ring.Array{Kind: ring.Params, Name: c.viewName(v), Dtype: "int32", Shape: []int{transform.ParamsLen}})
		}
	}
	if c.WithRepetitions {
		arrays = append(arrays, ring.Array{Kind: ring.Repetitions, Dtype: "int64", Shape: none})
	}
	for k := range c.fields.Len() {
		f := c.fields.Field(k)
		a := ring.Array{Kind: ring.Field, Name: f.Name, Dtype: string(f.Type), Shape: none}
		if f.Size > 0 {
			a.Shape = []int{f.Size}
		}
		switch {
		case f.Type == shard.Mask:
			height, width := c.views[0].OutputSize()
			a.Dtype, a.Shape = "uint8", []int{height, width}
		case !f.Numeric():
			a.Stride, a.Columns = int64(c.fields.Stride(k)), f.Columns
		}
		arrays = append(arrays, a)
	}
	return arrays
}

// imageShape returns the shape of an image of a height and a width.
func (c *openConfig) imageShape(size [2]int) []int {
	if c.imageLayout == transform.NCHW {
		return []int{channels, size[0], size[1]}
	}
	return []int{size[0], size[1], channels}
}

// fieldRoomMax bounds what a slot holds of a field whose values have any length, bytes: there is room for the longest of the set
// for each sample.
const fieldRoomMax = 256 << 20

// checkFieldRoom refuses fields whose few long values would make every slot large.
func checkFieldRoom(fields *loader.Fields, batchSize int) error {
	for k := range fields.Len() {
		f, stride := fields.Field(k), int64(fields.Stride(k))
		if !f.Numeric() && f.Type != shard.Mask && int64(batchSize) > fieldRoomMax/stride {
			return badRequest("field %q: its longest value has %d bytes, and a slot has room for that for each of %d samples, at "+
				"most %s in all: take batches of at most %d, or ask for the values by index, as dataset.get does", f.Name, f.BytesMax,
				batchSize, bytesize.Format(fieldRoomMax), fieldRoomMax/stride)
		}
	}
	return nil
}

// viewName returns the number of a view, which is the name of its arrays; "" where the transform is not a list of views.
func (c *openConfig) viewName(v int) string {
	if !c.listed {
		return ""
	}
	return strconv.Itoa(v)
}

// viewSlot lays the loader's arrays over a slot's memory, which is little-endian like the wire on every platform that Go's
// memfd exists for and imgfeed is built for. The arrays are views, valid as long as the ring: who fills them writes what the client maps.
func viewSlot(id int, memory []byte, l ring.Layout) *loader.Slot {
	s := &loader.Slot{ID: id}
	for i, part := range l.AppendParts(nil, memory, l.BatchSize) {
		switch l.Arrays[i].Kind {
		case ring.Images:
			s.Images = append(s.Images, part)
		case ring.Labels:
			s.Labels = view[int64](part)
		case ring.Indices:
			s.Indices = view[int64](part)
		case ring.Repetitions:
			s.Repetitions = view[int64](part)
		case ring.Params:
			s.Params = append(s.Params, view[int32](part))
		case ring.Field:
			s.Fields = append(s.Fields, part)
		}
	}
	return s
}

// view reinterprets memory, aligned to 64 bytes by the layout, as numbers.
func view[T int32 | int64](memory []byte) []T {
	var zero T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(memory))), len(memory)/int(unsafe.Sizeof(zero)))
}

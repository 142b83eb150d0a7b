package server

import (
	"bytes"
	"encoding/binary"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/server/internal/ring"
	"github.com/imgfeed/imgfeed/shard"
)

// everyField has a field of each kind; everyValue is what a sample has.
var everyField = shard.Fields{
	{Name: "caption", Type: shard.Text}, {Name: "score", Type: shard.Float32}, {Name: "box", Type: shard.Float32, Size: 4}, {Name: "ids", Type: shard.Int64, Size: 2}, {Name: "age", Type: shard.Int64},
	{Name: "mask", Type: shard.Bytes},
}

func everyValue(index int) []byte {
	i := int64(index)
	v := shard.AppendBytes(nil, []byte(strings.Repeat("x", index%5)))
	v = shard.AppendFloats(v, float32(index)/4, float32(index), -1, 0.5, 2)
	return shard.AppendBytes(shard.AppendInts(v, i, -i, 3*i), []byte{byte(index)})
}

// TestLongValuesNeedSmallBatches asks for a field with a value of 3 MB, of which a slot can hold few.
func TestLongValuesNeedSmallBatches(t *testing.T) {
	dir := trainSet(t, 3, 1, valueFields, func(i int) []byte {
		return shard.AppendBytes(shard.AppendFloats(nil, 1), bytes.Repeat([]byte("x"), 1+i*1_500_000))
	})
	ts := startServer(t, dir, nil)
	c := ts.dial().hello()
	c.refuses(openRequest{Transform: onePixel, BatchSize: 1, Fields: []string{"score", "score"}}, kindBadRequest, "twice")
	c.refuses(openRequest{Transform: onePixel, BatchSize: 100, Fields: []string{"score", "caption"}}, kindBadRequest, `field "caption": its longest value has 3000001 bytes, and a slot has room for that for each of 100 samples, at most 256.0 MiB in all: take batches of at most 89`)
	c.open(openRequest{BatchSize: 3, Slots: 1, Fields: []string{"caption"}})
	m := c.begun(0)
	got := c.array(ring.Field, m)
	longest := got[2*len(got)/3:]
	testenv.Equal(t, binary.LittleEndian.Uint32(longest), 3_000_001, "bytes of the longest value")
	testenv.Equal(t, longest[3_000_004], 'x', "its last byte")
}

// TestBlankFields serves a sample that is damaged: its numbers are none.
func TestBlankFields(t *testing.T) {
	dir := trainSet(t, 3, 1, everyField, everyValue)
	damage(t, filepath.Join(dir, "train-shards"), 1)
	c := startServer(t, dir, nil).dial().hello().open(openRequest{BatchSize: 3, OnError: onErrorBlank, Fields: []string{"box", "ids", "caption"}, Slots: 1})
	for range 2 { // in a slot that is new, and in one that was used
		m := c.begun(0)
		slot := c.ring[int64(*m.Slot)*c.opened.SlotBytes:]
		box, ids, caption := slot[c.opened.Arrays[3].Offset+16:], view[int64](slot[c.opened.Arrays[4].Offset+16:][:16]), slot[c.opened.Arrays[5].Offset+8:]
		for at := range 4 {
			x := math.Float32frombits(binary.LittleEndian.Uint32(box[4*at:]))
			testenv.Check(t, x != x, "number %d of a blank sample is %v", at, x)
		}
		bad := len(m.Bad) == 1 && m.Bad[0].Position == 1 && m.Bad[0].By == nil
		testenv.Check(t, bad && ids[0] == 0 && ids[1] == 0 && binary.LittleEndian.Uint32(caption) == 0, "bad %v, %v, % x", m.Bad, ids, caption[:8])
		expect[endMessage](c)
		c.send(releaseRequest{Slot: 0})
	}
}

// TestForgedLengths serves a set whose manifest says that values are shorter than they are: none is written over another's memory.
func TestForgedLengths(t *testing.T) {
	dir := trainSet(t, 6, 1, valueFields, func(i int) []byte {
		return shard.AppendBytes(shard.AppendFloats(nil, 1), bytes.Repeat([]byte("x"), 1+i*i*100))
	})
	forge(t, dir, func(text []byte) []byte {
		return bytes.Replace(text, []byte(`"bytes_max": 2501`), []byte(`"bytes_max": 1`), 1)
	})
	c := startServer(t, dir, nil).dial().hello().open(openRequest{BatchSize: 6, Fields: []string{"caption"}})
	c.start(startRequest{})
	c.refused(kindCorrupt, `field "caption" has 101 bytes, and at most 1 are expected`, "00000.imgshard: record 1 (sample 1)")
	c.refuses(valuesRequest{Index: 2}, kindCorrupt)
}

// TestFieldsAllocateNothing serves numbers and counts allocations.
func TestFieldsAllocateNothing(t *testing.T) {
	allocateNothing(t, everyField, everyValue, "", "score", "box", "ids", "caption")
}

// allocateNothing compares the allocations of epochs with fields and without any.
func allocateNothing(t *testing.T, has shard.Fields, values func(int) []byte, boxes string, fields ...string) {
	t.Helper()
	const samples = 600
	ts := startServer(t, trainSet(t, samples, 1, has, values), nil)
	mallocs := func(m openRequest) float64 {
		m.BatchSize = 300
		return ts.dial().hello().open(m).mallocs(samples) / (2 * samples)
	}
	without, with := mallocs(openRequest{}), mallocs(openRequest{Fields: fields, Boxes: boxes})
	testenv.Check(t, with <= without+0.25, "%.2f allocations a sample with fields, %.2f without", with, without)
}

package server

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"slices"
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
		testenv.Check(t, bad && ids[0] == 0 && ids[1] == 0 && binary.LittleEndian.Uint32(caption) == 0,
			"bad %v, %v, % x", m.Bad, ids, caption[:8])
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

// TestClassesOfAnyNumber asks for names that take more than a message.
func TestClassesOfAnyNumber(t *testing.T) {
	want := make([]string, 2*classesMax+1)
	for i := range want {
		want[i] = fmt.Sprint("class ", i)
	}
	dir := t.TempDir()
	writeClassSet(t, filepath.Join(dir, "train-shards"), "train", 2, 1, want, nil, func(int) []byte { return nil })
	c := startServer(t, dir, nil).dial().hello().open(openRequest{BatchSize: 1, Slots: 1})
	var got []string
	for range 3 {
		reply := ask[classesReply](c, classesRequest{First: len(got)})
		testenv.Require(t, reply.First == len(got) && reply.Count == len(want), "after %d of %d names: %+v", len(got), len(want), reply)
		got = append(got, reply.Classes...)
	}
	testenv.Check(t, slices.Equal(got, want), "other names")
}

// drain runs an epoch and gives every slot back at once.
func (c *client) drain(epoch int64) (images int) {
	c.t.Helper()
	for b := range c.batches(epoch, 0) {
		images += b.Count
	}
	return images
}

// mallocs returns how often two epochs of so many samples allocate, and closes the client.
func (c *client) mallocs(samples int) float64 {
	c.t.Helper()
	defer c.close()
	c.drain(0)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	n := c.drain(1) + c.drain(2)
	runtime.ReadMemStats(&after)
	testenv.Require(c.t, n == 2*samples, "%d images, want %d", n, 2*samples)
	return float64(after.Mallocs - before.Mallocs)
}

// TestNothingIsAllocatedForASample compares epochs with few and with many samples in a batch: what a batch costs is
// allowed, what a sample costs is not. Client and server share the process, so a batch's messages count twice.
func TestNothingIsAllocatedForASample(t *testing.T) {
	const samples = 2000
	ts := startServer(t, pixelsSet(t, samples), nil)
	mallocs := func(batch int) float64 {
		c := ts.dial().hello().open(openRequest{Transform: json.RawMessage(`[{"op":"RandomCrop","size":4},{"op":"RandomHorizontalFlip"}]`), BatchSize: batch, Shuffle: true, Seed: of[int64](1)})
		return c.mallocs(samples)
	}
	small, large := mallocs(50), mallocs(500)
	perBatch := (small - large) / (2*samples/50 - 2*samples/500)
	perSample := (large - perBatch*2*samples/500) / (2 * samples)
	testenv.Check(t, perSample <= 0.5, // the race detector has pools drop what they hold
		"%.2f allocations a sample in batches of 500 (%.0f in all, %.0f in batches of 50)", perSample, large, small)
	t.Logf("allocations for %d samples: %.0f in 80 batches, %.0f in 8", 2*samples, small, large)
}

package server

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

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

// wantArrays are the values of some samples as a slot has them, by name.
func wantArrays(indices []int64) map[string][]byte {
	want := make(map[string][]byte)
	for _, i := range indices {
		x := float32(i)
		caption := shard.AppendBytes(nil, []byte(strings.Repeat("x", int(i)%5)))
		want["caption"] = append(append(want["caption"], caption...), make([]byte, 8-len(caption))...)
		want["score"] = shard.AppendFloats(want["score"], x/4)
		want["box"] = shard.AppendFloats(want["box"], x, -1, 0.5, 2)
		want["ids"] = shard.AppendInts(want["ids"], i, -i)
		want["age"] = shard.AppendInts(want["age"], 3*i)
		want["mask"] = append(want["mask"], 1, 0, 0, 0, byte(i), 0, 0, 0)
	}
	return want
}

// cleared sets what means nothing behind the captions and masks to 0.
func cleared(a ring.Array, values []byte) []byte {
	values = bytes.Clone(values)
	for at := 0; (a.Dtype == "text" || a.Dtype == "bytes") && at < len(values); at += int(a.Stride) {
		n := binary.LittleEndian.Uint32(values[at:])
		clear(values[at+4+int(n) : at+int(a.Stride)])
	}
	return values
}

// TestFieldsAreDelivered compares every value of an epoch on both transports.
func TestFieldsAreDelivered(t *testing.T) {
	dir := t.TempDir()
	writeFieldSet(t, filepath.Join(dir, "train-shards"), "train", 23, 2, everyField, everyValue)
	ts := startServer(t, dir, nil)
	names := []string{"mask", "box", "caption", "score", "age", "ids"}
	for _, transport := range []string{transportShm, transportSocket} {
		c := ts.dial().hello().open(openRequest{BatchSize: 5, Shuffle: true, Seed: of[int64](3), Transport: transport, Fields: names, WithParams: true})
		if n := len(c.opened.Arrays); n != 4+len(names) || c.opened.Arrays[4].Name != "mask" || !slices.Equal(c.opened.Arrays[5].Shape, []int{4}) {
			t.Fatalf("%+v", c.opened.Arrays)
		}
		c.send(startRequest{Epoch: 1})
		expect[startedReply](c)
		seen := 0
		for m, more := c.receive().(batchMessage); more; m, more = c.receive().(batchMessage) {
			parts := make(map[string][]byte)
			var raw []byte
			if transport == transportSocket {
				raw = c.raw(m.Bytes)
			}
			for _, a := range c.opened.Arrays {
				n := int64(m.Count) * a.Stride
				if raw != nil {
					parts[a.Kind+a.Name], raw = cleared(a, raw[:n]), raw[n:]
				} else {
					parts[a.Kind+a.Name] = cleared(a, c.ring[int64(*m.Slot)*c.opened.SlotBytes+a.Offset:][:n])
				}
			}
			indices := slices.Clone(view[int64](parts[ring.Indices]))
			for name, want := range wantArrays(indices) {
				if got := parts[ring.Field+name]; !bytes.Equal(got, want) {
					t.Errorf("%s: %s of samples %v is % x, want % x", transport, name, indices, got, want)
				}
			}
			if seen += m.Count; m.Slot != nil {
				c.send(releaseRequest{Slot: *m.Slot})
			}
		}
		if seen != 23 {
			t.Errorf("%d samples", seen)
		}
		c.send(valuesRequest{Index: 7})
		if got := c.raw(int64(expect[valuesReply](c).Bytes)); !bytes.Equal(got, everyValue(7)) {
			t.Errorf("values of sample 7: % x", got)
		}
		c.close()
	}
	for want, names := range map[string][]string{
		`no field \"colour\" here; there are caption text, score float32, box float32[4]`: {"score", "colour"}, "twice": {"score", "score"},
	} {
		c := ts.dial().hello()
		c.send(openRequest{Transform: onePixel, BatchSize: 1, Fields: names})
		if e := expect[errorMessage](c); e.ErrKind != kindBadRequest || !strings.Contains(fmt.Sprintf("%q", e.Message), want) {
			t.Errorf("%v: %+v", names, e)
		}
		c.close()
	}
	ts.checkIdle()
}

// TestLongValuesNeedSmallBatches asks for a field with a value of 3 MB, of which a slot can hold few.
func TestLongValuesNeedSmallBatches(t *testing.T) {
	dir := t.TempDir()
	writeFieldSet(t, filepath.Join(dir, "train-shards"), "train", 3, 1, valueFields, func(i int) []byte {
		return shard.AppendBytes(shard.AppendFloats(nil, 1), bytes.Repeat([]byte("x"), 1+i*1_500_000))
	})
	ts := startServer(t, dir, nil)
	c := ts.dial().hello()
	c.send(openRequest{Transform: onePixel, BatchSize: 100, Fields: []string{"score", "caption"}})
	want := `field "caption": its longest value has 3000001 bytes, and a slot has room for that for each of 100 samples, at most 256.0 MiB in all: take batches of at most 89`
	if e := expect[errorMessage](c); e.ErrKind != kindBadRequest || !strings.Contains(e.Message, want) {
		t.Errorf("%+v", e)
	}
	c.open(openRequest{BatchSize: 3, Slots: 1, Fields: []string{"caption"}})
	c.send(startRequest{})
	expect[startedReply](c)
	m := expect[batchMessage](c)
	got := c.array(ring.Field, m)
	if stride := len(got) / 3; binary.LittleEndian.Uint32(got[2*stride:]) != 3_000_001 || got[2*stride+3_000_004] != 'x' {
		t.Errorf("the longest value has %d bytes", binary.LittleEndian.Uint32(got[2*stride:]))
	}
}

// TestBlankFields serves a sample that is damaged: its numbers are none.
func TestBlankFields(t *testing.T) {
	dir := t.TempDir()
	writeFieldSet(t, filepath.Join(dir, "train-shards"), "train", 3, 1, everyField, everyValue)
	damage(t, filepath.Join(dir, "train-shards"), 1)
	c := startServer(t, dir, nil).dial().hello().open(openRequest{BatchSize: 3, OnError: onErrorBlank, Fields: []string{"box", "ids", "caption"}, Slots: 1})
	for range 2 { // in a slot that is new, and in one that was used
		c.send(startRequest{})
		expect[startedReply](c)
		m := expect[batchMessage](c)
		slot := c.ring[int64(*m.Slot)*c.opened.SlotBytes:]
		box, ids, caption := slot[c.opened.Arrays[3].Offset+16:], view[int64](slot[c.opened.Arrays[4].Offset+16:][:16]), slot[c.opened.Arrays[5].Offset+8:]
		for at := range 4 {
			if x := math.Float32frombits(binary.LittleEndian.Uint32(box[4*at:])); x == x {
				t.Errorf("number %d of a blank sample is %v", at, x)
			}
		}
		if len(m.Bad) != 1 || m.Bad[0].Place != 1 || m.Bad[0].By != nil || ids[0] != 0 || ids[1] != 0 || binary.LittleEndian.Uint32(caption) != 0 {
			t.Errorf("bad %v, %v, % x", m.Bad, ids, caption[:8])
		}
		expect[endMessage](c)
		c.send(releaseRequest{Slot: 0})
	}
}

// TestForgedLengths serves a set whose manifest says that values are shorter than they are: none is written over another's memory.
func TestForgedLengths(t *testing.T) {
	dir := t.TempDir()
	set := filepath.Join(dir, "train-shards")
	writeFieldSet(t, set, "train", 6, 1, valueFields, func(i int) []byte {
		return shard.AppendBytes(shard.AppendFloats(nil, 1), bytes.Repeat([]byte("x"), 1+i*i*100))
	})
	path := filepath.Join(set, "manifest.json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.Replace(text, []byte(`"bytes_max": 2501`), []byte(`"bytes_max": 1`), 1)
	body := text[:bytes.LastIndex(text, []byte(`"crc32c"`))]
	text = fmt.Appendf(bytes.Clone(body), "\"crc32c\": \"%08x\"\n}\n", crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
	if err := os.WriteFile(path, text, 0o666); err != nil {
		t.Fatal(err)
	}
	c := startServer(t, dir, nil).dial().hello().open(openRequest{BatchSize: 6, Fields: []string{"caption"}})
	c.send(startRequest{})
	expect[startedReply](c)
	if e := expect[errorMessage](c); e.ErrKind != kindCorrupt || !strings.Contains(e.Message, `field "caption" has 101 bytes, and at most 1 are expected`) || !strings.Contains(e.Message, "00000.imgshard: record 1 (sample 1)") {
		t.Errorf("%+v", e)
	}
	c.send(valuesRequest{Index: 2})
	if e := expect[errorMessage](c); e.ErrKind != kindCorrupt {
		t.Errorf("%+v", e)
	}
}

// TestFieldsAllocateNothing serves numbers and counts allocations.
func TestFieldsAllocateNothing(t *testing.T) {
	const samples = 600
	dir := t.TempDir()
	writeFieldSet(t, filepath.Join(dir, "train-shards"), "train", samples, 1, everyField, everyValue)
	ts := startServer(t, dir, nil)
	mallocs := func(fields ...string) float64 {
		c := ts.dial().hello().open(openRequest{BatchSize: 300, Fields: fields})
		defer c.close()
		c.drain(0)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		n := c.drain(1) + c.drain(2)
		runtime.ReadMemStats(&after)
		return float64(after.Mallocs-before.Mallocs) / float64(n)
	}
	without, with := mallocs(), mallocs("score", "box", "ids", "caption")
	if with > without+0.25 {
		t.Errorf("%.2f allocations a sample with fields, %.2f without", with, without)
	}
}

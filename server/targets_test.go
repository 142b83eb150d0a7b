package server

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/image/mask"
	"github.com/imgfeed/imgfeed/internal/image/thumbnail"
	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/loader"
	"github.com/imgfeed/imgfeed/server/internal/ring"
	"github.com/imgfeed/imgfeed/shard"
)

// targetFields are objects with a number each, and a mask, beside a number of the image.
var targetFields = shard.Fields{
	{Name: "objects", Type: shard.Objects, BytesMax: 1 << 12, Classes: []string{"car", "bus", "van"}, Columns: []shard.Column{{Name: "area", Type: shard.Float32}, {Name: "id", Type: shard.Int64}}},
	{Name: "mask", Type: shard.Mask, BytesMax: 1 << 12}, {Name: "image_id", Type: shard.Int64},
}

// targetsOf gives sample i of 8×6 pixels i mod 4 objects: object k has box (k, 1, k + 3, 5), label k, area i and id 10·i + k. Its mask
// has in row y and column x the label 8·y + x.
func targetsOf(i int) []byte {
	var o shard.ObjectValue
	o.Columns = make([][]byte, 2)
	for k := range i % 4 {
		at := float32(k)
		o.Boxes, o.Labels = append(o.Boxes, at, 1, at+3, 5), append(o.Labels, int64(k))
		o.Columns[0] = shard.AppendFloats(o.Columns[0], float32(i))
		o.Columns[1] = shard.AppendInts(o.Columns[1], int64(10*i+k))
	}
	labels := make([]byte, 48)
	for at := range labels {
		labels[at] = byte(at)
	}
	return targetValues(o.Append(nil), mask.Append(nil, 8, 6, labels), i)
}

func targetValues(objects, mask []byte, i int) []byte {
	return shard.AppendInts(shard.AppendBytes(shard.AppendBytes(nil, objects), mask), int64(i))
}

// field returns the memory of a field in a batch, and the bytes of a sample.
func (c *client) field(name string, b batchMessage) (part []byte, stride int) {
	c.t.Helper()
	part = c.array(ring.Field, b, name)
	return part, len(part) / b.Count
}

// objectsOf returns the objects of a batch's samples.
func (c *client) objectsOf(b batchMessage) []shard.ObjectValue {
	c.t.Helper()
	part, stride := c.field("objects", b)
	made := make([]shard.ObjectValue, b.Count)
	for i := range made {
		value := part[i*stride:][:stride]
		testenv.OK(c.t, targetFields[0].ReadObjects(value[4:4+binary.LittleEndian.Uint32(value)], &made[i]))
	}
	return made
}

// flippedHalf mirrors images of 8×6 pixels, makes them 16×12, and drops boxes less than 6 pixels wide.
var flippedHalf = json.RawMessage(`[{"op":"RandomHorizontalFlip","p":1},{"op":"Resize","size":[12,16]},{"op":"SanitizeBoundingBoxes","min_size":6}]`)

// TestTargetsAreServed: objects follow the images with their numbers, and masks too, also after a change to another size.
func TestTargetsAreServed(t *testing.T) {
	c := startServer(t, trainSet(t, 5, 1, targetFields, targetsOf), nil).dial().hello()
	c.open(openRequest{Transform: flippedHalf, BatchSize: 5, Fields: []string{"mask", "objects", "image_id"}, Boxes: "cxcywh", BoxesUnit: "fraction", Slots: 1})
	m := c.begun(0)
	for i, o := range c.objectsOf(m) {
		testenv.Require(t, len(o.Labels) == i%4 && len(o.Boxes) == 4*len(o.Labels), "sample %d has objects %+v", i, o)
		for k, label := range o.Labels {
			want := []float32{(8 - float32(k) - 1.5) / 8, 0.5, 3. / 8, 4. / 6}
			area, id := math.Float32frombits(binary.LittleEndian.Uint32(o.Columns[0][4*k:])), binary.LittleEndian.Uint64(o.Columns[1][8*k:])
			testenv.Check(t, slices.Equal(o.Boxes[4*k:4*k+4], want) && label == int64(k) && area == float32(i) && id == uint64(10*i+k),
				"sample %d, object %d: %+v, want the box %v", i, k, o, want)
		}
	}
	labels, stride := c.field("mask", m)
	testenv.Check(t, stride == 12*16 && labels[0] == 7 && labels[15] == 0 && labels[stride+2*16+3] == 8+6,
		"masks of %d bytes: % d", stride, labels[:32])
	ids, _ := c.field("image_id", m)
	testenv.Equal(t, view[int64](ids)[4], 4, "image_id")
	expect[endMessage](c)
	c.send(releaseRequest{Slot: 0})

	changed := ask[changedReply](c, changeRequest{Transform: json.RawMessage(`[{"op":"CenterCrop","size":2}]`), BatchSize: 4})
	c.opened.Arrays = changed.Arrays
	m = c.begun(1)
	labels, stride = c.field("mask", m)
	testenv.Check(t, stride == 4 && bytes.Equal(labels[:4], []byte{19, 20, 27, 28}), "after a change masks of %d bytes, % d", stride, labels)
	changedBoxes := c.objectsOf(m)[3].Boxes[4:8]
	testenv.DeepEqual(t, changedBoxes, []float32{0.25, 0.5, 0.5, 1}, "after a change") // 1 to 4 of pixels 3 and 4
}

// TestTargetsOnThePage compares the pictures of the last batch with what the client was sent, drawn over its images: also where the boxes
// decide what is drawn.
func TestTargetsOnThePage(t *testing.T) {
	ts := startServer(t, trainSet(t, 16, 1, targetFields, targetsOf), nil)
	var drawn []string
	for _, form := range [][2]string{{"xyxy", "pixels"}, {"cxcywh", "fraction"}} {
		c := ts.dial().hello()
		c.open(openRequest{
			Transform: json.RawMessage(`[{"op":"RandomIoUCrop"},{"op":"SanitizeBoundingBoxes"},{"op":"RandomHorizontalFlip"},{"op":"Resize","size":[9,7]}]`),
			BatchSize: 8, Seed: of[int64](4), Fields: []string{"mask", "objects"}, Boxes: form[0], BoxesUnit: form[1], Slots: 1,
		})
		m := c.begun(0)
		shown, code := ts.batch(c.opened.Session)
		testenv.Require(t, code == 200 && len(shown.Samples) == 8, "%d: %s", code, fmt.Sprint(shown))
		objects := c.objectsOf(m)
		masks, _ := c.field("mask", m)
		for i, sample := range shown.Samples {
			drawn = append(drawn, sample.Original.Picture, sample.Views[0].Picture)
			if form[0] != "xyxy" {
				continue
			}
			want := bytes.Clone(c.array(ring.Images, m)[189*i:][:189])
			over := thumbnail.Overlay{Width: 7, Height: 9, Boxes: objects[i].Boxes, Labels: objects[i].Labels, Mask: masks[63*i:][:63]}
			over.Draw(want, 7, 9)
			got, _ := pixelsOf(t, sample.Views[0].Picture)
			testenv.DeepEqual(t, got, want, "sample %d on the page", i)
			original, _ := pixelsOf(t, sample.Original.Picture)
			corner := original[24:27] // of its first box
			testenv.Check(t, i%4 == 0 || bytes.Equal(corner, []byte{255, 0, 0}), "sample %d: no box on the original: %v", i, corner)
		}
	}
	half := len(drawn) / 2
	testenv.Check(t, slices.Equal(drawn[:half], drawn[half:]), "the format of boxes changes the pictures")
}

// TestTargetsWithFeeders compares sessions with feeders' pieces, blank and substitute samples with those without.
func TestTargetsWithFeeders(t *testing.T) {
	dir := trainSet(t, 150, 1, targetFields, targetsOf)
	damage(t, filepath.Join(dir, "train-shards"), 42)
	var sessions []openRequest
	for _, onError := range []string{onErrorBlank, onErrorSubstitute} {
		sessions = append(sessions, openRequest{
			Transform: json.RawMessage(`[{"op":"RandomZoomOut","p":0.5},{"op":"RandomIoUCrop"},{"op":"SanitizeBoundingBoxes"},{"op":"Resize","size":[9,7]},{"op":"RandomVerticalFlip"}]`),
			BatchSize: 16, Shuffle: true, Seed: of[int64](2), OnError: onError, Fields: []string{"objects", "mask", "image_id"}, Boxes: "xywh", Slots: 5,
		})
	}
	alone := startServer(t, dir, nil)
	address, _ := startFeeder(t, dir, nil)
	fed := startServer(t, dir, func(c *Config) { c.Feeders, c.Threads = []string{address}, loader.NoThreads })
	fed.awaitFeeders(true)
	for _, m := range sessions {
		want := alone.dial().hello().open(m).digest(3, nil)
		testenv.Check(t, fed.dial().hello().open(m).digest(3, nil) == want, "%s: other batches with a feeder", m.OnError)
	}
	work := fed.feeders.Status()
	testenv.Check(t, work.Late != 0 || work.Samples >= 200, "the feeder made %d samples", work.Samples)
}

// TestBlankTargets: an image that cannot be read has no objects and a mask that losses ignore, also in a slot that was used.
func TestBlankTargets(t *testing.T) {
	dir := trainSet(t, 4, 1, targetFields, targetsOf)
	damage(t, filepath.Join(dir, "train-shards"), 3)
	c := startServer(t, dir, nil).dial().hello()
	c.open(openRequest{BatchSize: 2, OnError: onErrorBlank, Fields: []string{"objects", "mask"}, Boxes: "xyxy", Slots: 1})
	c.begun(0)
	c.send(releaseRequest{Slot: 0})
	m := expect[batchMessage](c)
	part, stride := c.field("objects", m)
	if labels, _ := c.field("mask", m); binary.LittleEndian.Uint32(part) == 0 || binary.LittleEndian.Uint32(part[stride:]) != 0 || labels[0] == 255 || labels[1] != 255 {
		t.Errorf("objects % x, masks % d", part, labels)
	}
}

// forgeObjects writes a set with a mask and bytes, and has it say that these are objects, which no writer checks then.
func forgeObjects(t *testing.T, objects, masks func(int) []byte) (dir string) {
	t.Helper()
	dir = trainSet(t, 6, 1, shard.Fields{targetFields[1], {Name: "boxes__", Type: shard.Bytes}}, func(i int) []byte {
		return shard.AppendBytes(shard.AppendBytes(nil, masks(i)), objects(i))
	})
	var before, after uint32
	change(t, filepath.Join(dir, "train-shards/rank-0000/00000.imgshard"), func(data []byte) []byte {
		data = bytes.Replace(data, []byte(`"boxes__","type":"bytes"`), []byte(`"boxes","type":"objects"`), 1)
		end, footer := 16+binary.LittleEndian.Uint32(data[12:]), data[len(data)-96:]
		before = binary.LittleEndian.Uint32(footer[84:])
		for _, at := range [][]byte{data[end:], footer[52:]} {
			binary.LittleEndian.PutUint32(at, crc(data[:end]))
		}
		after = crc(footer[:84])
		binary.LittleEndian.PutUint32(footer[84:], after)
		return data
	})
	forge(t, dir, func(text []byte) []byte {
		text = regexp.MustCompile(`"boxes__",(\s+)"type": "bytes"`).ReplaceAll(text, []byte(`"boxes",$1"type": "objects"`))
		return bytes.Replace(text, fmt.Appendf(nil, "%08x", before), fmt.Appendf(nil, "%08x", after), 1)
	})
	return dir
}

// TestCorruptTargets: values that no writer makes are damage of their record, and nothing else.
func TestCorruptTargets(t *testing.T) {
	right := mask.Append(nil, 8, 6, make([]byte, 48))
	two := func() []byte {
		return (&shard.ObjectValue{Boxes: make([]float32, 8), Labels: []int64{1, 2}}).Append(nil)
	}
	set := func(at int, to byte) []byte { v := two(); v[at] = to; return v }
	for name, c := range map[string]struct {
		objects, mask []byte
		words         string
	}{
		"count":       {set(3, 0x80), right, "48 bytes for 2147483650 objects"},
		"one more":    {set(0, 3), right, "48 bytes for 3 objects"},
		"length":      {two()[:51], right, `field "boxes"`},
		"short":       {two()[:3], right, "objects of 3 bytes"},
		"label":       {set(4+32+7, 0x80), right, "object 0 has label -"},
		"mask's size": {two(), mask.Append(nil, 6, 8, make([]byte, 48)), "a mask of 6×8 pixels for an image of 8×6"},
		"no frame":    {two(), append(right[:8:8], "no frame at all"...), `field "mask"`},
		"cut":         {two(), right[:len(right)-1], `field "mask"`},
		"larger":      {two(), append(right[:8:8], mask.Append(nil, 8, 7, make([]byte, 56))[8:]...), `field "mask"`},
	} {
		t.Run(name, func(t *testing.T) {
			of := func(bad, sound []byte) func(int) []byte {
				return func(i int) []byte {
					if i == 3 {
						return bad
					}
					return sound
				}
			}
			ts := startServer(t, forgeObjects(t, of(c.objects, two()), of(c.mask, right)), nil)
			request := openRequest{BatchSize: 2, Fields: []string{"boxes", "mask"}, Boxes: "xyxy", Transform: flippedHalf}
			client := ts.dial().hello().open(request)
			client.begun(0)
			client.refused(kindCorrupt, c.words, "record 3 (sample 3)")
			request.OnError = onErrorSubstitute
			client = ts.dial().hello().open(request)
			client.start(startRequest{})
			for batch := range 3 {
				m := expect[batchMessage](client)
				testenv.Check(t, len(m.Bad) == batch%2 && (len(m.Bad) != 1 || *m.Bad[0].By == 1 || *m.Bad[0].By == 5),
					"batch %d: bad %+v", batch, m.Bad)
			}
		})
	}
}

// TestStrangeBoxesAreMoved: numbers that a dataset may have, and no transform expects.
func TestStrangeBoxesAreMoved(t *testing.T) {
	strange := []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), -0, 3e38, -3e38, 1e-45, 5}
	dir := trainSet(t, 64, 1, targetFields, func(i int) []byte {
		o := shard.ObjectValue{Columns: make([][]byte, 2)}
		for k := range 32 {
			o.Boxes, o.Labels = append(o.Boxes, strange[i%8], strange[k%8], strange[k/8], strange[(i/8+k)%8]), append(o.Labels, 0)
		}
		o.Columns[0], o.Columns[1] = make([]byte, 4*32), make([]byte, 8*32)
		return targetValues(o.Append(nil), mask.Append(nil, 8, 6, make([]byte, 48)), i)
	})
	ts := startServer(t, dir, nil)
	for _, text := range []string{
		`[{"op":"RandomIoUCrop"},{"op":"RandomAffine","degrees":30},{"op":"ClampBoundingBoxes"},{"op":"Resize","size":[8,8]}]`,
		`[{"op":"RandomZoomOut"},{"op":"Resize","size":[8,8]},{"op":"ConvertBoundingBoxFormat","format":"cxcywh"},{"op":"RandomVerticalFlip"},{"op":"SanitizeBoundingBoxes"}]`,
	} {
		c := ts.dial().hello().open(openRequest{Transform: json.RawMessage(text), BatchSize: 64, Fields: []string{"objects", "mask"}, Boxes: "cxcywh", Slots: 1})
		for _, o := range c.objectsOf(c.begun(0)) {
			testenv.Check(t, len(o.Boxes) == 4*len(o.Labels) && len(o.Labels) <= 32, "%d numbers of %d objects", len(o.Boxes), len(o.Labels))
		}
		c.close()
	}
}

// TestTargetsRefused: what cannot be delivered is refused with the remedy, and the connection goes on.
func TestTargetsRefused(t *testing.T) {
	dir := trainSet(t, 4, 1, targetFields, targetsOf)
	writeFieldSet(t, filepath.Join(dir, "val-shards"), "val", 4, 1, shard.Fields{targetFields[1], {Name: "second", Type: shard.Mask}}, func(i int) []byte {
		values := testenv.Must(targetFields.Split(targetsOf(i), nil))(t)
		return shard.AppendBytes(shard.AppendBytes(nil, values[1]), values[1])
	})
	c := startServer(t, dir, nil).dial().hello()
	both := []string{"objects", "mask"}
	for _, refused := range []struct {
		m     openRequest
		words string
	}{
		{openRequest{Fields: both}, `field "objects" holds boxes, which follow the image: ask for their format (boxes="xyxy"`},
		{openRequest{Boxes: "xyxy", Fields: []string{"mask"}}, "boxes are asked for, and the set has none"},
		{openRequest{Boxes: "yxyx", Fields: both}, `boxes is "yxyx", want one of xyxy, xywh, cxcywh`},
		{openRequest{Boxes: "xyxy", BoxesUnit: "percent", Fields: both}, `boxes_unit is "percent", want one of pixels, fraction`},
		{openRequest{Split: "val", Fields: []string{"mask", "second"}}, `fields "mask" and "second": at most one of the type mask can follow the image`},
		{openRequest{Boxes: "xyxy", Fields: both, Buckets: [][2]int{{64, 64}, {64, 128}}, Transform: json.RawMessage(`[{"op":"RandomResizedCrop","size":9}]`)}, "leave buckets out"},
		{openRequest{Boxes: "xyxy", Fields: both, Transform: json.RawMessage(`{"views":[[{"op":"CenterCrop","size":5}],[{"op":"CenterCrop","size":5}]]}`)}, "follow one view of an image, and the transform makes 2"},
		{openRequest{Boxes: "xyxy", Fields: both, Transform: json.RawMessage(`[{"op":"CenterCrop","size":5},{"op":"AugMix"}]`)}, "AugMix"},
		{openRequest{Fields: []string{"mask"}, Transform: json.RawMessage(`[{"op":"RandomIoUCrop"},{"op":"Resize","size":[5,5]}]`)}, "RandomIoUCrop"},
	} {
		t.Run(refused.words, func(t *testing.T) {
			c.t = t
			if refused.m.Split == "" {
				refused.m.Split = "train"
			}
			if refused.m.Transform == nil {
				refused.m.Transform = onePixel
			}
			refused.m.BatchSize = 2
			c.refuses(refused.m, kindBadRequest, refused.words)
		})
	}
}

// TestJoinedTargets: two sets of the same fields are one, and sets of other classes of objects are not joined.
func TestJoinedTargets(t *testing.T) {
	var sets []string
	for _, fields := range []shard.Fields{targetFields, targetFields, {{Name: "objects", Type: shard.Objects, Classes: []string{"bus", "car", "van"}, Columns: targetFields[0].Columns}, targetFields[1], targetFields[2]}} {
		sets = append(sets, filepath.Join(trainSet(t, 4, 1, fields, targetsOf), "train-shards"))
	}
	open := func(paths ...string) (*shard.Set, error) {
		var parts []*shard.Set
		for _, path := range paths {
			s := testenv.Must(shard.OpenSet(path))(t)
			parts = append(parts, s)
		}
		return shard.Join(parts, false)
	}
	testenv.Fails(open(sets[0], sets[2]))(t, nil, "sets whose objects have other classes are joined")
	joined, err := open(sets[0], sets[1])
	testenv.Require(t, err == nil && joined.Len() == 8 && joined.Manifest().Fields.Equal(targetFields), "%v", err)
	joined.Close()
}

// TestTargetsAllocateNothing serves objects and masks and counts allocations.
func TestTargetsAllocateNothing(t *testing.T) {
	allocateNothing(t, targetFields, targetsOf, "cxcywh", "objects", "mask", "image_id")
}

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

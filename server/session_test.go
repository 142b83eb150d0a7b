package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/image/bmp"

	"github.com/imgfeed/imgfeed/internal/imagefile"
	"github.com/imgfeed/imgfeed/internal/jpeg"
	"github.com/imgfeed/imgfeed/internal/ring"
	"github.com/imgfeed/imgfeed/internal/wire"
	"github.com/imgfeed/imgfeed/loader"
	"github.com/imgfeed/imgfeed/loader/plan"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/transform"
)

func of[T any](v T) *T { return &v }

// oneSet writes a set of one split and returns the folder above it.
func oneSet(t testing.TB, samples, world int) string {
	t.Helper()
	dir := t.TempDir()
	writeSet(t, filepath.Join(dir, "train-shards"), "train", samples, world)
	return dir
}

func TestRanksAreDisjointCompleteAndRepeatable(t *testing.T) {
	const samples, world, batch = 101, 3, 8
	ts := startServer(t, oneSet(t, samples, 3), nil)
	run := func(rank int, seed, epoch int64) [][]int64 {
		c := ts.dial().hello().open(wire.OpenRequest{
			BatchSize: batch, Shuffle: true, Seed: &seed, Policy: plan.Uneven.String(), Rank: &rank, World: of(world), Slots: 3,
		})
		defer c.close()
		return c.epoch(epoch, 0)
	}
	var all []int64
	for rank := range world {
		batches := run(rank, 5, 2)
		if again := run(rank, 5, 2); !reflect.DeepEqual(again, batches) {
			t.Errorf("rank %d: another session of the same plan got other batches", rank)
		}
		if other := run(rank, 5, 3); reflect.DeepEqual(other, batches) {
			t.Errorf("rank %d: two epochs have the same order", rank)
		}
		all = append(all, slices.Concat(batches...)...)
	}
	slices.Sort(all)
	for i, index := range all {
		if len(all) != samples || index != int64(i) {
			t.Fatalf("the ranks' samples together: %v", all)
		}
	}
}

func TestResumeAtEveryBatch(t *testing.T) {
	ts := startServer(t, oneSet(t, 23, 1), nil)
	c := ts.dial().hello().open(wire.OpenRequest{BatchSize: 4, Shuffle: true, Seed: of[int64](1), Slots: 2})
	whole := c.epoch(7, 0)
	for b := range whole {
		if rest := c.epoch(7, int64(4*b)); !reflect.DeepEqual(rest, whole[b:]) {
			t.Errorf("resumed at batch %d: %v, want %v", b, rest, whole[b:])
		}
	}
	if rest := c.epoch(7, 23); len(rest) != 0 {
		t.Errorf("resumed at the end: %v", rest)
	}
}

// TestTransportsAgree compares every array of the two transports, in both layouts.
func TestTransportsAgree(t *testing.T) {
	ts := startServer(t, oneSet(t, 11, 1), nil)
	for _, layout := range []string{wire.LayoutNHWC, wire.LayoutNCHW} {
		req := wire.OpenRequest{
			Transform: json.RawMessage(`"cifar"`), BatchSize: 4, Shuffle: true, Seed: of[int64](9), WithParams: true, Layout: layout,
		}
		req.Transform = json.RawMessage(`[{"op":"Resize","size":[9,7]},{"op":"RandomCrop","size":5,"padding":2},{"op":"RandomHorizontalFlip"}]`)
		shm := ts.dial().hello().open(req)
		req.Transport = wire.TransportSocket
		socket := ts.dial().hello().open(req)
		for _, c := range []*client{shm, socket} {
			c.send(wire.StartRequest{Epoch: 3})
			expect[wire.Started](c)
		}
		for range 3 {
			a, b := expect[wire.Batch](shm), expect[wire.Batch](socket)
			raw := socket.raw(b.Bytes)
			slot := shm.ring[int64(*a.Slot)*shm.opened.SlotBytes:][:shm.opened.SlotBytes]
			n, o := int64(a.Count), shm.opened.Offsets
			joined := slices.Concat(slot[o.Images:o.Images+n*75], slot[o.Labels:o.Labels+n*8], slot[o.Indices:o.Indices+n*8], slot[o.Params:o.Params+n*20])
			if a.Count != b.Count || a.Consumed != b.Consumed || !bytes.Equal(joined, raw) {
				t.Errorf("%s: batch %d differs between the transports", layout, a.Batch)
			}
		}
		expect[wire.End](shm)
		expect[wire.End](socket)
		shm.close()
		socket.close()
	}
	ts.checkIdle()
}

// TestLentSlotsStayAsTheyAre holds a slot over the end of its epoch and two others.
func TestLentSlotsStayAsTheyAre(t *testing.T) {
	ts := startServer(t, oneSet(t, 40, 1), nil)
	c := ts.dial().hello().open(wire.OpenRequest{BatchSize: 2, Slots: 3})
	c.send(wire.StartRequest{Epoch: 0})
	expect[wire.Started](c)
	held := expect[wire.Batch](c)
	want := bytes.Clone(c.ring[int64(*held.Slot)*c.opened.SlotBytes:][:c.opened.SlotBytes])
	c.send(wire.Stop{})
	// Batches that were on their way are released; stats is the request whose reply tells that no more will come.
	c.send(wire.StatsRequest{})
	for done := false; !done; {
		switch m := c.receive().(type) {
		case wire.Batch:
			c.send(wire.Release{Slot: *m.Slot})
		case wire.Stats:
			done = true
		}
	}
	for epoch := int64(1); epoch < 3; epoch++ {
		if n := len(c.epoch(epoch, 0)); n != 20 {
			t.Errorf("epoch %d: %d batches with a slot held, want 20", epoch, n)
		}
		if !bytes.Equal(want, c.ring[int64(*held.Slot)*c.opened.SlotBytes:][:c.opened.SlotBytes]) {
			t.Fatalf("epoch %d wrote to a slot that the client holds", epoch)
		}
	}
	c.send(wire.Release{Slot: *held.Slot})
	c.send(wire.StatsRequest{})
	if s := expect[wire.Stats](c); s.SlotsFree != 3 || s.SlotsLent != 0 || s.WaitingFor != wire.WaitingIdle {
		t.Errorf("at the end: %+v", s)
	}
}

func TestBadStartLeavesTheEpochAlone(t *testing.T) {
	ts := startServer(t, oneSet(t, 6, 1), nil)
	c := ts.dial().hello().open(wire.OpenRequest{BatchSize: 2, Slots: 1})
	c.send(wire.StartRequest{Epoch: 0})
	expect[wire.Started](c)
	first := expect[wire.Batch](c)
	for _, bad := range []wire.StartRequest{{Epoch: -1}, {Epoch: 0, Consumed: 7}, {Epoch: 0, Consumed: -1}} {
		c.send(bad)
		if e := expect[wire.Error](c); e.Fatal || e.ErrKind != wire.KindBadRequest || e.Request != "start" {
			t.Errorf("%+v: %+v", bad, e)
		}
	}
	c.send(wire.Release{Slot: *first.Slot})
	if b := expect[wire.Batch](c); b.Batch != 1 || b.Generation != first.Generation {
		t.Errorf("the epoch goes on with %+v", b)
	}
}

func TestOpenRefusals(t *testing.T) {
	ts := startServer(t, oneSet(t, 8, 4), func(c *Config) { c.MemoryBytes = 1 << 20 })
	for _, tt := range []struct {
		change func(*wire.OpenRequest)
		kind   string
		want   string
	}{
		{func(m *wire.OpenRequest) { m.Split = "val" }, wire.KindMissing, "train"},
		{func(m *wire.OpenRequest) { m.Transform = nil }, wire.KindBadRequest, "transform is missing"},
		{func(m *wire.OpenRequest) { m.Transform = json.RawMessage(`"evil"`) }, wire.KindBadRequest, "evil"},
		{func(m *wire.OpenRequest) { m.Transform = json.RawMessage(`7`) }, wire.KindBadRequest, "transform"},
		{func(m *wire.OpenRequest) { m.Transform = json.RawMessage(`[{"op":"Resize","size":-1}]`) }, wire.KindBadRequest, "size"},
		{func(m *wire.OpenRequest) { m.BatchSize = 0 }, wire.KindBadRequest, "batch_size"},
		{func(m *wire.OpenRequest) { m.BatchSize = -5 }, wire.KindBadRequest, "batch_size"},
		{func(m *wire.OpenRequest) { m.Policy = "some" }, wire.KindBadRequest, "drop_last"},
		{func(m *wire.OpenRequest) { m.Layout = "CHWN" }, wire.KindBadRequest, "NCHW"},
		{func(m *wire.OpenRequest) { m.Transport = "tcp" }, wire.KindBadRequest, "socket"},
		{func(m *wire.OpenRequest) { m.OnError = "skip" }, wire.KindBadRequest, "blank"},
		{func(m *wire.OpenRequest) { m.Shuffle = true }, wire.KindBadRequest, "seed"},
		{func(m *wire.OpenRequest) { m.Rank = of(0) }, wire.KindBadRequest, "together"},
		{func(m *wire.OpenRequest) { m.Rank, m.World = of(2), of(2) }, wire.KindBadRequest, "rank"},
		{func(m *wire.OpenRequest) { m.Rank, m.World = of(0), of(0) }, wire.KindBadRequest, "world"},
		{func(m *wire.OpenRequest) { m.Slots = -1 }, wire.KindBadRequest, "slots"},
		{func(m *wire.OpenRequest) { m.Slots = 1 << 40 }, wire.KindBadRequest, "slots"},
		{func(m *wire.OpenRequest) { m.Slots = 1000 }, wire.KindBadRequest, "1.0 MiB"},
		{func(m *wire.OpenRequest) { m.BatchSize = 1 << 20 }, wire.KindBadRequest, "--memory"},
		{func(m *wire.OpenRequest) { m.BatchSize = 1 << 60 }, wire.KindBadRequest, "batch"},
	} {
		m := wire.OpenRequest{Split: "train", Transform: onePixel, BatchSize: 2}
		tt.change(&m)
		c := ts.dial().hello()
		c.send(m)
		e, ok := c.receive().(wire.Error)
		if !ok || e.Fatal || e.ErrKind != tt.kind || e.Request != "open" || !strings.Contains(e.Message, tt.want) || strings.Contains(e.Message, "sample") {
			t.Errorf("%+v: got %+v, want kind %s and %q", m, e, tt.kind, tt.want)
			continue
		}
		c.open(wire.OpenRequest{BatchSize: 2}) // and the connection is as good as before
		c.close()
	}
	ts.checkIdle()
}

func TestPartitionsInReach(t *testing.T) {
	dir := oneSet(t, 8, 4)
	for _, r := range []int{1, 3} {
		if err := os.RemoveAll(filepath.Join(dir, "train-shards", fmt.Sprintf("rank-%04d", r))); err != nil {
			t.Fatal(err)
		}
	}
	var reach *ReachError
	sets := map[string]string{"train": filepath.Join(dir, "train-shards")}
	if _, err := New(Config{Sets: sets, Rank: 1, World: 4}); !errors.As(err, &reach) || !strings.Contains(err.Error(), "rank-0001") || !strings.Contains(err.Error(), "copy") {
		t.Errorf("a server for a rank that is not here: %v", err)
	}
	if _, err := New(Config{Sets: sets, Rank: 0, World: 3}); !errors.As(err, &reach) || !strings.Contains(err.Error(), "world of 4") {
		t.Errorf("a server for another world with partitions missing: %v", err)
	}
	if _, err := New(Config{Sets: sets, Rank: 4, World: 4}); err == nil {
		t.Error("rank 4 of 4 was accepted")
	}
	ts := startServer(t, dir, func(c *Config) { c.Rank, c.World = 2, 4 })
	c := ts.dial()
	c.send(wire.HelloRequest{Version: 1})
	if h := expect[wire.Hello](c); *h.Rank != 2 || *h.World != 4 || !reflect.DeepEqual(h.Sets[0].Partitions, []int{0, 2}) {
		t.Errorf("hello says %+v", h)
	}
	c.open(wire.OpenRequest{BatchSize: 2}) // the server's own rank
	if got := c.epoch(0, 0); !reflect.DeepEqual(got, [][]int64{{2, 6}}) {
		t.Errorf("rank 2 of 4 gets %v", got)
	}
	c.send(wire.LabelsRequest{})
	expect[wire.Labels](c)
	if got := view[int32](c.raw(32)); !reflect.DeepEqual(got, []int32{0, -1, 0, -1, 0, -1, 0, -1}) {
		t.Errorf("labels %v", got)
	}
	c.send(wire.KeyRequest{Index: 1})
	if e := expect[wire.Error](c); e.ErrKind != wire.KindMissing {
		t.Errorf("the key of a sample that is not here: %+v", e)
	}
	// A world of 2 needs partitions 0 and 2, or 1 and 3.
	for rank, ok := range []bool{true, false} {
		c := ts.dial().hello()
		c.send(wire.OpenRequest{Transform: onePixel, BatchSize: 2, Rank: &rank, World: of(2)})
		m := c.receive()
		if e, failed := m.(wire.Error); failed == ok || failed && (e.ErrKind != wire.KindMissing || !strings.Contains(e.Message, "rank-0001, rank-0003")) {
			t.Errorf("rank %d of 2: %+v", rank, m)
		}
	}
}

func TestMetricsHealthAndStatus(t *testing.T) {
	ts := startServer(t, oneSet(t, 10, 1), nil)
	c := ts.dial().hello().open(wire.OpenRequest{BatchSize: 2, Slots: 2})
	c.epoch(0, 0)
	c.send(wire.StartRequest{Epoch: 1})
	expect[wire.Started](c)
	expect[wire.Batch](c)
	expect[wire.Batch](c)
	c.send(wire.Release{Slot: 9})
	expect[wire.Error](c)
	get := func(path string) (int, string) {
		w := httptest.NewRecorder()
		ts.Handler().ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		return w.Code, w.Body.String()
	}
	_, metrics := get("/metrics")
	for _, want := range []string{
		`imgfeed_images_total{split="train"} 14`, `imgfeed_batches_total{split="train"} 7`, `imgfeed_bytes_total{split="train"} 266`,
		`imgfeed_errors_total{kind="bad_request"} 1`, `imgfeed_errors_total{kind="corrupt"} 0`, `imgfeed_stage_seconds_total{stage="decode"}`,
		`imgfeed_queue_depth{split="train"} 0`, `imgfeed_slots{state="lent"} 2`, `imgfeed_sessions 1`, `imgfeed_sessions_waiting{for="client"} 1`, `imgfeed_ring_bytes 8192`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no %s in\n%s", want, metrics)
		}
	}
	if code, body := get("/healthz"); code != 200 || body != "ok\n" {
		t.Errorf("/healthz: %d %q", code, body)
	}
	if _, status := get("/"); !strings.Contains(status, "session 1: train, rank 0 of 1, 14 images") || !strings.Contains(status, "waiting for the client") {
		t.Errorf("the status says\n%s", status)
	}
	c.send(wire.StatsRequest{})
	if s := expect[wire.Stats](c); s.WaitingFor != wire.WaitingClient || s.SlotsLent != 2 || s.Images != 14 {
		t.Errorf("stats %+v", s)
	}
	ts.stop()
	if code, _ := get("/healthz"); code != 503 {
		t.Errorf("/healthz of a server that stops: %d", code)
	}
}

// TestStatsHoldWhatTheClientHas asks for the numbers as soon as a batch is there.
func TestStatsHoldWhatTheClientHas(t *testing.T) {
	const samples = 4000
	ts := startServer(t, oneSet(t, samples, 1), nil)
	c := ts.dial().hello().open(wire.OpenRequest{BatchSize: 1, Slots: 1})
	c.send(wire.StartRequest{})
	expect[wire.Started](c)
	for i := range int64(samples - 1) { // behind the last batch comes the end, before or behind the numbers
		batch := expect[wire.Batch](c)
		c.send(wire.StatsRequest{})
		if s := expect[wire.Stats](c); s.Images != i+1 || s.Batches != i+1 {
			t.Fatalf("%d images in %d batches behind batch %d", s.Images, s.Batches, i)
		}
		c.send(wire.Release{Slot: *batch.Slot})
	}
}

// TestStopTellsTheClients ends a server under sessions of every kind.
func TestStopTellsTheClients(t *testing.T) {
	ts := startServer(t, oneSet(t, 200, 1), nil)
	idle := ts.dial()
	busy := ts.dial().hello().open(wire.OpenRequest{BatchSize: 2, Slots: 2})
	busy.send(wire.StartRequest{})
	expect[wire.Started](busy)
	stuck := ts.dial().hello().open(wire.OpenRequest{BatchSize: 200, Transport: wire.TransportSocket, Transform: json.RawMessage(`[{"op":"Resize","size":[64,64]}]`)})
	stuck.send(wire.StartRequest{})
	time.Sleep(20 * time.Millisecond)
	started := time.Now()
	if err := ts.stop(); err != nil {
		t.Errorf("Serve: %v", err)
	}
	if took := time.Since(started); took > 5*time.Second {
		t.Errorf("stopping took %v", took)
	}
	if e := expect[wire.Error](idle); !e.Fatal || !strings.Contains(e.Message, "stopped") {
		t.Errorf("the idle client gets %+v", e)
	}
	for {
		if e, ok := busy.receive().(wire.Error); ok {
			if !e.Fatal {
				t.Errorf("the busy client gets %+v", e)
			}
			break
		}
	}
	if _, err := os.Lstat(ts.path); err == nil {
		t.Error("the socket remains")
	}
}

func TestKindOf(t *testing.T) {
	for _, tt := range []struct {
		err  error
		kind string
	}{
		{&shard.CorruptError{Path: "x"}, wire.KindCorrupt},
		{&transform.ImageError{Err: &jpeg.FormatError{}}, wire.KindCorrupt},
		{&transform.ImageError{Err: &jpeg.UnsupportedError{}}, wire.KindUnsupported},
		{&transform.ImageError{Err: &imagefile.UnsupportedError{}}, wire.KindUnsupported},
		{&transform.ImageError{Err: &imagefile.LimitError{}}, wire.KindUnsupported},
		{&transform.ImageError{Err: fmt.Errorf("bmp: %w", bmp.ErrUnsupported)}, wire.KindUnsupported},
		{&transform.SizeError{}, wire.KindBadRequest},
		{&shard.MissingPartitionError{}, wire.KindMissing},
		{&LimitError{}, wire.KindBadRequest},
		{&ring.UnavailableError{Err: os.ErrPermission}, wire.KindUnsupported},
		{os.ErrPermission, wire.KindInternal},
	} {
		wrapped := &loader.SampleError{Index: 3, Err: tt.err}
		if got := kindOf(wrapped); got != tt.kind {
			t.Errorf("%T is %s, want %s", tt.err, got, tt.kind)
		}
	}
}

package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/internal/image/jpeg"
	"github.com/imgfeed/imgfeed/internal/image/pixelcodec"
	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/loader"
	"github.com/imgfeed/imgfeed/server/internal/ring"
	"github.com/imgfeed/imgfeed/server/internal/wire"
	"github.com/imgfeed/imgfeed/server/status"
	"github.com/imgfeed/imgfeed/shard"
	pixelsencoding "github.com/imgfeed/imgfeed/shard/encoding/pixels"
	"github.com/imgfeed/imgfeed/shard/pack"
	"github.com/imgfeed/imgfeed/transform"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
)

func of[T any](v T) *T { return &v }

// TestTransportsAgree compares every array of the two transports, in both layouts.
func TestTransportsAgree(t *testing.T) {
	ts := startServer(t, oneSet(t, 11, 1), nil)
	for _, layout := range []string{layoutNHWC, layoutNCHW} {
		req := openRequest{BatchSize: 4, Shuffle: true, Seed: of[int64](9), WithParams: true, Layout: layout}
		req.Transform = json.RawMessage(`[{"op":"Resize","size":[9,7]},{"op":"RandomCrop","size":5,"padding":2},{"op":"RandomHorizontalFlip"}]`)
		shm := ts.dial().hello().open(req)
		req.Transport = transportSocket
		socket := ts.dial().hello().open(req)
		for _, c := range []*client{shm, socket} {
			c.start(startRequest{Epoch: 3})
		}
		for range 3 {
			a, b := expect[batchMessage](shm), expect[batchMessage](socket)
			raw := socket.raw(b.Bytes)
			joined := slices.Concat(shm.array(ring.Images, a), shm.array(ring.Labels, a), shm.array(ring.Indices, a), shm.array(ring.Params, a))
			testenv.Check(t, a.Count == b.Count && a.Consumed == b.Consumed && bytes.Equal(joined, raw),
				"%s: batch %d differs between the transports", layout, a.Batch)
		}
		expect[endMessage](shm)
		expect[endMessage](socket)
		shm.close()
		socket.close()
	}
	ts.checkIdle()
}

// TestLentSlotsStayAsTheyAre holds a slot over the end of its epoch and two others.
func TestLentSlotsStayAsTheyAre(t *testing.T) {
	ts := startServer(t, oneSet(t, 40, 1), nil)
	c := ts.dial().hello().open(openRequest{BatchSize: 2, Slots: 3})
	held := c.begun(0)
	want := bytes.Clone(c.ring[int64(*held.Slot)*c.opened.SlotBytes:][:c.opened.SlotBytes])
	c.send(stopRequest{})
	// Batches that were on their way are released; stats is the request whose reply tells that no more will come.
	c.send(statsRequest{})
	for done := false; !done; {
		switch m := c.receive().(type) {
		case batchMessage:
			c.send(releaseRequest{Slot: *m.Slot})
		case statsReply:
			done = true
		}
	}
	for epoch := int64(1); epoch < 3; epoch++ {
		testenv.Equal(t, len(c.epoch(epoch, 0)), 20, "batches of epoch %d with a slot held", epoch)
		testenv.Same(t, c.ring[int64(*held.Slot)*c.opened.SlotBytes:][:c.opened.SlotBytes], want,
			"the slot that the client holds in epoch %d", epoch)
	}
	c.send(releaseRequest{Slot: *held.Slot})
	s := ask[statsReply](c, statsRequest{})
	testenv.Check(t, s.SlotsFree == 3 && s.SlotsLent == 0 && s.WaitingFor == status.Idle, "at the end: %+v", s)
}

func TestBadStartLeavesTheEpochAlone(t *testing.T) {
	ts := startServer(t, oneSet(t, 6, 1), nil)
	c := ts.dial().hello().open(openRequest{BatchSize: 2, Slots: 1})
	first := c.begun(0)
	for _, bad := range []startRequest{{Epoch: -1}, {Epoch: 0, Consumed: 7}, {Epoch: 0, Consumed: -1}} {
		testenv.Equal(t, c.refuses(bad, kindBadRequest).Request, "start", "the request that %+v is", bad)
	}
	c.send(releaseRequest{Slot: *first.Slot})
	b := expect[batchMessage](c)
	testenv.Check(t, b.Batch == 1 && b.Generation == first.Generation, "the epoch goes on with %+v", b)
}

func TestOpenRefusals(t *testing.T) {
	ts := startServer(t, oneSet(t, 8, 4), func(c *Config) { c.MemoryBytes = 1 << 20 })
	for _, tt := range []struct {
		change func(*openRequest)
		kind   string
		want   string
	}{
		{func(m *openRequest) { m.Split = "val" }, kindMissing, "train"},
		{func(m *openRequest) { m.Transform = nil }, kindBadRequest, "transform is missing"},
		{func(m *openRequest) { m.Transform = json.RawMessage(`"evil"`) }, kindBadRequest, "evil"},
		{func(m *openRequest) { m.Transform = json.RawMessage(`7`) }, kindBadRequest, "transform"},
		{func(m *openRequest) { m.Transform = json.RawMessage(`[{"op":"Resize","size":-1}]`) }, kindBadRequest, "size"},
		{func(m *openRequest) { m.BatchSize = 0 }, kindBadRequest, "batch_size"},
		{func(m *openRequest) { m.BatchSize = -5 }, kindBadRequest, "batch_size"},
		{func(m *openRequest) { m.Policy = "some" }, kindBadRequest, "drop_last"},
		{func(m *openRequest) { m.Layout = "CHWN" }, kindBadRequest, "NCHW"},
		{func(m *openRequest) { m.Transport = "tcp" }, kindBadRequest, "socket"},
		{func(m *openRequest) { m.OnError = "skip" }, kindBadRequest, "blank"},
		{func(m *openRequest) { m.Shuffle = true }, kindBadRequest, "seed"},
		{func(m *openRequest) { m.Rank = of(0) }, kindBadRequest, "together"},
		{func(m *openRequest) { m.Rank, m.World = of(2), of(2) }, kindBadRequest, "rank"},
		{func(m *openRequest) { m.Rank, m.World = of(0), of(0) }, kindBadRequest, "world"},
		{func(m *openRequest) { m.Slots = -1 }, kindBadRequest, "slots"},
		{func(m *openRequest) { m.Slots = 1 << 40 }, kindBadRequest, "slots"},
		{func(m *openRequest) { m.Slots = 1000 }, kindBadRequest, "1.0 MiB"},
		{func(m *openRequest) { m.BatchSize = 1 << 20 }, kindBadRequest, "--memory"},
		{func(m *openRequest) { m.BatchSize = 1 << 60 }, kindBadRequest, "batch"},
	} {
		m := openRequest{Split: "train", Transform: onePixel, BatchSize: 2}
		tt.change(&m)
		c := ts.dial().hello()
		c.send(m)
		e, ok := c.receive().(errorMessage)
		if !ok || e.Fatal || e.ErrKind != tt.kind || e.Request != "open" || !strings.Contains(e.Message, tt.want) || strings.Contains(e.Message, "sample") {
			t.Errorf("%+v: got %+v, want kind %s and %q", m, e, tt.kind, tt.want)
			continue
		}
		c.open(openRequest{BatchSize: 2}) // and the connection is as good as before
		c.close()
	}
	ts.checkIdle()
}

func TestPartitionsInReach(t *testing.T) {
	dir := oneSet(t, 8, 4)
	for _, r := range []int{1, 3} {
		testenv.OK(t, os.RemoveAll(filepath.Join(dir, "train-shards", fmt.Sprintf("rank-%04d", r))))
	}
	sets := map[string]string{"train": filepath.Join(dir, "train-shards")}
	for _, tt := range []struct {
		rank, world int
		wants       []string
	}{{1, 4, []string{"split train: rank 1 of world 4 needs", "rank-0001", "copy"}}, {0, 3, []string{"world of 4"}}, {4, 4, []string{"0 to world-1"}}, {1, 0, []string{"0 to world-1"}}} {
		_, err := New(Config{Found: shard.Found{Sets: sets}, Rank: tt.rank, World: tt.world})
		testenv.Contains(t, fmt.Sprintf("a server for rank %d of %d: %v", tt.rank, tt.world, err), tt.wants...)
	}
	ts := startServer(t, dir, func(c *Config) { c.Rank, c.World = 2, 4 })
	c := ts.dial()
	testenv.DeepEqual(t, ask[helloReply](c, wire.Hello{Version: 1}).Sets[0].Here, []int{0, 2}, "partitions that hello names")
	c.refuses(openRequest{Transform: onePixel, BatchSize: 2, Rank: of(1), World: of(4)}, kindMissing, "rank-0001", "copy")
	c.refuses(openRequest{Transform: onePixel, BatchSize: 2, Rank: of(0), World: of(3)}, kindMissing, "world of 4")
	c.open(openRequest{BatchSize: 2}) // of the server's rank
	testenv.DeepEqual(t, c.epoch(0, 0), [][]int64{{2, 6}}, "rank 2 of 4 gets")
	ask[labelsReply](c, labelsRequest{})
	testenv.DeepEqual(t, view[int32](c.raw(32)), []int32{0, -1, 0, -1, 0, -1, 0, -1}, "labels")
	c.refuses(keyRequest{Index: 1}, kindMissing)
	// A world of 2 needs partitions 0 and 2, or 1 and 3.
	for rank, ok := range []bool{true, false} {
		c := ts.dial().hello()
		c.send(openRequest{Transform: onePixel, BatchSize: 2, Rank: &rank, World: of(2)})
		m := c.receive()
		e, failed := m.(errorMessage)
		testenv.Check(t, failed != ok && (!failed || e.ErrKind == kindMissing && strings.Contains(e.Message, "rank-0001, rank-0003")),
			"rank %d of 2: %+v", rank, m)
	}
}

func TestMetricsHealthAndStatus(t *testing.T) {
	ts := startServer(t, oneSet(t, 10, 1), nil)
	c := ts.dial().hello().open(openRequest{BatchSize: 2, Slots: 2})
	c.epoch(0, 0)
	c.begun(1)
	expect[batchMessage](c)
	ask[errorMessage](c, releaseRequest{Slot: 9})
	metrics := ts.get("/metrics").Body.String()
	testenv.Contains(t, metrics,
		`imgfeed_delivered_images_total{split="train"} 14`, `imgfeed_delivered_batches_total{split="train"} 7`,
		`imgfeed_delivered_bytes_total{split="train"} 266`, `imgfeed_errors_total{kind="bad_request"} 1`,
		`imgfeed_errors_total{kind="corrupt"} 0`, `imgfeed_thread_seconds_total{stage="decode"}`,
		`imgfeed_batch_wait_seconds_count{split="train"} 7`, `imgfeed_slot_held_seconds_count{split="train"} 5`,
		`imgfeed_slots{state="lent"} 2`, `imgfeed_connections 1`, `imgfeed_sessions{waiting_for="client"} 1`, `imgfeed_ring_bytes 8192`,
		`imgfeed_build_info{version="`)
	problems := testenv.Must(promlint.New(strings.NewReader(metrics)).Lint())(t)
	for _, problem := range problems {
		testenv.Check(t, !strings.HasPrefix(problem.Metric, "imgfeed_"), "against Prometheus' conventions: %s: %s", problem.Metric, problem.Text)
	}
	w := ts.get("/healthz")
	testenv.Check(t, w.Code == 200 && w.Body.String() == "ok\n", "/healthz: %d %q", w.Code, w.Body)
	testenv.Contains(t, ts.get("/").Body.String(), ", 14 delivered, ", "training is the limit")
	s := ask[statsReply](c, statsRequest{})
	testenv.Check(t, s.WaitingFor == status.Client && s.SlotsLent == 2 && s.Images == 14, "stats %+v", s)
	ts.stop()
	testenv.Equal(t, ts.get("/healthz").Code, 503, "/healthz of a server that stops")
}

// TestStatsHoldWhatTheClientHas asks for the numbers as soon as a batch is there.
func TestStatsHoldWhatTheClientHas(t *testing.T) {
	t.Parallel()
	const samples = 1000
	ts := startServer(t, oneSet(t, samples, 1), nil)
	c := ts.dial().hello().open(openRequest{BatchSize: 1, Slots: 1})
	c.start(startRequest{})
	for i := range int64(samples - 1) { // after the last batch comes the end, before or after the numbers
		batch := expect[batchMessage](c)
		s := ask[statsReply](c, statsRequest{})
		testenv.Require(t, s.Images == i+1 && s.Batches == i+1, "%d images in %d batches after batch %d", s.Images, s.Batches, i)
		c.send(releaseRequest{Slot: *batch.Slot})
	}
}

// TestStopTellsTheClients ends a server under sessions of every kind.
func TestStopTellsTheClients(t *testing.T) {
	t.Parallel()
	ts := startServer(t, oneSet(t, 200, 1), nil)
	idle := ts.dial()
	busy := ts.dial().hello().open(openRequest{BatchSize: 2, Slots: 2})
	busy.start(startRequest{})
	stuck := ts.dial().hello().open(openRequest{BatchSize: 200, Transport: transportSocket, Transform: json.RawMessage(`[{"op":"Resize","size":[64,64]}]`)})
	stuck.send(startRequest{})
	testenv.Until(t, func() bool {
		return !slices.ContainsFunc(ts.openSessions(), func(s *session) bool { return !s.snapshot.Load().sends })
	})
	testenv.OK(t, ts.stop(), "Serve")
	told := expect[errorMessage](idle)
	testenv.Check(t, told.Fatal && strings.Contains(told.Message, "stopped"), "the idle client gets %+v", told)
	for {
		if e, ok := busy.receive().(errorMessage); ok {
			testenv.Check(t, e.Fatal, "the busy client gets %+v", e)
			break
		}
	}
	testenv.Fails(os.Lstat(ts.path))(t, nil, "the socket remains")
}

// TestAnOrdinaryCloseIsNoLoss ends connections in the middle of an epoch, with batches unread: the log tells those that stopped it first
// from those that were killed.
func TestAnOrdinaryCloseIsNoLoss(t *testing.T) {
	dir := oneSet(t, 200, 1)
	for _, stops := range []bool{true, false} {
		var log logText
		ts := startServer(t, dir, func(c *Config) { c.Log = log.logger() })
		for range 20 {
			c := ts.dial().hello().open(openRequest{BatchSize: 2, Slots: 8})
			started := c.start(startRequest{})
			testenv.Until(t, func() bool { // the client has not read all that it was sent
				return slices.ContainsFunc(ts.openSessions(), func(s *session) bool {
					return s.connection.id == c.opened.Session && s.ring.Lent() == 8
				})
			})
			if stops {
				c.send(stopRequest{Generation: started.Generation})
			}
			c.close()
		}
		ts.checkIdle()
		ts.stop()
		testenv.Equal(t, strings.Count(log.String(), "connection lost"), map[bool]int{false: 20}[stops],
			"stopped first %v: losses in the log", stops)
	}
}

func TestKindOf(t *testing.T) {
	for _, tt := range []struct {
		err  error
		kind string
	}{
		{&shard.CorruptError{Path: "x"}, kindCorrupt},
		{&transform.ImageError{Err: &jpeg.FormatError{}}, kindCorrupt},
		{&transform.ImageError{Err: &jpeg.UnsupportedError{}}, kindUnsupported},
		{&transform.ImageError{Err: &imagefile.UnsupportedError{}}, kindUnsupported},
		{&transform.ImageError{Err: &imagefile.LimitError{}}, kindUnsupported},
		{&transform.ImageError{Err: fmt.Errorf("png: %w", png.UnsupportedError("x"))}, kindUnsupported},
		{&transform.SizeError{}, kindBadRequest},
		{&shard.MissingPartitionError{}, kindMissing},
		{badRequest("x"), kindBadRequest},
		{&ring.UnavailableError{Err: os.ErrPermission}, kindUnsupported},
		{os.ErrPermission, kindInternal},
	} {
		testenv.Equal(t, kindOf(&loader.SampleError{Index: 3, Err: tt.err}), tt.kind, "the kind of %T", tt.err)
	}
}

// TestAllBatchesMade says that the client is the limit while it has batches of an epoch whose last was sent.
func TestAllBatchesMade(t *testing.T) {
	ts := startServer(t, oneSet(t, 4, 1), nil)
	c := ts.dial().hello().open(openRequest{BatchSize: 2, Slots: 4})
	c.start(startRequest{Epoch: 3})
	slots := []int{*expect[batchMessage](c).Slot, *expect[batchMessage](c).Slot}
	expect[endMessage](c)
	for i, want := range []string{"epoch 3: all batches are made, training is the limit", "epoch 3: all batches are made, training is the limit", "no epoch is running"} {
		s := ask[statsReply](c, statsRequest{})
		testenv.Check(t, s.Verdict == want && (s.WaitingFor == status.Client) == (i < 2),
			"with %d batches at the client: %+v, want %q", len(slots)-i, s, want)
		testenv.Equal(t, ts.Status(0).Verdict, want, "the server's verdict with %d batches at the client", len(slots)-i)
		if i < len(slots) {
			c.send(releaseRequest{Slot: slots[i]})
		}
	}
}

// pixelsSet repacks a set of writeSet as pixels whose shorter side is 5.
func pixelsSet(t *testing.T, samples int) string {
	t.Helper()
	original := filepath.Join(t.TempDir(), "set")
	writeSet(t, original, "train", samples, 2)
	set := testenv.Opened(shard.OpenSet(original))(t)
	encoder := testenv.Must(pixelsencoding.New(pixelcodec.Params{}, pixelsencoding.Resize{Height: 5}))(t)
	dir := filepath.Join(t.TempDir(), "pixels")
	testenv.Must(pack.Repack(t.Context(), set, dir, pack.Options{Partitions: 2, Encoding: encoder}))(t)
	return dir
}

// TestNotBitExactSessions checks that a transform that stored pixels don't serve exactly is served with a note, or refused.
func TestNotBitExactSessions(t *testing.T) {
	dir := pixelsSet(t, 8)
	exact := json.RawMessage(`[{"op":"Resize","size":5},{"op":"CenterCrop","size":4}]`)
	inexact := json.RawMessage(`[{"op":"RandomResizedCrop","size":4}]`)
	pixel := json.RawMessage(`[{"op":"CenterCrop","size":1}]`) // of a client that asks for whole samples
	for _, strict := range []bool{false, true} {
		ts := startServer(t, dir, func(c *Config) { c.BitExact = strict })
		for _, tt := range []struct {
			transform json.RawMessage
			resampler string
			ask       bool
			refused   bool
			word      string // in the note or the refusal, "" if there is none
		}{
			{exact, "", false, false, ""},
			{exact, "pillow-13", true, false, ""},
			{exact, "pillow-12", false, strict, "stored with Resize(5, bilinear) by the resampler pillow-13"},
			{exact, "pillow-12", true, true, "ask for that"},
			{inexact, "", false, strict, "RandomResizedCrop"},
			{inexact, "", true, true, "stored with Resize(5, bilinear)"},
			{pixel, "", true, true, "stored with Resize(5, bilinear)"},
			{pixel, "", false, strict, map[bool]string{true: "CenterCrop"}[strict]},
		} {
			c := ts.dial().hello()
			c.send(openRequest{Transform: tt.transform, BatchSize: 2, Transport: transportSocket, Resampler: tt.resampler, BitExact: tt.ask})
			if tt.refused {
				c.refused(kindBadRequest, tt.word)
			} else if m := expect[openedReply](c); (len(m.Notes) == 1) != (tt.word != "") || !strings.Contains(strings.Join(m.Notes, ""), tt.word) {
				t.Errorf("strict %v, %+v: opened with notes %q", strict, tt, m.Notes)
			}
			c.close()
		}
		ts.checkIdle()
		ts.stop()
	}
}

// TestResamplerOfSessions names a resampler in the operation, in the session and in the server: the first that is named resizes a tall
// image.
func TestResamplerOfSessions(t *testing.T) {
	img := image.NewGray(image.Rect(0, 0, 36, 200))
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range img.Pix {
		img.Pix[i] = byte(rng.Uint32())
	}
	var file bytes.Buffer
	testenv.OK(t, png.Encode(&file, img))
	dir := filepath.Join(t.TempDir(), "set")
	set := testenv.Must(shard.NewSetWriter(dir, shard.SetOptions{Split: "train", Encoding: shard.Encoding{Name: "jpeg"}, Classes: []string{"a"}}))(t)
	testenv.OK(t, set.Append(shard.Sample{Key: "a/1.png", Width: 36, Height: 200, Format: imagefile.PNG, Image: file.Bytes()}))
	testenv.Must(set.Commit())(t)
	bare := `[{"op":"Resize","size":[40,32]}]`
	newer, older := strings.Replace(bare, "]}", `],"resampler":"pillow-13"}`, 1), strings.Replace(bare, "]}", `],"resampler":"pillow-12"}`, 1)
	for _, server := range []transform.Resampler{transform.Pillow13, transform.Pillow12} {
		ts := startServer(t, dir, func(c *Config) { c.Resampler = server })
		digest := func(operations, resampler string) [32]byte {
			return ts.dial().hello().open(openRequest{Transform: json.RawMessage(operations), BatchSize: 1, Resampler: resampler}).digest(0, nil)
		}
		want := map[transform.Resampler][32]byte{transform.Pillow13: digest(newer, ""), transform.Pillow12: digest(older, "pillow-13")}
		testenv.Require(t, want[transform.Pillow13] != want[transform.Pillow12], "the image does not tell the resamplers apart")
		for resampler, named := range map[string]transform.Resampler{
			"": server, "pillow-12": transform.Pillow12, "pillow-13": transform.Pillow13,
		} {
			testenv.Check(t, digest(bare, resampler) == want[named], "server's %v: other pixels in a session of resampler %q", server, resampler)
		}
		c := ts.dial().hello()
		c.refuses(openRequest{Transform: json.RawMessage(bare), BatchSize: 1, Resampler: "rez"}, kindBadRequest, "pillow-13, pillow-12")
	}
}

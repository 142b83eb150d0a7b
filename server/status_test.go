package server

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	_ "image/jpeg"
	_ "image/png"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/loader"
	"github.com/imgfeed/imgfeed/server/internal/ring"
	"github.com/imgfeed/imgfeed/server/status"
	"github.com/imgfeed/imgfeed/shard"
)

// get asks the server's pages.
func (ts *testServer) get(path string, header ...string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r := httptest.NewRequest("GET", path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	ts.Handler().ServeHTTP(w, r)
	return w
}

// TestStatus compares what a server says of itself with what it has done.
func TestStatus(t *testing.T) {
	dir := oneSet(t, 10, 1)
	ts := startServer(t, dir, nil)
	later := ts.dial().hello().open(openRequest{BatchSize: 1, Slots: 1, Rank: of(1), World: of(2)})
	c := ts.dial().hello().open(openRequest{BatchSize: 2, Slots: 2, Rank: of(0), World: of(2)})
	c.epoch(0, 0)
	c.begun(1)
	expect[batchMessage](c)
	ts.addMoment(time.Now().Add(time.Second))
	asker := ts.dial().hello()
	st := ask[status.Status](asker, status.Request{})
	testenv.Check(t, st.Images == 9 && st.Batches == 5 && st.Threads == 2, "%+v", st)
	testenv.Check(t, len(st.Sets) == 1 && st.Sets[0].Samples == 10 && len(st.Damaged) == 0, "%+v", st)
	testenv.Require(t, len(st.Sessions) == 2 && st.Sessions[0].Rank == 0 && st.Sessions[1].Rank == 1, "sessions %+v", st.Sessions)
	testenv.Require(t, st.Sessions[1].Session == later.opened.Session && st.Sessions[1].Epoch == nil, "sessions %+v", st.Sessions)
	if s := st.Sessions[0]; s.Epoch == nil || *s.Epoch != 1 || s.EpochSent != 2 || s.EpochBatches != 3 || s.Images != 9 || s.SlotsLent != 2 || s.RingBytes != 8192 ||
		string(s.Transform) != `[{"op":"CenterCrop","size":[1,1]}]` {
		t.Errorf("session %+v", s)
	}
	testenv.Check(t, len(st.History) > 0 && st.History[len(st.History)-1].Images > 0, "history %+v", st.History)
	testenv.Equal(t, len(ts.Status(st.History[len(st.History)-1].Time).History), 0, "moments since the end of the history")
	fromPage := testenv.FromJSON[status.Status](t, ts.get("/status.json?since=0").Body.Bytes())
	testenv.Equal(t, fromPage.Images, 9, "images of /status.json")
	testenv.Equal(t, ts.get("/status.json?since=noon").Code, 400, "a moment that is not a number")
}

// TestBadSamplesAreListed serves a damaged sample blank, and then to a session that fails of it.
func TestBadSamplesAreListed(t *testing.T) {
	dir := oneSet(t, 10, 1)
	damage(t, filepath.Join(dir, "train-shards"), 3)
	ts := startServer(t, dir, nil)
	c := ts.dial().hello().open(openRequest{BatchSize: 5, OnError: onErrorBlank, Transport: transportSocket})
	c.start(startRequest{})
	c.raw(expect[batchMessage](c).Bytes)
	st := ts.Status(0)
	testenv.Require(t, len(st.Bad) == 1 && st.Bad[0].Split == "train" && st.Bad[0].Index == 3 && st.Blanks == 1, "bad %+v", st.Bad)
	testenv.Require(t, st.Bad[0].Key != "" && strings.Contains(st.Bad[0].Error, "CRC-32C"), "bad %+v", st.Bad)
	failing := ts.dial().hello().open(openRequest{BatchSize: 5})
	failing.start(startRequest{})
	expect[errorMessage](failing)
	st = ts.Status(0)
	testenv.Check(t, len(st.Bad) == 1 && st.Errors[kindCorrupt] == 1, "bad %+v, errors %v", st.Bad, st.Errors)
}

// TestPage asks for the page, as a browser and as curl do.
func TestPage(t *testing.T) {
	ts := startServer(t, oneSet(t, 10, 1), nil)
	w := ts.get("/", "Accept", "text/html,*/*")
	testenv.Equal(t, w.Code, 200, "the page's status")
	testenv.Equal(t, w.Header().Get("Content-Security-Policy"), "frame-ancestors 'none'", "who may show it")
	testenv.Contains(t, w.Body.String(), `<body class="status">`, "default-src &#39;none&#39;", "var uPlot=", "fetch(`status.json")
	toCurl := ts.get("/", "Accept", "*/*").Body.String()
	testenv.Check(t, strings.HasPrefix(toCurl, "imgfeed test, process "), "to curl: %s", toCurl)
}

// TestDocumentListsTheMetrics compares the list of docs/monitoring.md with what is served.
func TestDocumentListsTheMetrics(t *testing.T) {
	text := testenv.Must(os.ReadFile("../docs/monitoring.md"))(t)
	var listed, served []string
	for _, m := range regexp.MustCompile("(?m)^\\| `(imgfeed_\\w+)` \\| (\\w+) \\|").FindAllSubmatch(text, -1) {
		listed = append(listed, string(m[1])+" "+string(m[2]))
	}
	ts := startServer(t, oneSet(t, 10, 1), func(c *Config) { c.Feeders = []string{"127.0.0.1:1"} })
	testenv.Until(t, func() bool { return len(ts.feeders.Status().Each) == 1 })
	c := ts.dial().hello().open(openRequest{BatchSize: 5})
	c.epoch(0, 0)
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (imgfeed_\w+ \w+)$`).FindAllStringSubmatch(ts.get("/metrics").Body.String(), -1) {
		served = append(served, m[1])
	}
	slices.Sort(listed)
	slices.Sort(served)
	testenv.Check(t, slices.Equal(listed, served), "the document lists\n%v\nserved are\n%v", listed, served)
}

// clockSet is a time as time.Now gives it once the machine's clock was set by d: the monotonic one, which takes no part, goes on.
func clockSet(t time.Time, d time.Duration) time.Time {
	const nanosecondBits = 30 // below the seconds in a Time's first word
	wall := (*uint64)(unsafe.Pointer(&t))
	*wall += uint64(int64(d/time.Second)) << nanosecondBits
	return t
}

// TestClockThatIsSet moves the clock back and ahead by a day: the history goes on, and rates and ages stay what they are.
func TestClockThatIsSet(t *testing.T) {
	const day = 24 * time.Hour
	ts := startServer(t, oneSet(t, 10, 1), nil)
	now := time.Now()
	set := clockSet(now, -day)
	testenv.Require(t, set.Sub(now) == 0 && set.Unix() == now.Add(-day).Unix(), "the clock was set from %v to %v", now, set)
	last := ts.moment(now)
	for i, by := range []time.Duration{0, -day, day, 0} {
		ts.addMoment(clockSet(now.Add(time.Duration(i+1)*10*time.Second), by))
		came := ts.Status(last).History
		n := len(came)
		testenv.Require(t, n != 0 && came[n-1].Time > last && came[n-1].Time <= last+11, "a clock set by %v: after %f came %+v", by, last, came)
		last = came[len(came)-1].Time
	}
	st := ts.Status(0)
	testenv.Check(t, st.Now >= st.Started && st.Now <= st.Started+60, "started at %f, and now it is %f", st.Started, st.Now)
}

// TestLookersSeeWholeSnapshots asks for the status and for pictures while a session changes its transform, batch size and set: each answer is of
// one moment.
func TestLookersSeeWholeSnapshots(t *testing.T) {
	dir := oneSet(t, 20, 1)
	ts := startServer(t, dir, finding(dir))
	c := ts.dial().hello().open(openRequest{BatchSize: 4, Slots: 2, Transform: json.RawMessage(`[{"op":"CenterCrop","size":4}]`)})
	ctx, cancel := context.WithCancel(t.Context())
	var lookers sync.WaitGroup
	defer lookers.Wait()
	defer cancel()
	for range 2 {
		lookers.Go(func() {
			for ctx.Err() == nil {
				for _, s := range ts.Status(0).Sessions {
					if want := fmt.Sprintf(`"size": [%d, %[1]d]`, s.BatchSize); !strings.Contains(string(s.Transform), want) {
						t.Errorf("batches of %d and the transform %s", s.BatchSize, s.Transform)
						return
					}
				}
				ts.openSessions()[0].mayMake()
				ts.get("/sessions/1/batch.json")
			}
		})
	}
	for i := range 20 {
		size := 1 + i%4
		request := changeRequest{Transform: json.RawMessage(fmt.Sprintf(`[{"op":"CenterCrop","size":%d}]`, size)), BatchSize: size}
		testenv.Require(t, ask[changedReply](c, request).Fits, "batches of %d do not fit", size)
		if i%5 == 0 {
			ts.reload()
		}
		testenv.Require(t, c.drain(int64(i)) == 20, "an epoch is not whole")
	}
}

// FuzzHandler asks the status page's server anything: it answers, in the type that it says, and nothing that a question says is an
// error of the server's own.
func FuzzHandler(f *testing.F) {
	for _, target := range []string{
		"/", "/healthz", "/metrics", "/status.json", "/status.json?since=1.5", "/status.json?since=NaN", "/status.json?since=-Inf", "/status.json?since=1e400",
		"/sessions/1/batch.json", "/sessions/99/batch.json", "/sessions/18446744073709551616/batch.json", "/sessions/-1/batch.json?view=7",
		"/page/index.html", "/page/", "/page/../handler.go", "/page/%2e%2e/page.go", "/page//", "/page/%ff.js", "/page/%ED%A0%80", "/none",
	} {
		f.Add(http.MethodGet, target, "text/html", "")
	}
	f.Add(http.MethodHead, "/", "*/*", "")
	f.Add(http.MethodPost, "/status.json", "", "since=nan")
	f.Add(http.MethodGet, "/page/index.html", "bytes=1-0", "")
	ts := startServer(f, oneSet(f, 8, 2), nil)
	c := ts.dial().hello().open(openRequest{BatchSize: 2, Slots: 2})
	c.epoch(0, 0)
	handler := ts.Handler()
	f.Fuzz(func(t *testing.T, method, target, header, body string) {
		to, err := url.ParseRequestURI(target)
		if err != nil {
			t.Skip() // net/http answers such ones by itself
		}
		r := &http.Request{
			Method: method, URL: to, RequestURI: target, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Host: "localhost",
			Header: http.Header{"Accept": {header}, "Range": {header}, "Content-Type": {"application/x-www-form-urlencoded"}},
			Body:   http.NoBody,
		}
		if body != "" {
			r.Body = httptest.NewRequest(http.MethodPost, "/", bytes.NewBufferString(body)).Body
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		testenv.Check(t, w.Code != http.StatusInternalServerError, "%s %q: status %d: %s", method, target, w.Code, w.Body)
		if w.Header().Get("Content-Type") == "application/json" && w.Code == http.StatusOK && method != http.MethodHead && !json.Valid(w.Body.Bytes()) {
			t.Errorf("%s %q: no JSON: %.200q", method, target, w.Body)
		}
	})
}

// batch asks for the pictures of a session's last batch.
func (ts *testServer) batch(session uint64, header ...string) (p batchPreview, code int) {
	ts.t.Helper()
	w := ts.get(fmt.Sprintf("/sessions/%d/batch.json", session), header...)
	if w.Code == 200 {
		testenv.OK(ts.t, json.Unmarshal(w.Body.Bytes(), &p))
	}
	return p, w.Code
}

// noBatch checks with which status a question for pictures is answered without any.
func (ts *testServer) noBatch(session uint64, want int, header ...string) {
	ts.t.Helper()
	_, code := ts.batch(session, header...)
	testenv.Equal(ts.t, code, want, "the answer for the pictures of session %d", session)
}

// pixelsOf decodes a picture.
func pixelsOf(t *testing.T, url string) (pix []byte, size image.Point) {
	t.Helper()
	_, text, _ := strings.Cut(url, ";base64,")
	data := testenv.Must(base64.StdEncoding.DecodeString(text))(t)
	img, _ := testenv.Must2(image.Decode(bytes.NewReader(data)))(t)
	size = img.Bounds().Size()
	for y := range size.Y {
		for x := range size.X {
			r, g, b, _ := img.At(x, y).RGBA()
			pix = append(pix, byte(r>>8), byte(g>>8), byte(b>>8))
		}
	}
	return pix, size
}

// TestBatchOnThePage compares the pictures of the last batch with what the client was sent, random draws, views and fields included.
func TestBatchOnThePage(t *testing.T) {
	dir := t.TempDir()
	writeClassSet(t, filepath.Join(dir, "train-shards"), "train", 20, 1, []string{"cat", "n02099601"}, everyField, everyValue)
	ts := startServer(t, dir, nil)
	c := ts.dial().hello().open(openRequest{
		BatchSize: 10, Slots: 1, Shuffle: true, Seed: new(int64), Fields: []string{"score", "caption", "mask", "box"},
		Transform: json.RawMessage(`{"views": [[{"op":"RandomCrop","size":[2,3],"padding":2},{"op":"RandomHorizontalFlip"}], {"repeat": 2, "ops": [{"op":"RandomCrop","size":4}]}]}`),
	})
	ts.noBatch(1, 404)
	b := c.begun(3)
	shown, _ := ts.batch(1)
	testenv.Require(t, shown.Epoch == 3 && shown.Batch == 0 && shown.Count == 10 && len(shown.Samples) == previewSamples, "%+v", shown)
	indices := view[int64](c.array(ring.Indices, b))
	for i, sample := range shown.Samples {
		if sample.Index != int(indices[i]) || int64(sample.Label) != indices[i]%2 || sample.Class == "" || sample.Key == "" || sample.Bad != nil ||
			sample.Width != 8 || sample.Height != 6 || len(sample.Views) != 3 || len(sample.Fields) != 4 {
			t.Fatalf("position %d: %+v, the client has index %d", i, sample, indices[i])
		}
		class := [][2]string{{"cat", ""}, {"n02099601", "golden retriever"}}[sample.Label]
		testenv.Equal(t, [2]string{sample.Class, sample.Words}, class, "position %d: the class of label %d, and its words", i, sample.Label)
		got, size := pixelsOf(t, sample.Original.Picture)
		testenv.Equal(t, size, image.Pt(8, 6), "position %d: the original's size", i)
		testenv.DeepEqual(t, got, bytes.Repeat([]byte{byte(10 * sample.Label), byte(sample.Index), 7}, 48), "position %d: the original", i)
		for v, bytesEach := range []int{18, 48, 48} {
			got, _ := pixelsOf(t, sample.Views[v].Picture)
			testenv.DeepEqual(t, got, c.array(ring.Images, b, fmt.Sprint(v))[bytesEach*i:][:bytesEach], "position %d, view %d", i, v)
		}
		n := float32(indices[i])
		want := fmt.Sprint([]previewField{
			{"score", fmt.Sprint(n / 4)}, {"caption", strings.Repeat("x", int(indices[i])%5)}, {"mask", "1 byte"}, {"box", fmt.Sprintf("[%v,-1,0.5,2]", n)},
		})
		testenv.Check(t, fmt.Sprint(sample.Fields) == want, "position %d: fields %v, want %s", i, sample.Fields, want)
	}
	ts.noBatch(99, 404)
}

// TestBadSamplesOnThePage marks what is blank and what replaces another sample.
func TestBadSamplesOnThePage(t *testing.T) {
	dir := oneSet(t, 20, 1)
	damage(t, filepath.Join(dir, "train-shards"), 3)
	ts := startServer(t, dir, nil)
	for _, onError := range []string{onErrorBlank, onErrorSubstitute} {
		c := ts.dial().hello().open(openRequest{BatchSize: 6, OnError: onError, Slots: 1})
		c.begun(0)
		shown, code := ts.batch(c.opened.Session)
		testenv.Require(t, code == 200 && len(shown.Samples) == 6, "%d %+v", code, shown)
		for i, s := range shown.Samples {
			testenv.Check(t, (s.Bad != nil) == (i == 3) && s.Error == "", "%s, position %d: %+v", onError, i, s)
		}
		s := shown.Samples[3]
		blank := onError == onErrorBlank
		if s.Bad.Index != 3 || s.Bad.Key == "" || !strings.Contains(s.Bad.Error, "CRC-32C") || (s.Bad.By == nil) != blank || (len(s.Views) == 0) != blank ||
			blank && s.Label != loader.BlankLabel || !blank && (s.Index == 3 || s.Index%2 != 1 || s.Class == "") {
			t.Errorf("%s: %+v, %+v", onError, s, s.Bad)
		}
	}
}

// mayMake lets the pictures of a session be made again at once.
func (s *session) mayMake() {
	s.gallery.mu.Lock()
	defer s.gallery.mu.Unlock()
	s.gallery.next = time.Time{}
}

// TestPicturesAreMadeRarely asks again and again: pictures are made for the first one who looks, kept beyond their epoch, and made anew
// only after a long time.
func TestPicturesAreMadeRarely(t *testing.T) {
	ts := startServer(t, oneSet(t, 50, 1), nil)
	c := ts.dial().hello().open(openRequest{BatchSize: 2, Slots: 1})
	m := c.begun(0)
	session := ts.openSessions()[0]
	begun := time.Now()
	first, _ := ts.batch(1)
	took, pause := time.Since(begun), session.gallery.next.Sub(begun)
	longest := took + time.Duration(float64(took)/galleryShare)
	testenv.Check(t, pause > 0 && pause <= longest, "pictures took at most %v, and are made again %v after the first request", took, pause)
	session.gallery.next = time.Now().Add(time.Minute)
	c.send(releaseRequest{Slot: *m.Slot})
	expect[batchMessage](c)
	again, _ := ts.batch(1)
	testenv.Check(t, again.Batch == first.Batch && again.Time == first.Time, "made again: %+v", again)
	etag := ts.get("/sessions/1/batch.json").Header().Get("ETag")
	ts.noBatch(1, 304, "If-None-Match", etag)
	session.mayMake()
	newer, code := ts.batch(1, "If-None-Match", etag)
	testenv.Check(t, newer.Batch == 1 && code == 200, "after that time: %d %+v", code, newer)
	c.send(stopRequest{})
	testenv.Until(t, func() bool { return !session.snapshot.Load().sends })
	session.mayMake()
	kept, _ := ts.batch(1)
	testenv.Equal(t, kept.Batch, 1, "the batch that is kept after the epoch")
}

// TestPicturesAreFew bounds the pictures of a sample with many views.
func TestPicturesAreFew(t *testing.T) {
	ts := startServer(t, oneSet(t, 20, 1), nil)
	for views, want := range map[int]int{1: previewSamples, 7: 6, 64: 1} {
		c := ts.dial().hello().open(openRequest{BatchSize: 10, Slots: 1, Transform: json.RawMessage(fmt.Sprintf(`{"views":[{"repeat":%d,"ops":[{"op":"RandomCrop","size":4}]}]}`, views))})
		c.begun(0)
		shown, code := ts.batch(c.opened.Session)
		testenv.Equal(t, code, 200, "%d views: the status", views)
		testenv.Equal(t, len(shown.Samples), want, "%d views: samples", views)
		testenv.Equal(t, len(shown.Samples[0].Views), views, "views of a sample")
	}
}

func TestShowValue(t *testing.T) {
	for _, tt := range []struct {
		field shard.Field
		value []byte
		want  string
	}{
		{shard.Field{Type: shard.Int64}, shard.AppendInts(nil, -7), "-7"},
		{shard.Field{Type: shard.Float32, Size: 2}, shard.AppendFloats(nil, 1, 0.5), "[1,0.5]"},
		{shard.Field{Type: shard.Text}, []byte("<b>é"), "<b>é"},
		{shard.Field{Type: shard.JSON}, []byte(`{"a": [1, 2]}`), `{"a":[1,2]}`},
		{shard.Field{Type: shard.Bytes}, make([]byte, 12), "12 bytes"},
		{shard.Field{Type: shard.Text}, []byte(strings.Repeat("a", 116) + strings.Repeat("é", 9)), strings.Repeat("a", 116) + "…"},
	} {
		testenv.Equal(t, showValue(tt.field, tt.value), tt.want, "%v", tt.field)
	}
}

package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
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
	"github.com/imgfeed/imgfeed/server/status"
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
	if st.Images != 9 || st.Batches != 5 || st.Threads != 2 || len(st.Sets) != 1 || st.Sets[0].Samples != 10 || len(st.Damaged) != 0 {
		t.Errorf("%+v", st)
	}
	if len(st.Sessions) != 2 || st.Sessions[0].Rank != 0 || st.Sessions[1].Rank != 1 || st.Sessions[1].Session != later.opened.Session || st.Sessions[1].Epoch != nil {
		t.Fatalf("sessions %+v", st.Sessions)
	}
	if s := st.Sessions[0]; s.Epoch == nil || *s.Epoch != 1 || s.EpochSent != 2 || s.EpochBatches != 3 || s.Images != 9 || s.SlotsLent != 2 || s.RingBytes != 8192 ||
		string(s.Transform) != `[{"op":"CenterCrop","size":[1,1]}]` {
		t.Errorf("session %+v", s)
	}
	testenv.Check(t, len(st.History) > 0 && st.History[len(st.History)-1].Images > 0, "history %+v", st.History)
	testenv.Equal(t, len(ts.Status(st.History[len(st.History)-1].Time).History), 0, "moments since the end of the history")
	var fromPage status.Status
	err := json.Unmarshal(ts.get("/status.json?since=0").Body.Bytes(), &fromPage)
	testenv.Check(t, err == nil && fromPage.Images == 9, "/status.json: %+v, %v", fromPage, err)
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
	if len(st.Bad) != 1 || st.Bad[0].Split != "train" || st.Bad[0].Index != 3 || st.Bad[0].Key == "" || !strings.Contains(st.Bad[0].Error, "CRC-32C") || st.Blanks != 1 {
		t.Fatalf("bad %+v", st.Bad)
	}
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
		testenv.Require(t, n != 0 && came[n-1].Time > last && came[n-1].Time <= last+11,
			"a clock set by %v: after %f came %+v", by, last, came)
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

package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/loader"
	"github.com/imgfeed/imgfeed/server/feeder"
	"github.com/imgfeed/imgfeed/server/internal/wire"
	"github.com/imgfeed/imgfeed/server/status"
)

// startFeeder feeds from the sets in dir until the test ends, and returns its address and how to stop it before.
func startFeeder(t testing.TB, dir string, change func(*Config)) (address string, stop func()) {
	t.Helper()
	srv := newServer(t, dir, change)
	l := testenv.Must(srv.ListenFeed("127.0.0.1:0"))(t)
	ctx, cancel := context.WithCancel(context.Background())
	fed := make(chan error, 1)
	go func() { fed <- srv.Feed(ctx, l) }()
	stop = sync.OnceFunc(func() {
		cancel()
		testenv.OK(t, <-fed)
		srv.Close()
	})
	t.Cleanup(stop)
	return l.Addr().String(), stop
}

// setsOf returns a server's sets as feeders know them.
func setsOf(ts *testServer) []feeder.Set {
	sets, _ := ts.host.Sets()
	return sets
}

// digest is a hash of all that an epoch delivers. It calls each, if not nil, after each batch.
func (c *client) digest(epoch int64, each func(batch int)) [32]byte {
	c.t.Helper()
	h := sha256.New()
	for b := range c.batches(epoch, 0) {
		for _, a := range c.opened.Arrays {
			part := c.memory(a, b)
			for ; (a.Dtype == "text" || a.Dtype == "objects") && len(part) > 0; part = part[a.Stride:] { // what lies behind a value is undefined
				h.Write(part[:4+binary.LittleEndian.Uint32(part)])
			}
			h.Write(part)
		}
		b.Slot, b.Generation = nil, 0
		json.NewEncoder(h).Encode(b)
		if each != nil {
			each(b.Batch)
		}
	}
	return [32]byte(h.Sum(nil))
}

// feedSessions are sessions of several kinds of a set with fields and a damaged sample.
func feedSessions(t *testing.T) (dir string, sessions []openRequest) {
	dir = trainSet(t, 150, 2, valueFields, valuesOf)
	damage(t, filepath.Join(dir, "train-shards"), 42)
	return dir, []openRequest{
		{Transform: json.RawMessage(`[{"op":"RandomCrop","size":4,"padding":1},{"op":"RandomHorizontalFlip"}]`), BatchSize: 16, Shuffle: true, Seed: of[int64](-7), OnError: onErrorBlank, Fields: []string{"caption", "score"}, WithParams: true, Slots: 5},
		{Transform: json.RawMessage(`{"views":[[{"op":"CenterCrop","size":5}],{"repeat":2,"ops":[{"op":"RandomResizedCrop","size":9}]}]}`), BatchSize: 40, Shuffle: true, Seed: of[int64](5),
			OnError: onErrorSubstitute, Layout: layoutNCHW, WithRepetitions: true, WithParams: true},
		{Transform: json.RawMessage(`[{"op":"RandomResizedCrop","size":20}]`), Resampler: "pillow-12", BatchSize: 7, OnError: onErrorBlank, Slots: 2},
	}
}

// TestFeeders compares what sessions get with and without feeders, that come and go.
func TestFeeders(t *testing.T) {
	t.Parallel()
	dir, sessions := feedSessions(t)
	var want [][32]byte
	alone := startServer(t, dir, nil)
	for _, m := range sessions {
		want = append(want, alone.dial().hello().open(m).digest(3, nil))
	}
	first, stopFirst := startFeeder(t, dir, nil)
	second, _ := startFeeder(t, dir, nil)
	vanished, stop := startFeeder(t, dir, nil)
	stop()
	for _, threads := range []int{-1, 1} {
		for _, feeders := range [][]string{{vanished}, {first}, {first, second, vanished}} {
			t.Run(fmt.Sprint(threads, " ", len(feeders)), func(t *testing.T) {
				ts := startServer(t, dir, func(c *Config) { c.Threads, c.Feeders = threads, feeders })
				ts.awaitFeeders(feeders[0] != vanished)
				for i, m := range sessions {
					testenv.Check(t, ts.dial().hello().open(m).digest(3, nil) == want[i], "session %d gets other batches than without feeders", i)
				}
				// On a busy machine a feeder may be late, and others make its samples.
				work := ts.feeders.Status()
				busy := threads >= 0 || work.Late > 0
				testenv.Check(t, busy || (work.Samples > 300) == (feeders[0] != vanished), "feeders made %d samples", work.Samples)
			})
		}
	}
	ts := startServer(t, dir, func(c *Config) { c.Threads, c.Feeders = loader.NoThreads, []string{first, second} })
	ts.awaitFeeders(true)
	got := ts.dial().hello().open(sessions[0]).digest(3, func(batch int) {
		if batch == 2 {
			stopFirst()
		}
	})
	testenv.Check(t, got == want[0], "other batches where a feeder stops in the middle of the epoch")
}

// awaitFeeders waits for all connections to the first feeder, if it can be reached.
func (ts *testServer) awaitFeeders(can bool) {
	connected := func() (n int64) {
		for _, f := range ts.feeders.Status().Each {
			n += f.Connections
		}
		return n
	}
	testenv.Until(ts.t, func() bool { return !can || connected() >= 2 })
}

// TestFeederRefused starts feeders of other data and of another version.
func TestFeederRefused(t *testing.T) {
	dir, sessions := feedSessions(t)
	want := startServer(t, dir, nil).dial().hello().open(sessions[0]).digest(0, nil)
	other, _ := startFeeder(t, oneSet(t, 150, 2), nil)
	newer, _ := startFeeder(t, dir, func(c *Config) { c.Name = "imgfeed newer" })
	for address, words := range map[string]string{other: "other data than the server", newer: "the feeder runs imgfeed newer"} {
		var log logText
		ts := startServer(t, dir, func(c *Config) { c.Threads, c.Feeders, c.Log = loader.NoThreads, []string{address}, log.logger() })
		log.await(t, words)
		testenv.Check(t, ts.dial().hello().open(sessions[0]).digest(0, nil) == want, "%s: other batches", words)
	}
}

// TestHostileFeeders has a server meet peers that are not feeders, and feeders that fail later.
func TestHostileFeeders(t *testing.T) {
	t.Parallel()
	dir, sessions := feedSessions(t)
	alone := startServer(t, dir, nil)
	want := alone.dial().hello().open(sessions[0]).digest(0, nil)
	hello := testenv.Must(feeder.Replies.AppendFrame(nil, feeder.HelloReply{Version: 1, Server: "imgfeed test", Connections: 2, Sets: setsOf(alone)}))(t)
	refusal := testenv.Must(feeder.Replies.AppendFrame(nil, wire.Refusal{Message: "not today"}))(t)
	for name, c := range map[string]struct {
		says  []byte // at once
		then  []byte // after each request
		words string
	}{
		"silent":    {},
		"garbage":   {says: []byte("HTTP/1.1 400 Bad Request\r\n\r\n"), words: "wire: frame of"},
		"oversized": {says: []byte("\xff\xff\xff\x7f{"), words: "wire: frame of"},
		"hangs":     {says: hello, words: "no piece within"},
		"refuses":   {says: hello, then: refusal, words: "not today"},
		"half":      {says: hello, then: append(bytes.Clone(feeder.MadeFrame), 1, 1, 1), words: "no piece within"},
		"nonsense":  {says: hello, then: append(bytes.Clone(refusal), 1, 2, 3), words: "not today"},
		"text":      {says: hello, then: []byte("\x04\x00\x00\x00null"), words: "not a JSON object"},
	} {
		t.Run(name, func(t *testing.T) {
			l := testenv.Opened(net.Listen("tcp", "127.0.0.1:0"))(t)
			go func() {
				for {
					conn, err := l.Accept()
					if err != nil {
						return
					}
					go func() {
						defer conn.Close()
						conn.Write(c.says)
						frames := wire.NewReader(conn, wire.RequestBytesMax)
						frames.Next()
						for {
							if _, err := frames.Next(); err != nil {
								return
							}
							if feeder.ReadNumbers(conn, new(loader.Piece), 150) != nil {
								return
							}
							conn.Write(c.then)
						}
					}()
				}
			}()
			var log logText
			ts := startServer(t, dir, func(cfg *Config) {
				cfg.Threads, cfg.Feeders, cfg.Log = 1, []string{l.Addr().String()}, log.logger()
				if bytes.Equal(c.says, hello) {
					cfg.Threads = loader.NoThreads // a feeder that connects gets all samples
				}
			})
			ts.awaitFeeders(bytes.Equal(c.says, hello))
			testenv.Check(t, ts.dial().hello().open(sessions[0]).digest(0, nil) == want, "other batches than without it")
			log.await(t, c.words)
		})
	}
}

// numbers are int64 as they follow a message.
func numbers(values ...int64) (b []byte) {
	for _, v := range values {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	return b
}

// TestHostileServers has a feeder meet peers that are not servers.
func TestHostileServers(t *testing.T) {
	dir := oneSet(t, 20, 1)
	address, _ := startFeeder(t, dir, nil)
	ts := startServer(t, dir, nil)
	request := func(change func(*feeder.Request)) []byte {
		m := feeder.Request{Set: setsOf(ts)[0], Transform: onePixel, Layout: layoutNHWC}
		if change != nil {
			change(&m)
		}
		return testenv.Must(feeder.Requests.AppendFrame(nil, m))(t)
	}
	hello, _ := feeder.Requests.AppendFrame(nil, wire.Hello{Version: 1})
	for name, c := range map[string]struct {
		sends []byte
		words string
	}{
		"garbage":     {[]byte("GET / HTTP/1.1\r\n\r\n"), ""},
		"oversized":   {[]byte("\xff\xff\xff\x7f"), "frame of"},
		"no hello":    {slices.Concat(request(nil), numbers(1, 0, 0, 0, 0)), "must be hello"},
		"hello twice": {slices.Concat(hello, hello), "hello was said already"},
		"split":       {slices.Concat(hello, request(func(m *feeder.Request) { m.Set.Split = "x" })), "no split"},
		"data":        {slices.Concat(hello, request(func(m *feeder.Request) { m.Set.Fingerprint = "x" })), "other data"},
		"transform":   {slices.Concat(hello, request(func(m *feeder.Request) { m.Transform = json.RawMessage("7") })), "transform"},
		"fields":      {slices.Concat(hello, request(func(m *feeder.Request) { m.Fields = []string{"x"} })), "no field"},
		"none":        {slices.Concat(hello, request(nil), numbers(0, 0, 0)), "a piece of 0 samples"},
		"many":        {slices.Concat(hello, request(nil), numbers(65, 0, 0)), "a piece of 65 samples"},
		"index":       {slices.Concat(hello, request(nil), numbers(1, 0, 0, 20, 0)), "sample 20"},
		"large": {slices.Concat(hello, request(func(m *feeder.Request) { m.Transform = json.RawMessage(`[{"op":"CenterCrop","size":4000}]`) }),
			numbers(64, 0, 0), make([]byte, 64*16)), "at most"},
	} {
		t.Run(name, func(t *testing.T) {
			conn := testenv.Opened(net.Dial("tcp", address))(t)
			conn.Write(c.sends)
			got, _ := io.ReadAll(conn)
			testenv.Check(t, strings.Contains(string(got), c.words), "got %q, want %q", got, c.words)
		})
	}
	near := startServer(t, dir, func(c *Config) { c.Threads, c.Feeders = loader.NoThreads, []string{address} })
	checkServes(near)
}

// TestFeederLists has a file name feeders, that come and go while epochs run, and a name that stands for several addresses.
func TestFeederLists(t *testing.T) {
	t.Parallel()
	dir, sessions := feedSessions(t)
	want := startServer(t, dir, nil).dial().hello().open(sessions[0]).digest(3, nil)
	first, _ := startFeeder(t, dir, nil)
	second, _ := startFeeder(t, dir, nil)
	folder := t.TempDir()
	list := func(text string) { writeIn(t, folder, "feeders", text) }
	list(first)
	var log logText
	ts := startServer(t, dir, func(c *Config) {
		c.Threads, c.Log = loader.NoThreads, log.logger()
		c.Feeders = []string{"file:" + filepath.Join(folder, "feeders")}
	})
	connected := func() (addresses []string) {
		for _, f := range ts.feeders.Status().Each {
			if f.Connections > 0 {
				addresses = append(addresses, f.Address)
			}
		}
		return addresses
	}
	listed := func(want ...string) {
		slices.Sort(want)
		testenv.Until(t, func() bool { return slices.Equal(connected(), want) })
	}
	session := ts.dial().hello().open(sessions[0])
	check := func() {
		t.Helper()
		testenv.Check(t, session.digest(3, nil) == want, "other batches")
	}
	listed(first)
	list(first + ",\n" + second + "\n")
	listed(first, second)
	check()
	for text, words := range map[string]string{"nonsense": "want host:port", "10.1.2.3:7400": "give both sides --tls", "\xff\xfe:7400": "want host:port in UTF-8"} {
		list(text)
		log.await(t, words)
		listed(first, second) // as before
	}
	list(second)
	listed(second)
	check()
	testenv.OK(t, os.Remove(filepath.Join(folder, "feeders")))
	log.await(t, "no such file")
	listed(second)
	_, port, _ := net.SplitHostPort(first)
	byName := startServer(t, dir, func(c *Config) { c.Threads, c.Feeders = loader.NoThreads, []string{"dns:localhost:" + port} })
	byName.awaitFeeders(true)
	var unknown logText
	startServer(t, dir, func(c *Config) {
		c.Threads, c.Feeders, c.Log = loader.NoThreads, []string{"dns:feeders.invalid:7400"}, unknown.logger()
	})
	unknown.await(t, "looking up feeders failed")
}

// FuzzFeedConnection sends anything to a feeder, which must end the connection.
func FuzzFeedConnection(f *testing.F) {
	dir := oneSet(f, 8, 2)
	ts := startServer(f, dir, nil)
	address, _ := startFeeder(f, dir, func(c *Config) { c.MemoryBytes = 4 << 20 })
	hello, _ := feeder.Requests.AppendFrame(nil, wire.Hello{Version: 1})
	f.Add(hello)
	for _, m := range []feeder.Request{
		{Set: setsOf(ts)[0], Transform: onePixel, Layout: layoutNHWC},
		{Set: setsOf(ts)[0], Transform: json.RawMessage(`[{"op":"RandomResizedCrop","size":4}]`), Layout: layoutNCHW, WithParams: true},
	} {
		request, _ := feeder.Requests.AppendFrame(bytes.Clone(hello), m)
		f.Add(feeder.AppendNumbers(request, &loader.Piece{Seed: 3, Epoch: 1, Indices: []int{7, 0}}, 2))
	}
	f.Fuzz(func(t *testing.T, b []byte) { checkEnds(t, testenv.Must(net.Dial("tcp", address))(t), b) })
}

// TestFeedersAreSeen looks at what status.json and the metrics say of a feeder that makes everything, and of one that is away.
func TestFeedersAreSeen(t *testing.T) {
	dir, sessions := feedSessions(t)
	away, stop := startFeeder(t, dir, nil)
	stop()
	address, _ := startFeeder(t, dir, nil)
	ts := startServer(t, dir, func(c *Config) { c.Threads, c.Feeders = loader.NoThreads, []string{address, away} })
	ts.awaitFeeders(true)
	ts.addMoment(time.Now())
	ts.dial().hello().open(sessions[0]).digest(3, nil)
	ts.addMoment(time.Now().Add(time.Second))
	st := testenv.FromJSON[status.Status](t, ts.get("/status.json").Body.Bytes())
	for _, f := range st.Feeders.Each {
		testenv.Check(t, (f.Connections > 0) == (f.Address == address) && (f.Trouble != "") == (f.Address == away), "%+v", f)
	}
	all := st.Feeders
	testenv.Check(t, len(all.Each) == 2 && all.Samples > 0 && all.Bytes > 0, "%+v", all)
	testenv.Check(t, all.SamplesPerSecond > 0 && all.BytesPerSecond > 0 && all.Share > 0 && all.Share <= 1, "%+v", all)
	inTime := all.Samples >= 100 && all.Again == 1 && all.Share >= 0.9 // sample 42 is damaged
	testenv.Check(t, all.Late > 0 || inTime, "the feeder was always in time: %+v", all)
	testenv.Contains(t, ts.get("/metrics").Body.String(), `imgfeed_feeder_connections{feeder="`+away+`"} 0`,
		`imgfeed_feeder_samples_total{feeder="`+address+`"} `)
}

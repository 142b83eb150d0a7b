package server

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/storage"
)

// damagedSets makes a folder with a whole set (val), one of three partitions of which rank 1 lacks its shard (train), one
// with nothing whole (test), and one whose manifest is cut short (extra).
func damagedSets(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for split, world := range map[string]int{"val": 1, "train": 3, "test": 1, "extra": 1} {
		writeSet(t, filepath.Join(dir, split), split, 9, world)
	}
	for _, path := range []string{"train/rank-0001/00000.imgshard", "test/rank-0000/00000.imgshard"} {
		testenv.OK(t, os.Remove(filepath.Join(dir, path)))
	}
	testenv.OK(t, os.Truncate(filepath.Join(dir, "extra", "manifest.json"), 60))
	return dir
}

// ask sends an open request on a connection of its own and returns the answer.
func (ts *testServer) ask(m openRequest) any {
	ts.t.Helper()
	m.Transform, m.BatchSize, m.Transport = onePixel, 2, transportSocket
	c := ts.dial().hello()
	defer c.close()
	c.send(m)
	return c.receive()
}

// answers tells whether a server answers with an M.
func answers[M any](message any) bool {
	_, ok := message.(M)
	return ok
}

// TestDamagedIsNamedAndTheRestServed checks that each session gets what is whole, or an error that names what is not.
func TestDamagedIsNamedAndTheRestServed(t *testing.T) {
	dir := damagedSets(t)
	var log logText
	ts := startServer(t, dir, func(c *Config) { c.Log = log.logger() })
	logged := log.String()
	ranked := func(rank int) openRequest {
		world := 3
		return openRequest{Split: "train", Rank: &rank, World: &world}
	}
	for _, c := range []struct {
		request    openRequest
		kind, want string
	}{
		{openRequest{Split: "val"}, "", ""},
		{ranked(0), "", ""},
		{ranked(2), "", ""},
		{ranked(1), kindCorrupt, filepath.Join(dir, "train/rank-0001") + ": partition 1 of 3 is not whole"},
		{ranked(1), kindCorrupt, "then have the server look again (imgfeed reload), or start it"},
		{openRequest{Split: "train"}, kindCorrupt, "rank-0001/00000.imgshard is missing"},
		{openRequest{Split: "test"}, kindCorrupt, "rank-0000/00000.imgshard is missing"},
		{openRequest{Split: "extra"}, kindCorrupt, filepath.Join(dir, "extra/manifest.json")},
		{openRequest{}, kindBadRequest, "split is missing"},
	} {
		switch m := ts.ask(c.request).(type) {
		case openedReply:
			testenv.Check(t, c.kind == "", "%+v: opened, want %s", c.request, c.kind)
		case errorMessage:
			testenv.Check(t, c.kind != "" && m.ErrKind == c.kind && strings.Contains(m.Message, c.want) && !m.Fatal,
				"%+v: %+v, want %s with %q", c.request, m, c.kind, c.want)
		}
	}
	health := ts.get("/healthz")
	body := health.Body.String()
	testenv.Check(t, health.Code == http.StatusOK && strings.HasPrefix(body, "ok\n"), "/healthz: %d %q", health.Code, body)
	testenv.Contains(t, ts.get("/metrics").Body.String(), "imgfeed_damaged 3\n")
	for name, text := range map[string]string{"the log": logged, "/healthz": health.Body.String(), "the status": strings.ReplaceAll(ts.Status(0).String(), "\n  ", " ")} {
		for _, want := range []string{
			filepath.Join(dir, "train/rank-0001/00000.imgshard is missing"),
			filepath.Join(dir, "test/rank-0000/00000.imgshard is missing"),
			filepath.Join(dir, "extra/manifest.json") + ": manifest at byte 60",
		} {
			testenv.Check(t, strings.Count(text, want) == 1, "%s does not say once %q:\n%s", name, want, text)
		}
	}
}

// TestOnlyAWholeSetIsImplied: beside a damaged set, a session must say which split it means.
func TestOnlyAWholeSetIsImplied(t *testing.T) {
	dir := t.TempDir()
	writeSet(t, filepath.Join(dir, "val"), "val", 4, 1)
	only := startServer(t, dir, nil).ask(openRequest{})
	testenv.Check(t, answers[openedReply](only), "the only set: %+v", only)
	writeSet(t, filepath.Join(dir, "train"), "train", 4, 1)
	testenv.OK(t, os.Remove(filepath.Join(dir, "train/rank-0000/00000.imgshard")))
	beside := startServer(t, dir, nil).ask(openRequest{})
	testenv.Check(t, answers[errorMessage](beside), "beside a damaged set: %+v", beside)
}

// TestNothingToServe checks that a server does not start for a rank whose partition is damaged, or without any whole partition. The
// error names each damage once.
func TestNothingToServe(t *testing.T) {
	dir := damagedSets(t)
	testenv.OK(t, os.RemoveAll(filepath.Join(dir, "val")))
	refuses := func(cfg Config, damages ...string) {
		t.Helper()
		cfg.Found = testenv.Must(shard.FindAll(dir))(t)
		_, err := New(cfg)
		for _, want := range damages {
			testenv.Check(t, err != nil && strings.Count(err.Error(), filepath.Join(dir, want)) == 1, "%v does not name %s once", err, want)
		}
	}
	refuses(Config{Rank: 1, World: 3}, "train/rank-0001: partition 1")
	newServer(t, dir, func(c *Config) { c.Rank, c.World = 2, 3 }).Close() // its partition is whole
	testenv.OK(t, os.RemoveAll(filepath.Join(dir, "train")))
	refuses(Config{}, "test/rank-0000: partition 0", "extra/manifest.json")
}

// TestDeadStore tells a client that its set's store refuses connections, or closes them: these are not the client's own, nor is it the end of the epoch.
func TestDeadStore(t *testing.T) {
	defer func(before *storage.Client) { storage.Default = before }(storage.Default)
	dir := oneSet(t, 40, 1)
	for _, name := range []string{"refused", "closed"} {
		storage.Default = storage.NewClient()
		files := http.FileServer(http.Dir(dir))
		var dead atomic.Bool
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if dead.Load() {
				panic(http.ErrAbortHandler)
			}
			files.ServeHTTP(w, r)
		}))
		defer web.Close()
		ts := startServer(t, web.URL+"/train-shards", nil)
		c := ts.dial().hello().open(openRequest{Split: "train", BatchSize: 4})
		storage.Default.Timeout = 300 * time.Millisecond // until now requests had all the time that a busy machine takes
		if dead.Store(true); name == "refused" {
			web.Close()
		}
		c.start(startRequest{})
		testenv.Check(t, c.refused(kindInternal, "check the network and the storage").Generation > 0, "%s: the error is of no epoch", name)
		e := c.refuses(sampleRequest{Index: 3}, kindInternal, "check the network and the storage")
		testenv.Equal(t, e.Request, "sample", "%s: the request that failed", name)
		c.close()
		ts.checkIdle()
	}
}

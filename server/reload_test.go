package server

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/server/status"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/storage"
)

// replaceSet replaces the set in dir by another one, as imgshard build --force does.
func replaceSet(t *testing.T, dir, split string, samples, partitions int) {
	t.Helper()
	testenv.OK(t, os.RemoveAll(dir))
	writeSet(t, dir, split, samples, partitions)
}

// finding serves dir, and looks there again when it reloads.
func finding(dir string) func(*Config) {
	return func(c *Config) { c.Find = func() (shard.Found, error) { return shard.FindAll(dir) } }
}

func (ts *testServer) reload() []string {
	ts.t.Helper()
	c := ts.dial().hello()
	defer c.close()
	c.send(status.Reload{})
	return expect[status.Reloaded](c).Changes
}

// using returns how many need a set.
func (s *openSet) using() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.users
}

func TestReloadServesWhatHasBecomeWhole(t *testing.T) {
	dir := damagedSets(t)
	ts := startServer(t, dir, finding(dir))
	one, three := 1, 3
	rank1 := openRequest{Split: "train", Rank: &one, World: &three}
	testenv.Require(t, answers[errorMessage](ts.ask(rank1)), "a partition without its shard is served")
	testenv.DeepEqual(t, ts.reload(), []string{status.Unchanged}, "nothing was changed, and the reload says")
	for split, world := range map[string]int{"train": 3, "test": 1, "extra": 1} {
		replaceSet(t, filepath.Join(dir, split), split, 9, world)
	}
	writeSet(t, filepath.Join(dir, "more"), "more", 4, 1)
	want := []string{
		"split train: partitions [1] are served now", "split extra is served now, 9 samples", "split more is served now, 4 samples",
		"split test is served now, 9 samples",
	}
	testenv.DeepEqual(t, ts.reload(), want, "the reload says")
	for _, m := range []openRequest{rank1, {Split: "test"}, {Split: "extra"}, {Split: "more"}, {Split: "val"}} {
		reply := ts.ask(m)
		testenv.Check(t, answers[openedReply](reply), "split %s: %+v", m.Split, reply)
	}
	testenv.Equal(t, len(ts.catalog.Load().problems()), 0, "problems that are left")
	ts.checkIdle()
}

// TestReloadUnderASession mends a sample under an open session: the next epoch has it, and the files of before are closed.
func TestReloadUnderASession(t *testing.T) {
	dir := t.TempDir()
	writeSet(t, filepath.Join(dir, "train"), "train", 9, 1)
	damage(t, filepath.Join(dir, "train"), 5)
	ts := startServer(t, dir, finding(dir))
	c := ts.dial().hello().open(openRequest{Split: "train", Transform: onePixel, BatchSize: 3})
	before := ts.catalog.Load().sets["train"]
	testenv.Require(t, c.begun(0).Count == 3, "the first batch is not whole")
	c.refused(kindCorrupt)
	replaceSet(t, filepath.Join(dir, "train"), "train", 9, 1)
	ts.reload()
	testenv.Check(t, before.using() == 1, "the set of before has %d users, want the session", before.using())
	c.send(releaseRequest{Slot: 0})
	testenv.Equal(t, len(c.epoch(1, 0)), 3, "batches")
	testenv.Check(t, before.using() == 0, "the set of before has %d users", before.using())
	c.close()
	ts.checkIdle()
	now := ts.catalog.Load().sets["train"]
	testenv.Check(t, now != before && now.using() == 1, "the set has %d users, want the catalog", now.using())
}

// TestStartDuringAReload starts an epoch of a session that has an old set, while the newer one of which the start has just heard is replaced:
// it follows to the newest.
func TestStartDuringAReload(t *testing.T) {
	dir := oneSet(t, 6, 1)
	ts := startServer(t, dir, finding(dir))
	c := ts.dial().hello().open(openRequest{BatchSize: 3})
	ts.reload()
	before, next := ts.catalog.Load(), openCatalog(testenv.Must(shard.FindAll(dir))(t), ts.log)
	before.close()
	c.send(startRequest{})
	for range 10_000 { // so that the start meets the closed set
		runtime.Gosched()
	}
	ts.catalog.Store(next)
	expect[startedReply](c)
	testenv.Check(t, ts.openSessions()[0].snapshot.Load().set == next.sets["train"], "the session does not read the newest set")
}

// TestReloadRefuses checks that what was opened is served on where there is other data now, or less, or none.
func TestReloadRefuses(t *testing.T) {
	dir := t.TempDir()
	for split, partitions := range map[string]int{"other": 1, "less": 2, "none": 1, "broken": 1} {
		writeSet(t, filepath.Join(dir, split), split, 6, partitions)
	}
	scored := func(half int) {
		writeFieldSet(t, filepath.Join(dir, "changed"), "changed", 6, 1, valueFields, func(i int) []byte { return valuesOf(i + half) })
	}
	scored(0)
	ts := startServer(t, dir, finding(dir))
	old := ts.catalog.Load().sets["other"].Manifest().Fingerprint
	replaceSet(t, filepath.Join(dir, "other"), "other", 8, 1)
	for _, path := range []string{"less/rank-0001", "none"} {
		testenv.OK(t, os.RemoveAll(filepath.Join(dir, path)))
	}
	testenv.OK(t, os.Remove(filepath.Join(dir, "broken/rank-0000/00000.imgshard")))
	testenv.OK(t, os.RemoveAll(filepath.Join(dir, "changed")))
	scored(1)
	writeSet(t, filepath.Join(dir, "new"), "new", 6, 1) // is not served either
	c := ts.dial().hello()
	for range 2 {
		c.refuses(status.Reload{}, kindCorrupt, "nothing has changed, and the data opened before is still served",
			"split other: "+filepath.Join(dir, "other")+" holds other data, ", ", and "+old[:12], "split changed: ",
			"split less: "+filepath.Join(dir, "less")+" lacks partitions [1], which were whole", "none holds no set of it any more",
			"00000.imgshard is missing")
		for _, split := range []string{"other", "less", "none", "broken", "changed"} {
			c := ts.dial().hello().open(openRequest{Split: split, Transform: onePixel, BatchSize: 3})
			testenv.Check(t, c.opened.Samples == 6 && len(c.epoch(0, 0)) == 2, "split %s: %+v", split, c.opened)
			c.close()
		}
	}
	c.close()
	ts.checkIdle()
}

// TestReloadsUnderSessions reloads and looks at pictures without an end while sessions come, serve epochs and go.
func TestReloadsUnderSessions(t *testing.T) {
	dir := t.TempDir()
	writeSet(t, filepath.Join(dir, "train"), "train", 20, 2)
	ts := startServer(t, dir, finding(dir))
	stop := make(chan struct{})
	var reloads, sessions sync.WaitGroup
	reloads.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				done, err := ts.Reload()
				testenv.Check(t, err == nil && done[0] == status.Unchanged, "%v, %v", done, err)
				for _, sess := range ts.openSessions() {
					sess.mayMake()
					ts.batch(sess.connection.id)
				}
			}
		}
	})
	for range 4 {
		sessions.Go(func() {
			for range 5 {
				c := ts.dial().hello().open(openRequest{Split: "train", Transform: onePixel, BatchSize: 3})
				for epoch := range int64(3) {
					testenv.Equal(t, len(c.epoch(epoch, 0)), 7, "batches")
				}
				c.close()
			}
		})
	}
	sessions.Wait()
	close(stop)
	reloads.Wait()
	ts.checkIdle()
	testenv.Equal(t, ts.catalog.Load().sets["train"].using(), 1, "users of the set")
}

// TestOtherClassesAreLogged serves splits whose labels mean other classes.
func TestOtherClassesAreLogged(t *testing.T) {
	for name, tc := range map[string]struct {
		classes []string
		logged  bool
	}{"others": {[]string{"dog", "cat"}, true}, "the same": {[]string{"cat", "dog"}, false}} {
		dir := t.TempDir()
		writeSet(t, filepath.Join(dir, "a"), "train", 4, 1)
		writeClassSet(t, filepath.Join(dir, "b"), "val", 4, 1, tc.classes, nil, func(int) []byte { return nil })
		found := testenv.Must(shard.FindAll(dir))(t)
		var log logText
		openCatalog(found, log.logger()).close()
		testenv.Check(t, strings.Contains(log.String(), "split=val label=0 class=dog") == tc.logged && (tc.logged || log.String() == ""),
			"%s: %s", name, &log)
	}
}

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

package server

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/shard"
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
			if c.kind != "" {
				t.Errorf("%+v: opened, want %s", c.request, c.kind)
			}
		case errorMessage:
			if c.kind == "" || m.ErrKind != c.kind || !strings.Contains(m.Message, c.want) || m.Fatal {
				t.Errorf("%+v: %+v, want %s with %q", c.request, m, c.kind, c.want)
			}
		}
	}
	health := ts.get("/healthz")
	if health.Code != http.StatusOK || !strings.HasPrefix(health.Body.String(), "ok\n") {
		t.Errorf("/healthz: %d %q", health.Code, health.Body)
	}
	if !strings.Contains(ts.get("/metrics").Body.String(), "imgfeed_damaged 3\n") {
		t.Error("/metrics does not count three things damaged")
	}
	for name, text := range map[string]string{"the log": logged, "/healthz": health.Body.String(), "the status": strings.ReplaceAll(ts.Status(0).String(), "\n  ", " ")} {
		for _, want := range []string{
			filepath.Join(dir, "train/rank-0001/00000.imgshard is missing"),
			filepath.Join(dir, "test/rank-0000/00000.imgshard is missing"),
			filepath.Join(dir, "extra/manifest.json") + ": manifest at byte 60",
		} {
			if strings.Count(text, want) != 1 {
				t.Errorf("%s does not say once %q:\n%s", name, want, text)
			}
		}
	}
}

// TestOnlyAWholeSetIsImplied: beside a damaged set, a session must say which split it means.
func TestOnlyAWholeSetIsImplied(t *testing.T) {
	dir := t.TempDir()
	writeSet(t, filepath.Join(dir, "val"), "val", 4, 1)
	if m, ok := startServer(t, dir, nil).ask(openRequest{}).(openedReply); !ok {
		t.Errorf("the only set: %+v", m)
	}
	writeSet(t, filepath.Join(dir, "train"), "train", 4, 1)
	testenv.OK(t, os.Remove(filepath.Join(dir, "train/rank-0000/00000.imgshard")))
	if m, ok := startServer(t, dir, nil).ask(openRequest{}).(errorMessage); !ok {
		t.Errorf("beside a damaged set: %+v", m)
	}
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
			if err == nil || strings.Count(err.Error(), filepath.Join(dir, want)) != 1 {
				t.Errorf("%v does not name %s once", err, want)
			}
		}
	}
	refuses(Config{Rank: 1, World: 3}, "train/rank-0001: partition 1")
	newServer(t, dir, func(c *Config) { c.Rank, c.World = 2, 3 }).Close() // its partition is whole
	testenv.OK(t, os.RemoveAll(filepath.Join(dir, "train")))
	refuses(Config{}, "test/rank-0000: partition 0", "extra/manifest.json")
}

package server

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/loader"
	"github.com/imgfeed/imgfeed/server/status"
)

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
	var st status.Status
	testenv.OK(t, json.Unmarshal(ts.get("/status.json").Body.Bytes(), &st))
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

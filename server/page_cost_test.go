package server

import (
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestPageCost holds what three viewers of the page cost: less than 0.5 % of one core, were it the server's only one. The page asks every two seconds
// for the status with the history that it has not, here of eight sessions. It is CPU time that counts, whatever else the machine does.
func TestPageCost(t *testing.T) {
	const viewers, every, asked = 3, 2 * time.Second, 200
	ts := startServer(t, oneSet(t, 10, 1), nil)
	for range 8 {
		c := ts.dial().hello().open(openRequest{BatchSize: 1, Slots: 2, Rank: of(0), World: of(1)})
		c.send(startRequest{})
		expect[startedReply](c)
		expect[batchMessage](c)
	}
	for k := range historyMoments {
		ts.addMoment(time.Now().Add(time.Duration(k) * time.Second))
	}
	handler := ts.Handler()
	history := ts.Status(0).History
	path := fmt.Sprintf("/status.json?since=%.3f", history[len(history)-3].Time)
	ask := func() {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if w.Code != 200 {
			t.Fatal(w.Code, w.Body)
		}
	}
	ask()
	before := processTime(t)
	for range asked {
		ask()
	}
	each := (processTime(t) - before) / asked
	share := viewers * each.Seconds() / every.Seconds()
	t.Logf("%v of CPU time for an answer: %d viewers take %.3f %% of a core", each, viewers, 100*share)
	if share > 0.005 {
		t.Errorf("%d viewers take %.2f %% of a core", viewers, 100*share)
	}
}

// processTime returns the CPU time that this process has had.
func processTime(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

package server

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestPageCost holds what three viewers of the page cost: less than 0.5 % of one core, were it the server's only one. The page asks every two seconds
// for the status with the history that it has not, here of eight sessions, and every ten for the pictures of the session that is
// opened, whose share is bounded besides. It is CPU time that counts, whatever else the machine does.
func TestPageCost(t *testing.T) {
	const viewers, every, everyPictures, asked = 3, 2 * time.Second, 10 * time.Second, 200
	ts := startServer(t, pixelSet(t, 10, 256), nil)
	for range 8 {
		c := ts.dial().hello().open(openRequest{BatchSize: 5, Slots: 1, Rank: of(0), World: of(1), Transform: json.RawMessage(`"eval"`)})
		c.start(startRequest{})
		expect[batchMessage](c)
	}
	for k := range historyMoments {
		ts.addMoment(time.Now().Add(time.Duration(k) * time.Second))
	}
	handler := ts.Handler()
	history := ts.Status(0).History
	path := fmt.Sprintf("/status.json?since=%.3f", history[len(history)-3].Time)
	ask := func(path string) {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if w.Code != 200 {
			t.Fatal(w.Code, w.Body)
		}
	}
	each := func(path string) time.Duration {
		ask(path)
		least := time.Hour // other programs cost caches, and so time
		for range 3 {
			before := processTime(t)
			for range asked {
				ask(path)
			}
			least = min(least, (processTime(t)-before)/asked)
		}
		return least
	}
	status := each(path)
	before := processTime(t)
	ask("/sessions/1/batch.json")
	made, rest := processTime(t)-before, ts.owed()
	ts.gallery.spend(time.Minute) // so that they are not made again
	kept := each("/sessions/1/batch.json")
	share := viewers*(status.Seconds()/every.Seconds()+kept.Seconds()/everyPictures.Seconds()) + galleryShare
	t.Logf("%v of CPU time for a status, %v for pictures that are there: with the share of those that are made, %.2f %%, %d viewers take %.3f %% of a core",
		status, kept, 100*galleryShare, viewers, 100*share)
	t.Logf("pictures took %v of CPU time, and rest for %v", made, rest)
	if accounted := time.Duration(galleryShare * float64(rest)); accounted < made/2 { // the rest is the garbage collector's and the test's
		t.Errorf("pictures took %v of CPU time, of which %v count", made, accounted)
	}
	if share > 0.005 && !raced {
		t.Errorf("%d viewers take %.2f %% of a core", viewers, 100*share)
	}
}

// owed returns for how long what pictures have taken is not paid for.
func (ts *testServer) owed() time.Duration {
	_, owed := ts.gallery.kept(ts.openSessions()[0])
	return owed
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

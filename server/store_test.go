package server

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/shard/storage"
)

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

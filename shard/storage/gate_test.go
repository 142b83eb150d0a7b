package storage

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

// A counter counts at what time how many requests were in flight, and notes their order.
type counter struct {
	mu      sync.Mutex
	now     int
	most    int
	offsets []int
}

func (c *counter) begin(offset int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now++
	c.most = max(c.most, c.now)
	c.offsets = append(c.offsets, offset)
}

func (c *counter) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now--
}

// readFrom makes requests for bytes 0, 1 … of a storage, so many readers at a time as a queue of readahead has, and returns the time that
// passed.
func readFrom(t *testing.T, at Storage, requests int) time.Duration {
	f := testenv.Must(at.Open("x", 1<<20, ""))(t)
	began := time.Now()
	free, running := sync.NewCond(new(sync.Mutex)), 0
	var all sync.WaitGroup
	for i := range requests {
		free.L.Lock()
		for running >= f.ReadsMax() {
			free.Wait()
		}
		running++
		free.L.Unlock()
		all.Go(func() {
			_, err := f.ReadAt(make([]byte, 1), int64(i))
			testenv.Says(t, i, err, "")
			free.L.Lock()
			running--
			free.L.Unlock()
			free.Signal()
		})
		if f.ReadsMax() < 100 {
			time.Sleep(time.Microsecond) // so that they come in order
		}
	}
	all.Wait()
	return time.Since(began)
}

// offsetOf returns the first byte that a request is for.
func offsetOf(r *http.Request) (offset int) {
	fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &offset)
	return offset
}

// TestSlowStores reads from stores that are slow in several ways: at nine tenths of the rate of each, without repeating a request.
func TestSlowStores(t *testing.T) {
	for name, c := range map[string]struct {
		requests, parallel int
		late               func(answer int) time.Duration
		takes              time.Duration
		ordered            bool
	}{
		"an answer in 0.3 s":         {300, 1, func(int) time.Duration { return 300 * time.Millisecond }, 90 * time.Second, true},
		"an answer in 0.7 s":         {200, 1, func(int) time.Duration { return 700 * time.Millisecond }, 140 * time.Second, true},
		"an answer in 5 s":           {50, 1, func(int) time.Duration { return 5 * time.Second }, 250 * time.Second, true},
		"ten at a time, 3 s":         {400, 10, func(int) time.Duration { return 3 * time.Second }, 120 * time.Second, false},
		"any number, 2 s":            {4000, 1 << 20, func(int) time.Duration { return 2 * time.Second }, 60 * time.Second, false},
		"a link of 30 ms":            {6000, 1 << 20, func(int) time.Duration { return 30 * time.Millisecond }, 500 * time.Millisecond, false},
		"fast, then 0.3 s an answer": {2300, 1, func(n int) time.Duration { return 300 * time.Millisecond * time.Duration(n/2000) }, 90 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			var in counter
			var answers atomic.Int64
			s := &store{files: map[string][]byte{"x": make([]byte, 1<<20)}}
			turn := sync.OnceValue(func() chan bool { return make(chan bool, c.parallel) }) // a channel of the test clock
			onTestClock(t, 5*time.Minute, func(w http.ResponseWriter, r *http.Request) {
				in.begin(offsetOf(r))
				defer in.end()
				turn() <- true // the store does the work for requests that were given up too
				time.Sleep(c.late(int(answers.Add(1))))
				<-turn()
				s.ServeHTTP(w, r)
			}, func(t *testing.T, at Storage) {
				took := readFrom(t, at, c.requests)
				if retries := Default.Counts.Retries.Load(); took > c.takes*10/9 || retries > 0 {
					t.Errorf("%d requests took %v, want %v at most; %d were repeated; %d in flight", c.requests, took, c.takes*10/9, retries, in.most)
				}
				for i, offset := range in.offsets {
					testenv.Check(t, !c.ordered || max(i-offset, offset-i) <= 2*limitFirst, "request %d came as number %d", offset, i)
				}
			})
		})
	}
}

// TestRefusingStore sends a store that refuses more than 40 requests at a time few more than those.
func TestRefusingStore(t *testing.T) {
	const requests = 4000
	var in counter
	s := &store{files: map[string][]byte{"x": make([]byte, 1<<20)}}
	onTestClock(t, 5*time.Minute, func(w http.ResponseWriter, r *http.Request) {
		in.begin(offsetOf(r))
		defer in.end()
		in.mu.Lock()
		busy := in.now > 40
		in.mu.Unlock()
		if time.Sleep(50 * time.Millisecond); busy {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		s.ServeHTTP(w, r)
	}, func(t *testing.T, at Storage) {
		took := readFrom(t, at, requests)
		testenv.Between(t, Default.Counts.Retries.Load(), 1, requests/10, "of %d requests repeated", requests)
		testenv.Between(t, took, 0, 15*time.Second, "time for all")
	})
}

// TestHungStorageIsAlone reads from one folder of a server while requests to another have no answer.
func TestHungStorageIsAlone(t *testing.T) {
	s := &store{files: map[string][]byte{"val/x": make([]byte, 1<<20)}}
	onTestClock(t, time.Minute, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/train/") {
			<-r.Context().Done()
			return
		}
		s.ServeHTTP(w, r)
	}, func(t *testing.T, at Storage) {
		var hung sync.WaitGroup
		train := testenv.Must(At("http://store/train"))(t)
		f := testenv.Must(train.Open("x", 1000, ""))(t)
		for range 2000 {
			hung.Go(func() { testenv.Fails(f.ReadAt(make([]byte, 1), 0))(t, IsDown) })
		}
		time.Sleep(time.Second)
		val := testenv.Must(At("http://store/val"))(t)
		testenv.Between(t, readFrom(t, val, 1000), 0, time.Second, "time for the other folder")
		began := time.Now()
		hung.Wait()
		testenv.Between(t, time.Since(began), 0, time.Minute+stallTimeout, "time until the hung one was given up")
	})
}

package storage

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
	"github.com/imgfeed/imgfeed/internal/testenv"
)

// A memoryCache keeps the bytes of files, by their identity.
type memoryCache map[string][]byte

func (c memoryCache) Cached(f File, _, identity string) File {
	data, kept := c[identity]
	if !kept {
		data = make([]byte, f.Size())
		f.ReadAt(data, 0)
		c[identity] = data
	}
	return memoryFile{f, bytes.NewReader(data)}
}

// A memoryFile is read from memory.
type memoryFile struct {
	File
	data io.ReaderAt
}

func (f memoryFile) ReadAt(p []byte, offset int64) (int, error) { return f.data.ReadAt(p, offset) }

// TestClientsShareNothing reads one file by two clients, of which only one has a cache and a limit.
func TestClientsShareNothing(t *testing.T) {
	s := newStore(t)
	s.files["set/a"] = numbered(100)
	a, b := NewClient(), NewClient()
	a.Cache = memoryCache{}
	a.RequestsMax = 3
	for range 2 {
		for _, c := range []*Client{a, b} {
			at := testenv.Must(c.At(s.URL + "/set"))(t)
			f := testenv.Must(at.Open("a", 100, "identity"))(t)
			testenv.Must(f.ReadAt(make([]byte, 100), 0))(t)
			f.Close()
		}
	}
	testenv.Equal(t, a.Counts.Requests.Load(), 3, "requests, as the version takes one each time")
	testenv.Equal(t, b.Counts.Requests.Load(), 2, "requests of the other client")
	testenv.Check(t, newGate(a).max == 3 && newGate(b).max == requestsFirst && a.web != b.web, "they share a limit or connections")
}

// TestAddresses tells folders from URLs, and shows no secret.
func TestAddresses(t *testing.T) {
	for address, says := range map[string]string{
		"ftp://bucket/x":                  "unknown kind",
		"https://user:secret@host/x":      "no user, password",
		"https://host/x?signature=secret": "no user, password",
		"s3://":                           "bucket is missing",
		"hf://models/o/n":                 "want hf://datasets",
		"https://host/%zzsecret":          "is not a URL",
		"hf://datasets/only":              "want hf://datasets",
	} {
		_, err := At(address)
		testenv.Says(t, address, err, says)
		testenv.Check(t, !strings.Contains(fmt.Sprint(err), "secret"), "%s: %v", address, err)
	}
	for _, path := range []string{"/data/x", "x", "./s3://x", "a/b://c"} {
		at, err := At(path)
		testenv.Check(t, err == nil && !IsRemote(path) && at.String() == path, "%s: %v", path, err)
	}
	testenv.Equal(t, Join("s3://b/set/", "rank-0000/00000.imgshard"), "s3://b/set/rank-0000/00000.imgshard", "joined")
}

// TestSources has indexes reach only what their user named.
func TestSources(t *testing.T) {
	t.Setenv("IMGFEED_URL_QUERY", "signature=secret")
	within(t, time.Minute)
	Default.Sources = []string{"https://cdn/open/", "s3://other"}
	testenv.Must(At("https://a/sets"))(t)
	for _, c := range []struct {
		address, index string
		reached        bool
	}{
		{"https://a/images", "https://a/sets/index", true},
		{"http://a/images", "https://a/sets/index", false},
		{"https://a:444/images", "https://a/sets/index", false},
		{"https://b/images", "https://a/sets/index", false},
		{"https://cdn/closed", "https://a/sets/index", false},
		{"https://cdn/opened", "https://a/sets/index", false},
		{"https://cdn/open/../closed", "https://a/sets/index", false},
		{"https://cdn/open/%2e%2e/closed", "https://a/sets/index", false},
		{"s3://bucket/images", "s3://bucket/index", true},
		{"s3://bucket2/images", "s3://bucket/index", false},
		{"s3://other/images", "s3://bucket/index", true},
		{"gs://bucket/images", "s3://bucket/index", false},
		{"/etc", "s3://bucket/index", false},
		{"/images", "/index", true},
		{"https://b/images", "/index", true},
		{"s3://bucket/images", "/index", true},
		{"https://user:secret@b/images", "/index", false},
	} {
		s, err := Default.source(c.address, c.index)
		testenv.Check(t, (err == nil) == c.reached && (err == nil || !strings.Contains(err.Error(), "secret")),
			"%s from %s: %v", c.address, c.index, err)
		if r, is := s.(*remote); is && strings.HasPrefix(c.address, "https://b/") && (r.objects.(*web).query != "" || !r.objects.(*web).withheld) {
			t.Errorf("%s gets the query", c.address)
		}
	}
	_, err := At("https://b/sets")
	testenv.Check(t, err != nil && !strings.Contains(err.Error(), "secret"), "another host gets the query: %v", err)
}

// A claimCache notes by which identities files are kept.
type claimCache []string

func (c *claimCache) Cached(f File, _, identity string) File {
	*c = append(*c, identity)
	return f
}

// TestCacheKnowsOrigins keeps files with one claimed identity apart: those of two servers, of two endpoints of one bucket's name, and of two
// versions at one URL. A file that has not changed stays the same.
func TestCacheKnowsOrigins(t *testing.T) {
	within(t, time.Minute)
	var seen claimCache
	Default.Cache = &seen
	for range 2 {
		s := newStore(t)
		for _, at := range s.storages(t) {
			for _, data := range [][]byte{numbered(100), numbered(100), numbered(101)[1:]} {
				s.files["bucket/set/a"] = data
				testenv.Must(at.Open("a", 100, "claimed"))(t)
			}
		}
	}
	different := map[string]bool{}
	for i, identity := range seen {
		different[identity] = true
		testenv.Check(t, i%3 != 1 || identity == seen[i-1], "one file is kept as %q and as %q", seen[max(i-1, 0)], identity)
	}
	testenv.Check(t, len(seen) == 12 && len(different) == 8, "%d identities of %d files: %q", len(different), len(seen), seen)
}

// TestCredentialsAreReadOnceForAll has two requests of one client refused. The second failure comes once the credentials were read anew: it
// leaves the new client alone.
func TestCredentialsAreReadOnceForAll(t *testing.T) {
	old, renewed := &s3.Client{}, &s3.Client{}
	b := &bucket{client: old}
	expired := &smithy.GenericAPIError{Code: "ExpiredToken"}
	b.fault(old, expired)
	testenv.Check(t, b.client == nil, "the client with expired credentials is used again")
	b.client = renewed
	b.fault(old, expired)
	testenv.Check(t, b.client == renewed, "renewed credentials are read once more")
}

// TestOpeningEndsForGood has answers come while an opening ends: its time stays stopped.
func TestOpeningEndsForGood(t *testing.T) {
	c := NewClient()
	c.Timeout = time.Hour
	for range 200 {
		o := c.Opening()
		o.Steps()
		var answers sync.WaitGroup
		begun := make(chan struct{})
		answers.Go(func() {
			close(begun)
			for !o.over.Load() {
				o.answered()
			}
		})
		<-begun
		o.End()
		answers.Wait()
		testenv.Require(t, !o.timer.Stop(), "an answer has begun the time of an opening that was over")
	}
}

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
		testenv.Between(t, readFrom(t, testenv.Must(At("http://store/val"))(t), 1000), 0, time.Second, "time for the other folder")
		began := time.Now()
		hung.Wait()
		testenv.Between(t, time.Since(began), 0, time.Minute+stallTimeout, "time until the hung one was given up")
	})
}

package shard

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/shard/source/sourcetest"
	"github.com/imgfeed/imgfeed/shard/storage"
	"github.com/imgfeed/imgfeed/shard/storage/cache"
)

// TestRemoteSet reads a set from a web server as from its folder, with three requests a shard before its records.
func TestRemoteSet(t *testing.T) {
	dir := filepath.Join(goldenV1, "train-shards")
	var requests atomic.Int64
	files := http.FileServer(http.Dir(filepath.Dir(dir)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		files.ServeHTTP(w, r)
	}))
	defer server.Close()
	url := server.URL + "/" + filepath.Base(dir)
	local, set := openSet(t, dir), openSet(t, url)
	testenv.Between(t, requests.Load(), 1, int64(1+3*len(set.Manifest().Shards)), "requests that open the set")
	testenv.Check(t, set.Dir() == url && reflect.DeepEqual(set.Manifest(), local.Manifest()), "%s: %+v", set.Dir(), set.Manifest())
	testenv.OK(t, sameAs(local, url))
	for i := range local.Len() {
		key := testenv.Must(set.Key(i))(t)
		testenv.Equal(t, testenv.Must(set.Find(key))(t), i, "index of %s", key)
	}
	testenv.Says(t, "mapped", set.Map(), errors.ErrUnsupported)
	verified(t, url, local.Len())
	testenv.Fails(FindAll(server.URL))(t, ErrNotSet)
	testenv.Fails(FindAll(server.URL))(t, "name the set's own")
}

// TestRemoteSetsFound finds the sets of the usual splits below a URL, and names a shard that is missing there.
func TestRemoteSetsFound(t *testing.T) {
	dir := t.TempDir()
	for _, split := range []string{"train", "val"} {
		options := testOptions(1)
		options.Split = split
		testenv.OK(t, os.CopyFS(filepath.Join(dir, split), os.DirFS(writeSet(t, makeSamples(20), options))))
	}
	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	defer server.Close()
	found, err := FindAll(server.URL)
	testenv.Require(t, err == nil && found.Sets["train"] == server.URL+"/train" && found.Sets["val"] == server.URL+"/val",
		"%+v, %v", found, err)
	lost := "rank-0000/00000.imgshard"
	testenv.OK(t, os.Remove(filepath.Join(dir, "val", lost)))
	testenv.Fails(OpenSet(server.URL+"/val"))(t, server.URL+"/val/"+lost+" is missing")
}

// TestHungStoreIsAskedOnce looks for sets in a store that trickles, which ends with the first request: neither the usual splits are tried, nor
// is the store said to hold no set.
func TestHungStoreIsAskedOnce(t *testing.T) {
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		w.Write([]byte("{"))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	defer server.Close()
	client := storage.NewClient()
	client.Timeout = 200 * time.Millisecond
	_, err := FindIn(client, server.URL)
	testenv.Check(t, storage.IsDown(err) && !errors.Is(err, ErrNotSet) && requests.Load() == 1, "%v after %d requests", err, requests.Load())
}

// TestRemoteSetWithDamagedCache reads a set again from the server where the cache's bytes are wrong.
func TestRemoteSetWithDamagedCache(t *testing.T) {
	samples := makeSamples(40)
	for i := range samples {
		samples[i].Image = append(samples[i].Image, make([]byte, 300)...) // the cache keeps shorter ones only in part
	}
	options := testOptions(2)
	options.ShardSamples = 10
	dir, cached := writeSet(t, samples, options), t.TempDir()
	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	defer server.Close()
	ownClient(t)
	local := openSet(t, dir)
	for _, step := range []string{"empty", "full", "damaged", "full again"} {
		cache := testenv.Must(cache.Open(cached, 1<<30))(t)
		storage.Default.Cache = cache
		if step == "damaged" {
			sourcetest.Flip(t, filepath.Join(cached, "*.kept"), 50, 100)
		}
		testenv.OK(t, sameAs(local, server.URL), "%s", step)
		testenv.Equal(t, cache.MissBytes.Load() == 0, strings.HasPrefix(step, "full"), "%s: nothing came from the server", step)
		cache.Close()
	}
}

// ownClient gives the test a client of its own.
func ownClient(t *testing.T) {
	before := storage.Default
	t.Cleanup(func() { storage.Default = before })
	storage.Default = storage.NewClient()
}

// sameAs compares all samples and keys of the set at a URL with those of another.
func sameAs(want *Set, url string) error {
	set, err := OpenSet(url)
	if err != nil {
		return err
	}
	defer set.Close()
	for i := range want.Len() {
		sample, _, _ := want.Read(i, nil)
		got, _, err := set.Read(i, nil)
		if err == nil && !reflect.DeepEqual(got, sample) {
			err = fmt.Errorf("sample %d is another", i)
		}
		key, keyErr := set.Key(i)
		if wantKey, _ := want.Key(i); keyErr == nil && key != wantKey {
			keyErr = fmt.Errorf("key %d is %q, want %q", i, key, wantKey)
		}
		if err := errors.Join(err, keyErr); err != nil {
			return err
		}
	}
	return nil
}

// TestHalfSyncedSet opens a set of which the manifest is new and the shards are still those of another build, with a cache. Once the shards
// have come too, it is read.
func TestHalfSyncedSet(t *testing.T) {
	samples := makeSamples(20)
	old := writeSet(t, samples, testOptions(1))
	samples[3].Image[0]++
	fresh := writeSet(t, samples, testOptions(1))
	synced := t.TempDir()
	server := httptest.NewServer(http.FileServer(http.Dir(synced)))
	defer server.Close()
	cache := testenv.Opened(cache.Open(t.TempDir(), 1<<30))(t)
	ownClient(t)
	storage.Default.Cache = cache
	testenv.OK(t, os.CopyFS(synced, os.DirFS(old)))
	manifest := testenv.Must(os.ReadFile(filepath.Join(fresh, manifestName)))(t)
	testenv.OK(t, os.WriteFile(filepath.Join(synced, manifestName), manifest, 0o600))
	for range 2 {
		testenv.Says(t, "half of it", sameAs(openSet(t, fresh), server.URL), "another build's")
	}
	testenv.OK(t, errors.Join(os.RemoveAll(synced), os.CopyFS(synced, os.DirFS(fresh))))
	testenv.OK(t, sameAs(openSet(t, fresh), server.URL), "all of it")
}

// A flipper serves a folder, and changes a byte of the answers to some requests, counted from 0.
type flipper struct {
	http.Handler
	requests atomic.Int64
	flip     func(request int) bool
}

func (f *flipper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := int(f.requests.Add(1)) - 1
	answer := httptest.NewRecorder()
	f.Handler.ServeHTTP(answer, r)
	for name, values := range answer.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.Code)
	body := answer.Body.Bytes()
	if f.flip(n) && answer.Code < 300 {
		body[len(body)/2] ^= 0x55
	}
	w.Write(body)
}

// TestOneWrongAnswer reads a set though the body of an answer is wrong, whichever it is, with a cache and without one. Two wrong ones for the same range are an error.
func TestOneWrongAnswer(t *testing.T) {
	samples := makeSamples(20)
	local := openSet(t, writeSet(t, samples, testOptions(1)))
	server := flipper{Handler: http.FileServer(http.Dir(local.Dir()))}
	web := httptest.NewServer(&server)
	defer web.Close()
	ownClient(t)
	read := func() error {
		server.requests.Store(0)
		return sameAs(local, web.URL)
	}
	for _, cached := range []bool{false, true} {
		for wrong, more := 0, true; more; wrong++ {
			if cached {
				cache := testenv.Opened(cache.Open(t.TempDir(), 1<<30))(t)
				storage.Default.Cache = cache
			}
			server.flip = func(n int) bool { return n == wrong }
			testenv.OK(t, read(), "answer %d is wrong, cache %v", wrong, cached)
			more = int(server.requests.Load()) > wrong
			storage.Default.Cache = nil
		}
	}
	server.flip = func(int) bool { return true }
	err := read()
	testenv.Check(t, err != nil && server.requests.Load() == 2, "%v after %d requests", err, server.requests.Load())
}

// A wrongFile answers Fetch with an error or with wrong bytes.
type wrongFile struct {
	storage.File
	err error
}

func (f wrongFile) Fetch(buf []byte, _, length int64) ([]byte, error) {
	clear(buf)
	return buf[:length], f.err
}

// TestFetchAndCheck fetches from a folder. Wrong bytes, those that could not be read, and what a store refuses are errors that name the record,
// and another Fetch gives the right bytes.
func TestFetchAndCheck(t *testing.T) {
	set := openSet(t, writeSet(t, makeSamples(5), testOptions(1)))
	buf := make([]byte, 1<<20)
	fetch := func(i int) (Record, error) {
		bytes, err := set.Fetch(i, buf)
		return set.Check(i, bytes, err)
	}
	for i := range set.Len() {
		want, _ := testenv.Must2(set.Read(i, nil))(t)
		r, _ := testenv.Must2(set.reader(i))(t)
		file := r.file
		for _, fetchErr := range []error{nil, errors.New("EIO")} {
			r.file = wrongFile{file, fetchErr}
			_, err := fetch(i)
			testenv.Check(t, err != nil && !errors.Is(err, fs.ErrPermission), "sample %d: %v", i, err)
		}
		r.file = wrongFile{file, &storage.RemoteError{Err: errors.New("denied"), Status: http.StatusForbidden}}
		_, err := fetch(i)
		failed := testenv.As[*ReadError](t, err)
		testenv.Check(t, failed.Index == i && failed.Offset == want.Offset && errors.Is(err, fs.ErrPermission), "sample %d: %v", i, err)
		r.file = file
		got, err := fetch(i)
		testenv.Check(t, err == nil && reflect.DeepEqual(got, want), "sample %d: %v", i, err)
	}
}

// TestInterruptedVerifyFindsNoDamage ends a verification of a set on a web server while a shard is read.
func TestInterruptedVerifyFindsNoDamage(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	files := http.FileServer(http.Dir(goldenV1))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, ".imgshard") {
			cancel()
		}
		files.ServeHTTP(w, r)
	}))
	defer server.Close()
	storage.Default.Context = ctx
	defer func() { storage.Default.Context = context.Background() }()
	problem := func(err error) { t.Errorf("told: %v", err) }
	testenv.Fails(Verify(ctx, server.URL+"/train-shards", VerifyOptions{Problem: problem}))(t, context.Canceled)
}

package shard

import (
	"bytes"
	"context"
	"encoding/binary"
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

	"github.com/imgfeed/imgfeed/internal/crc32c"
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
	testenv.OK(t, os.WriteFile(filepath.Join(synced, manifestName), testenv.Must(os.ReadFile(filepath.Join(fresh, manifestName)))(t), 0o600))
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
		testenv.DeepEqual(t, testenv.Must(fetch(i))(t), want, "sample %d", i)
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

// writeIndex writes an index of one image, which it says to be a file of a source.
func writeIndex(t testing.TB, source, name string, image []byte, object storage.Object) string {
	t.Helper()
	dir, options := filepath.Join(t.TempDir(), "index"), testOptions(1)
	options.Source = source
	w := testenv.Must(NewSetWriter(dir, options))(t)
	defer w.Abort()
	testenv.Must(w.AddObject(IndexObject{Path: name, Object: object}))(t)
	sample := makeSamples(1)[0]
	sample.Image, sample.Outside = nil, OutsideOf(image)
	testenv.OK(t, w.Append(sample))
	testenv.Must(w.Commit())(t)
	return dir
}

// TestIndexOfAStranger reads no file outside the source, and over a network none of another host or of this machine, unless the user says so.
func TestIndexOfAStranger(t *testing.T) {
	image, dir := bytes.Repeat([]byte("secret"), 50), t.TempDir()
	testenv.OK(t, os.MkdirAll(filepath.Join(dir, "source", "below"), 0o700))
	for _, name := range []string{"outside", "source/inside", "source/below/inside"} {
		testenv.OK(t, os.WriteFile(filepath.Join(dir, name), image, 0o600))
	}
	ownClient(t)
	web := httptest.NewServer(http.FileServer(http.Dir(dir)))
	defer web.Close()
	read := func(url string) error {
		set, err := OpenSet(url)
		if err != nil {
			return err
		}
		defer set.Close()
		record, _, err := set.Read(0, nil)
		testenv.Check(t, err != nil || bytes.Equal(record.Image, image), "another image is read")
		return err
	}
	for name, is := range map[string]bool{"inside": true, "below/inside": true, "../outside": false, "below/../../outside": false, filepath.Join(dir, "outside"): false} {
		for _, source := range []string{filepath.Join(dir, "source"), web.URL + "/source"} {
			at := testenv.Must(storage.At(source))(t)
			object := storage.Object{Bytes: int64(len(image))}
			if is {
				object = testenv.Must(at.Stat(name))(t)
			} else if info, err := os.Stat(filepath.Join(dir, "outside")); err == nil && !storage.IsRemote(source) {
				object, _ = storage.NewFolder(dir).Stat(info.Name())
			}
			err := read(writeIndex(t, source, name, image, object))
			testenv.Check(t, (err == nil) == is && (err == nil || strings.Contains(err.Error(), "does not lie below "+source)),
				"%s below %s: %v", name, source, err)
		}
	}
	for _, source := range []string{filepath.Join(dir, "source"), web.URL + "/source"} {
		at, _ := storage.At(source)
		object := testenv.Must(at.Stat("inside"))(t)
		index := httptest.NewServer(http.FileServer(http.Dir(writeIndex(t, source, "inside", image, object))))
		defer index.Close()
		err := read(index.URL)
		testenv.Says(t, source, err, "may use only its own host")
		testenv.Says(t, source, err, "--allow-source")
		storage.Default.Sources = []string{source}
		err = read(index.URL)
		testenv.Check(t, (err == nil) == storage.IsRemote(source), "images in %s, which is allowed: %v", source, err)
		storage.Default.Sources = nil
	}
}

// TestOneWrongAnswerOfAnIndex reads an index and its images though one answer is wrong, whichever it is.
func TestOneWrongAnswerOfAnIndex(t *testing.T) {
	image, dir := bytes.Repeat([]byte("image"), 50), t.TempDir()
	testenv.OK(t, os.WriteFile(filepath.Join(dir, "image"), image, 0o600))
	server := flipper{Handler: http.FileServer(http.Dir(dir)), flip: func(int) bool { return false }}
	web := httptest.NewServer(&server)
	defer web.Close()
	at := testenv.Must(storage.At(web.URL))(t)
	object := testenv.Must(at.Stat("image"))(t)
	testenv.OK(t, os.CopyFS(filepath.Join(dir, "index"), os.DirFS(writeIndex(t, web.URL, "image", image, object))))
	for wrong := 0; ; wrong++ {
		server.requests.Store(0)
		server.flip = func(n int) bool { return n == wrong }
		set, err := OpenSet(web.URL + "/index")
		testenv.OK(t, err, "answer %d is wrong", wrong)
		record, _, err := set.Read(0, nil)
		testenv.OK(t, err, "answer %d is wrong", wrong)
		testenv.Same(t, record.Image, image, "answer %d is wrong: image", wrong)
		set.Close()
		if int(server.requests.Load()) <= wrong {
			return
		}
	}
}

// FuzzIndexTable opens any bytes as a file of an index, whose table says where each image lies; with sign, what the manifest says and the
// checksums are made to fit first. Of an accepted table each byte of the shard must be of one image, of the file, or a zero.
func FuzzIndexTable(f *testing.F) {
	dir := writeIndex(f, "/source", "a.jpg", bytes.Repeat([]byte("image"), 30), storage.Object{Bytes: 150})
	data := testenv.Must(os.ReadFile(filepath.Join(dir, shardPath(0, 0))))(f)
	for _, sign := range []bool{false, true} {
		f.Add(data, uint32(1), sign)
		f.Add(data[:len(data)-1], uint32(1), sign)
		f.Add(data[len(data)-locationSize-trailerSize:], uint32(1), sign)
		far := bytes.Clone(data) // The image would end behind the largest number.
		binary.LittleEndian.PutUint64(far[len(far)-locationSize-trailerSize:], 1<<63-1)
		f.Add(far, uint32(1), sign)
	}
	f.Fuzz(func(t *testing.T, data []byte, samples uint32, sign bool) {
		size, samples := int64(len(data)), samples%1000
		info := &ShardInfo{Samples: int(samples), Index: &ShardIndex{Bytes: size}}
		if table := size - trailerSize - locationSize*int64(samples); sign && table >= 0 {
			data = bytes.Clone(data)
			end := data[size-trailerSize:]
			le := binary.LittleEndian
			copy(end, magicIndex)
			le.PutUint32(end[8:], uint32(version1))
			le.PutUint32(end[12:], samples)
			info.Bytes, info.Index.Tail = int64(le.Uint64(end[16:])), int64(le.Uint64(end[40:]))
			le.PutUint32(end[trailerCRCAt-4:], crc32c.Checksum(data[table:size-trailerSize]))
			le.PutUint32(end[trailerCRCAt:], crc32c.Checksum(end[:trailerCRCAt]))
		}
		x := &indexedFile{set: &indexedStorage{objects: &objectLines{starts: make([]uint32, 2)}}, File: memoryFile{Reader: bytes.NewReader(data)}}
		if x.openTable(info) != nil {
			return
		}
		for at, pieces := int64(0), 0; at < x.Length; pieces++ {
			length, image, from := x.piece(at)
			testenv.Require(t, length > 0 && length <= x.Length-at && pieces <= 3*int(samples)+3,
				"a piece of %d bytes at %d of %d", length, at, x.Length)
			if image != nil && (at < image.at || at-image.at+length > int64(image.length)) || image == nil && from > max(size-length, -1) {
				t.Fatalf("%d bytes at %d are of %+v, or at %d of a file of %d", length, at, image, from, size)
			}
			at += length
		}
	})
}

// TestObjectLines looks up every object of a list.
func TestObjectLines(t *testing.T) {
	const n = 1000
	dir := t.TempDir() + "/index"
	w := testenv.Must(NewSetWriter(dir, SetOptions{Split: "train", Encoding: Encoding{Name: "jpeg"}, Source: "/data"}))(t)
	defer w.Abort()
	object := func(i int) IndexObject {
		return IndexObject{Path: fmt.Sprint("ä/", strings.Repeat("n", i%50), i), Object: storage.Object{Bytes: int64(i), Version: "v"}}
	}
	for i := range n {
		testenv.Equal(t, testenv.Must(w.AddObject(object(i)))(t), i, "index of an object")
	}
	m := testenv.Must(w.Commit())(t)
	l := testenv.Must(readObjects(storage.NewFolder(dir), m.Index.SHA256))(t)
	testenv.Equal(t, len(l.starts), n, "lines")
	for i := range n {
		testenv.Equal(t, testenv.Must(l.at(uint32(i)))(t), object(i), "object %d", i)
	}
}

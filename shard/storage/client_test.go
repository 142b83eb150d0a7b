package storage

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
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

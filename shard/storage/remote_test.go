package storage

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

// A store is a web server of files that answers the next requests as faults say, and counts all of them. It speaks as much of S3 as reading takes.
type store struct {
	*httptest.Server
	files map[string][]byte

	mu       sync.Mutex
	faults   []http.HandlerFunc
	requests []string // method, path and range
}

func newStore(t *testing.T) *store {
	s := &store{files: map[string][]byte{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests = append(s.requests, r.URL.Path+" "+r.Header.Get("Range"))
	var fault http.HandlerFunc
	if len(s.faults) > 0 {
		fault, s.faults = s.faults[0], s.faults[1:]
	}
	data, there := s.files[strings.TrimPrefix(r.URL.Path, "/")]
	s.mu.Unlock()
	w.Header().Set("X-Request-Id", "id-7")
	w.Header().Set("X-Amz-Request-Id", "id-7")
	switch {
	case fault != nil:
		fault(w, r)
	case r.URL.Query().Get("list-type") == "2":
		s.list(w, r)
	case !there:
		http.Error(w, "<Error><Code>NoSuchKey</Code><Message>it is not there</Message></Error>", http.StatusNotFound)
	default:
		w.Header().Set("ETag", fmt.Sprintf(`"%x"`, data[:min(8, len(data))]))
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
	}
}

// list answers ListObjectsV2, two names a page.
func (s *store) list(w http.ResponseWriter, r *http.Request) {
	var answer struct {
		XMLName               xml.Name `xml:"ListBucketResult"`
		IsTruncated           bool
		NextContinuationToken string
		Contents              []struct {
			Key, ETag string
			Size      int
		}
		CommonPrefixes []struct{ Prefix string }
	}
	prefix := strings.TrimPrefix(r.URL.Path, "/") + "/" + r.URL.Query().Get("prefix")
	seen := map[string]bool{}
	for key := range s.files {
		if rest, is := strings.CutPrefix(key, prefix); is {
			folder, _, deeper := strings.Cut(rest, "/")
			if deeper {
				folder += "/"
			}
			seen[r.URL.Query().Get("prefix")+folder] = true
		}
	}
	var names []string
	for n := range seen {
		if n > r.URL.Query().Get("continuation-token") {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	for i, n := range names {
		if i == 2 {
			answer.IsTruncated, answer.NextContinuationToken = true, names[1]
			break
		}
		if strings.HasSuffix(n, "/") {
			answer.CommonPrefixes = append(answer.CommonPrefixes, struct{ Prefix string }{n})
		} else {
			answer.Contents = append(answer.Contents, struct {
				Key, ETag string
				Size      int
			}{n, "tag", len(s.files[prefix[:len(prefix)-len(r.URL.Query().Get("prefix"))]+n])})
		}
	}
	xml.NewEncoder(w).Encode(answer)
}

// fail has the next requests fail, one after the other.
func (s *store) fail(faults ...http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults, s.requests = faults, nil
}

func (s *store) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(code) }
}

// cut answers a range with its first bytes only, and breaks the connection.
func cut(data []byte, from, to int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", fmt.Sprintf(`"%x"`, data[:8]))
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to-1, len(data)))
		w.Header().Set("Content-Length", fmt.Sprint(to-from))
		w.WriteHeader(http.StatusPartialContent)
		w.Write(data[from : from+(to-from)/2])
		w.(http.Flusher).Flush()
		conn, _, _ := w.(http.Hijacker).Hijack()
		conn.(*net.TCPConn).SetLinger(0)
		conn.Close()
	}
}

// refuse answers as S3 does.
func refuse(code int, name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(code)
		fmt.Fprintf(w, "<Error><Code>%s</Code><Message>no</Message></Error>", name)
	}
}

// within gives requests so long.
func within(t *testing.T, timeout time.Duration) {
	before := Default
	Default = NewClient()
	Default.Timeout = timeout
	t.Cleanup(func() { Default = before })
}

// storages returns the store's folder as a web server's and as a bucket's.
func (s *store) storages(t *testing.T) map[string]Storage {
	for name, value := range map[string]string{"AWS_ENDPOINT_URL": s.URL, "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "r",
		"AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null", "HF_ENDPOINT": s.URL, "HF_TOKEN": "token"} {
		t.Setenv(name, value)
	}
	all := map[string]Storage{}
	for kind, address := range map[string]string{"http": s.URL + "/bucket/set", "s3": "s3://bucket/set"} {
		all[kind] = testenv.Must(At(address))(t)
	}
	return all
}

func numbered(n int) []byte {
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(i*7 + i>>8)
	}
	return data
}

// TestRemoteReads reads ranges of an object whatever the first answers are.
func TestRemoteReads(t *testing.T) {
	within(t, time.Minute)
	data := numbered(100_000)
	s := newStore(t)
	s.files["bucket/set/rank-0000/a"] = data
	for kind, at := range s.storages(t) {
		for name, faults := range map[string][]http.HandlerFunc{
			"none": nil,
			"busy": {status(503), status(500), status(429)},
			// Credentials are renewed, and a clock is set.
			"S3's own":             {refuse(400, "ExpiredToken"), refuse(403, "RequestTimeTooSkewed"), refuse(503, "SlowDown")},
			"broken off twice":     {cut(data, 10_000, 20_000), cut(data, 15_000, 20_000)},
			"no answer":            {func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) }},
			"another range":        {cut(data, 11_000, 20_000)},
			"a body that is short": {func(w http.ResponseWriter, r *http.Request) { cut(data, 10_000, 20_000)(w, r) }, status(502)},
		} {
			if name == "S3's own" && kind != "s3" {
				continue
			}
			t.Run(kind+" "+name, func(t *testing.T) {
				f := testenv.Opened(at.Open("rank-0000/a", int64(len(data)), ""))(t)
				s.fail(faults...)
				got := make([]byte, 10_000)
				testenv.Must(f.ReadAt(got, 10_000))(t)
				testenv.Same(t, got, data[10_000:20_000], "the range")
				asked := s.asked()
				testenv.Equal(t, len(asked), len(faults)+1, "requests %q", asked)
				testenv.Check(t, name != "broken off twice" || strings.Contains(asked[2], "bytes=17500-19999"),
					"the third request begins elsewhere: %q", asked)
			})
		}
	}
}

// TestRemoteRefusals ends at once where another try would not help, and names the object, the range, the request and the way on.
func TestRemoteRefusals(t *testing.T) {
	within(t, time.Minute)
	data := numbered(50_000)
	s := newStore(t)
	s.files["bucket/set/a"] = data
	whole := func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("Range")
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
	}
	for kind, at := range s.storages(t) {
		for name, c := range map[string]struct {
			file  string
			size  int64
			fault http.HandlerFunc
			is    error
			says  []string
		}{
			"missing":       {"b", 50_000, nil, fs.ErrNotExist, []string{"/set/b, bytes 10000 to 19999", "request id-7"}},
			"denied":        {"a", 50_000, status(403), fs.ErrPermission, []string{"check the credentials", "request id-7"}},
			"another size":  {"a", 40_000, nil, ErrReplaced, []string{"50000 bytes, where 40000 are expected"}},
			"no ranges":     {"a", 50_000, whole, errNoRanges, []string{"answers range requests", "the listing of a folder"}},
			"other content": {"a", 50_000, cut(numbered(50_000)[1:], 10_000, 20_000), ErrReplaced, nil},
		} {
			t.Run(kind+" "+name, func(t *testing.T) {
				f := testenv.Must(at.Open(c.file, c.size, ""))(t)
				s.fail()
				if name == "other content" {
					testenv.Must(f.ReadAt(make([]byte, 10), 0))(t)
				}
				if c.fault != nil {
					s.fail(c.fault)
				}
				_, err := f.ReadAt(make([]byte, 10_000), 10_000)
				testenv.Require(t, errors.Is(err, c.is), "%v, want %v", err, c.is)
				testenv.Contains(t, err.Error(), c.says...)
				requests := len(s.asked())
				testenv.Check(t, name == "other content" || requests == 1, "%d requests, want 1", requests)
			})
		}
	}
}

// TestUploadCancelledAtItsBegin cancels an upload before the bucket has named it.
func TestUploadCancelledAtItsBegin(t *testing.T) {
	s := newStore(t)
	objects := s.storages(t)["s3"].(*remote).objects.(uploader)
	ctx, cancel := context.WithCancel(t.Context())
	var aborted string
	s.fail(func(w http.ResponseWriter, r *http.Request) {
		cancel()
		select {
		case <-r.Context().Done(): // the client has left
		case <-time.After(50 * time.Millisecond):
		}
		io.WriteString(w, "<InitiateMultipartUploadResult><UploadId>7</UploadId></InitiateMultipartUploadResult>")
	}, func(w http.ResponseWriter, r *http.Request) {
		aborted = r.Method + r.URL.Query().Get("uploadId")
		w.WriteHeader(http.StatusNoContent)
	})
	err := objects.put(ctx, "name", "", bytes.NewReader(make([]byte, partBytes+1)))
	testenv.Check(t, err != nil && aborted == "DELETE7", "%v; then the upload was ended by %q, want DELETE7", err, aborted)
}

// TestRemoteTimeout repeats requests to a host that nobody knows, or that refuses them, until the time is over, and ends with the process
// at once.
func TestRemoteTimeout(t *testing.T) {
	for _, fault := range []error{syscall.ECONNREFUSED, &net.DNSError{Err: "no such host", Name: "store"}} {
		synctest.Test(t, func(t *testing.T) {
			const timeout = time.Minute
			within(t, timeout)
			Default.web.Transport.(*http.Transport).DialContext = func(context.Context, string, string) (net.Conn, error) { return nil, fault }
			at := testenv.Must(At("http://store/set"))(t)
			_, err := at.ReadFile("manifest.json", 100, nil)
			failed := testenv.As[*RemoteError](t, err, "--store-timeout")
			testenv.Require(t, failed.Tries >= 2 && failed.After == timeout && errors.Is(failed.Err, fault), "%v", err)
			ctx, cancel := context.WithCancel(t.Context())
			Default.Context, Default.Timeout = ctx, time.Hour
			began := time.Now()
			time.AfterFunc(2*timeout, cancel)
			_, err = at.ReadFile("manifest.json", 100, nil)
			testenv.Require(t, errors.Is(err, context.Canceled) && time.Since(began) == 2*timeout, "%v", err)
		})
	}
}

// TestRemoteUntrusted names a host that nobody vouches for at once.
func TestRemoteUntrusted(t *testing.T) {
	within(t, time.Minute)
	untrusted := httptest.NewTLSServer(newStore(t))
	untrusted.Config.ErrorLog = log.New(io.Discard, "", 0)
	defer untrusted.Close()
	at := testenv.Must(At(untrusted.URL))(t)
	_, err := at.ReadFile("manifest.json", 100, nil)
	testenv.Equal(t, testenv.As[*RemoteError](t, err, "certificate").Tries, 1, "tries")
}

// TestRemoteNames lists folders of a bucket page by page.
func TestRemoteNames(t *testing.T) {
	s := newStore(t)
	for _, name := range []string{"manifest.json", "rank-0000/0", "rank-0001/0", "rank-0002/0", "z"} {
		s.files["bucket/set/"+name] = []byte("x")
	}
	all := s.storages(t)
	names := testenv.Must(all["s3"].Names(""))(t)
	slices.Sort(names)
	testenv.Equal(t, strings.Join(names, " "), "manifest.json rank-0000/ rank-0001/ rank-0002/ z", "names")
	files := testenv.Must(all["s3"].(Lister).List(""))(t)
	testenv.Check(t, slices.Contains(files, Listed{"z", Object{1, "tag"}}), "%v", files)
	testenv.Fails(all["http"].Names(""))(t, errors.ErrUnsupported)
	testenv.Fails(all["s3"].ReadFile("z", 0, nil))(t, ErrTooLarge)
}

// replaced is a storage whose object is another one at each request, and has no version to ask for before the first answer. It answers
// only once so many requests have come.
type replaced struct {
	came sync.WaitGroup
	mu   sync.Mutex
	next byte // version and content of the next answer
}

func (r *replaced) origin(string) string { return "" }

func (r *replaced) get(_ context.Context, _ string, _, length int64, version string) (*object, error) {
	r.came.Done()
	r.came.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next++
	if version != "" {
		return nil, errors.New("a request came after the first answer")
	}
	body := io.NopCloser(bytes.NewReader(bytes.Repeat([]byte{r.next}, int(length))))
	return &object{body: body, size: length, version: string('a' + r.next)}, nil
}

// TestFirstAnswersOfTwoObjects reads a file by several requests at once, while it is replaced: one object is read, and the others are errors.
func TestFirstAnswersOfTwoObjects(t *testing.T) {
	const readers = 4
	objects := &replaced{}
	objects.came.Add(readers)
	c := NewClient()
	f := &remoteFile{remote: &remote{client: c, address: "s3://b", objects: objects, gate: newGate(c), outage: outage{client: c}}, name: "x", size: -1}
	var read [readers][]byte
	var running sync.WaitGroup
	for i := range readers {
		running.Go(func() {
			p := make([]byte, 8)
			if _, err := f.ReadAt(p, 0); err == nil {
				read[i] = p
			} else if !errors.Is(err, ErrReplaced) {
				t.Error(err)
			}
		})
	}
	running.Wait()
	var whole []byte
	for _, p := range read {
		whole = append(whole, p...)
	}
	testenv.Check(t, len(whole) == 8 && f.version == string('a'+whole[0]), "read %v, and the file is of version %s", read, f.version)
}

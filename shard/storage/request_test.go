package storage

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

// logged has the test's log in a buffer.
func logged(t *testing.T) (text func() string) {
	var mu sync.Mutex
	var buf bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(writerFunc(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return buf.Write(p)
	}), nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		return buf.String()
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// onTestClock has http://store answered in this process, on synctest's clock: what comes late there is late by the code, not by other
// work of the machine.
func onTestClock(t *testing.T, timeout time.Duration, answer http.HandlerFunc, run func(t *testing.T, at Storage)) {
	synctest.Test(t, func(t *testing.T) {
		within(t, timeout)
		l := pipes{make(chan net.Conn), make(chan struct{})}
		Default.web.Transport.(*http.Transport).DialContext = l.dial
		server := &http.Server{Handler: answer}
		go server.Serve(l)
		at := testenv.Must(At("http://store"))(t)
		run(t, at)
		server.Close()
	})
}

// pipes is a listener of connections in memory.
type pipes struct {
	dialled chan net.Conn
	closed  chan struct{}
}

func (p pipes) dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case p.dialled <- far:
		return near, nil
	case <-p.closed: // a transport dials on when its request has got another connection
		return nil, net.ErrClosed
	}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.dialled:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p pipes) Close() error { close(p.closed); return nil }

func (p pipes) Addr() net.Addr { return &net.UnixAddr{} }

// TestOutage has all requests of a store that answers none fail together, and one that comes later be tried. The log tells of the beginning and of the end.
func TestOutage(t *testing.T) {
	const timeout = time.Second
	text := logged(t)
	data := numbered(1 << 20)
	s := &store{files: map[string][]byte{"x": data}}
	var hangs atomic.Bool
	onTestClock(t, timeout, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !hangs.Load():
			s.ServeHTTP(w, r)
		case r.Header.Get("Range") != "bytes=0-99999":
			w.WriteHeader(http.StatusBadGateway)
		default:
			<-r.Context().Done() // to its end: the request is given up with the others
		}
	}, func(t *testing.T, at Storage) {
		f := testenv.Must(at.Open("x", int64(len(data)), ""))(t)
		hangs.Store(true)
		began := time.Now()
		var all sync.WaitGroup
		for i := range 500 {
			all.Go(func() {
				_, err := f.ReadAt(make([]byte, 100_000), int64(i%9*100_000))
				took := time.Since(began)
				testenv.Check(t, IsDown(err) && took == timeout, "request %d: %v, after %v", i, err, took)
			})
		}
		all.Wait()
		_, err := f.ReadAt(make([]byte, 10), 100_000)
		testenv.Check(t, IsDown(err) && strings.Contains(err.Error(), "502 Bad Gateway, and") && time.Since(began) == timeout, "%v", err)
		hangs.Store(false)
		got := make([]byte, 1000)
		testenv.Must(f.ReadAt(got, 1000))(t)
		testenv.Same(t, got, data[1000:2000], "what comes after the outage")
	})
	testenv.Equal(t, strings.Count(text(), `level=WARN msg="the store does not answer"`), 1, "times that the log says so")
	testenv.Equal(t, strings.Count(text(), `level=INFO msg="the store answers again"`), 1, "times that the log says so")
}

// TestOneBadObject does not take one object that is always refused for an outage.
func TestOneBadObject(t *testing.T) {
	s := &store{files: map[string][]byte{"x": numbered(1000)}}
	onTestClock(t, 600*time.Millisecond, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/bad") {
			w.WriteHeader(http.StatusInternalServerError)
		} else {
			s.ServeHTTP(w, r)
		}
	}, func(t *testing.T, at Storage) {
		over := make(chan error)
		go func() {
			_, err := at.ReadFile("bad", 1000, nil)
			over <- err
		}()
		for {
			select {
			case err := <-over:
				testenv.Check(t, err != nil && !IsDown(err), "%v, down %v", err, IsDown(err))
				return
			case <-time.After(20 * time.Millisecond):
				testenv.Must(at.ReadFile("x", 1000, nil))(t)
			}
		}
	})
}

// TestTrickle ends requests that bring less than stallBytes in stallTimeout, at opening too, and no others.
func TestTrickle(t *testing.T) {
	for _, c := range []struct {
		piece, pieces int
		ends          bool
	}{{100, 1000, false}, {20 << 10, 50, true}} {
		onTestClock(t, stallTimeout, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes 0-%d/%[1]d", c.piece*c.pieces))
			w.WriteHeader(http.StatusPartialContent)
			for range c.pieces {
				if _, err := w.Write(make([]byte, c.piece)); err != nil {
					return
				}
				w.(http.Flusher).Flush()
				select {
				case <-r.Context().Done():
					return
				case <-time.After(7 * time.Second):
				}
			}
		}, func(t *testing.T, at Storage) {
			began := time.Now()
			f, err := at.OpenObject("x", Object{Bytes: int64(c.piece * c.pieces)})
			if err == nil {
				_, err = f.ReadAt(make([]byte, c.piece*c.pieces), 0)
			}
			took := time.Since(began)
			if (err == nil) != c.ends || err != nil && (!strings.Contains(err.Error(), "500 bytes came in 30s") || took != stallTimeout) {
				t.Errorf("pieces of %d bytes: %v after %v", c.piece, err, took)
			}
		})
	}
}

// TestOpening bounds all requests of an opening together, whatever trickles in, and those of none by themselves.
func TestOpening(t *testing.T) {
	const timeout = time.Minute
	onTestClock(t, timeout, func(w http.ResponseWriter, r *http.Request) {
		pieces, gap := 1, 20*time.Second
		if r.URL.Path == "/trickle" {
			pieces, gap = 50, 5*time.Second
		}
		for range pieces {
			select {
			case <-r.Context().Done():
				return
			case <-time.After(gap):
			}
			w.Write(make([]byte, 8<<10))
			w.(http.Flusher).Flush()
		}
	}, func(t *testing.T, _ Storage) {
		for name, c := range map[string]struct {
			steps, opening bool
			takes          time.Duration
			says           string
		}{
			"finding": {false, true, timeout, "bytes of the answer came, and no request has succeeded for 1m0s: the store is reached"},
			"steps":   {true, true, 40*time.Second + timeout, "--store-timeout"},
			"reading": {false, false, 290 * time.Second, ""},
		} {
			began, opening := time.Now(), Default.Opening()
			same := Default.Opening()
			at := testenv.Must(opening.At("http://store"))(t)
			if same.End(); c.steps {
				opening.Steps()
			}
			if !c.opening {
				opening.End()
			}
			var err error
			for _, file := range []string{"late", "late", "trickle"} {
				if _, err = at.ReadFile(file, 1<<20, nil); err != nil {
					break
				}
			}
			if took := time.Since(began); took != c.takes || (err == nil) != (c.says == "") || err != nil && (!IsDown(err) || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("%s: %v, after %v, want %q after %v", name, err, took, c.says, c.takes)
			}
			if c.opening {
				opening.End()
			}
		}
	})
}

// TestRefusedCredentials quotes a store that does not accept credentials: at once, after they were read anew. Once it has accepted them, they
// may be renewed.
func TestRefusedCredentials(t *testing.T) {
	within(t, time.Second)
	s := newStore(t)
	s.files["bucket/set/a"] = numbered(100)
	at := s.storages(t)["s3"]
	for _, code := range []string{"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "InvalidAccessKeyId"} {
		s.fail(slices.Repeat([]http.HandlerFunc{refuse(400, code)}, 3)...)
		_, err := at.ReadFile("a", 1000, nil)
		testenv.Says(t, code, err, code+": no")
		testenv.Says(t, code, err, "renew or correct the credentials")
		testenv.Equal(t, len(s.asked()), 2, "%s: requests", code)
	}
	s.fail()
	testenv.Must(at.ReadFile("a", 1000, nil))(t)
	s.fail(slices.Repeat([]http.HandlerFunc{refuse(400, "ExpiredToken")}, 3)...)
	testenv.Must(at.ReadFile("a", 1000, nil))(t)
	testenv.Equal(t, len(s.asked()), 4, "requests")
	s.fail(slices.Repeat([]http.HandlerFunc{refuse(400, "ExpiredToken")}, 100)...)
	_, err := at.ReadFile("a", 1000, nil)
	testenv.Check(t, IsDown(err), "%v", err)
	testenv.Says(t, "no credentials", err, "ExpiredToken: no, request id-7, and no request has succeeded for 1")
}

// TestLoops follows a bucket from region to region, and from address to address, three times.
func TestLoops(t *testing.T) {
	within(t, time.Minute)
	s := newStore(t)
	at := s.storages(t)["s3"]
	for name, c := range map[string]struct {
		status int
		header string
		value  string
	}{"region": {301, "X-Amz-Bucket-Region", "r"}, "another region": {400, "X-Amz-Bucket-Region", "r2"}, "address": {307, "Location", s.URL + "/bucket/set/a"}} {
		s.fail(slices.Repeat([]http.HandlerFunc{func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(c.header, c.value)
			w.WriteHeader(c.status)
		}}, 10)...)
		testenv.Fails(at.ReadFile("a", 1000, nil))(t, "check AWS_REGION and AWS_ENDPOINT_URL")
		testenv.Equal(t, len(s.asked()), 1+movesMax, "%s: requests", name)
	}
}

// TestUnknownEndpoint asks a bucket and a web server whose host the name server does not know: once, and the error names what to correct.
func TestUnknownEndpoint(t *testing.T) {
	names := testenv.Must(net.ListenPacket("udp", "127.0.0.1:0"))(t)
	go func() {
		query := make([]byte, 512)
		for {
			n, from, err := names.ReadFrom(query)
			if err != nil {
				return
			}
			query[2], query[3] = 0x81, 0x83 // an answer: no such name (RFC 1035, section 4.1.1)
			names.WriteTo(query[:n], from)
		}
	}()
	resolver := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("udp", names.LocalAddr().String())
	}}
	t.Cleanup(func() { net.DefaultResolver = resolver; names.Close() })
	within(t, time.Minute)
	s := newStore(t)
	s.storages(t)
	t.Setenv("AWS_ENDPOINT_URL", "https://store.invalid")
	for address, advice := range map[string]string{
		"s3://bucket/set":           "and the network; the host is that of AWS_ENDPOINT_URL, or Amazon's for the bucket and AWS_REGION",
		"https://store.invalid/set": "no such host: check the host's name and the network",
	} {
		at := testenv.Must(At(address))(t)
		_, err := at.ReadFile("manifest.json", 1000, nil)
		failed := testenv.As[*RemoteError](t, err)
		testenv.Check(t, failed.Tries == 1 && strings.HasSuffix(err.Error(), advice), "%s: %+v, %v", address, failed, err)
	}
}

// TestUnknownHost ends at once for a host that nobody knows, unless it has given something.
func TestUnknownHost(t *testing.T) {
	s := &store{files: map[string][]byte{"x": numbered(1000)}}
	onTestClock(t, time.Minute, s.ServeHTTP, func(t *testing.T, at Storage) {
		transport := Default.web.Transport.(*http.Transport)
		dial := transport.DialContext
		var unknown atomic.Bool
		unknown.Store(true)
		transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			if unknown.Load() {
				return nil, &net.DNSError{Err: "no such host", Name: "store", IsNotFound: true}
			}
			return dial(ctx, network, address)
		}
		began := time.Now()
		testenv.Fails(at.ReadFile("x", 1000, nil))(t, "no such host: check the host's name")
		testenv.Equal(t, time.Since(began), 0, "time until then")
		unknown.Store(false)
		testenv.Must(at.ReadFile("x", 1000, nil))(t)
		transport.CloseIdleConnections()
		unknown.Store(true)
		time.AfterFunc(20*time.Second, func() { unknown.Store(false) })
		testenv.Must(at.ReadFile("x", 1000, nil))(t)
	})
}

// TestWrongAnswers asks once more, and says what came if that is wrong too.
func TestWrongAnswers(t *testing.T) {
	within(t, time.Minute)
	data := numbered(100_000)
	s := newStore(t)
	s.files["bucket/set/a"] = data
	answer := func(status int, header map[string]string, body []byte) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			for name, value := range header {
				w.Header().Set(name, value)
			}
			w.WriteHeader(status)
			w.Write(body)
		}
	}
	part := data[10_000:20_000]
	for kind, at := range s.storages(t) {
		for name, c := range map[string]struct {
			fault http.HandlerFunc
			says  string
		}{
			"compressed":           {answer(206, map[string]string{"Content-Encoding": "gzip", "Content-Range": "bytes 10000-19999/100000"}, part[:100]), "the answer is compressed (gzip)"},
			"a range without name": {answer(206, nil, part), `a range came with the header Content-Range ""`},
			"a strange range":      {answer(206, map[string]string{"Content-Range": "bytes */x"}, part), `Content-Range "bytes */x"`},
			"another range":        {answer(206, map[string]string{"Content-Range": "bytes 10001-20000/100000"}, part), "the answer begins at byte 10001"},
			"an error": {answer(200, map[string]string{"Content-Type": "application/xml"}, []byte("<?xml version=\"1.0\"?>\n<Error><Code>InternalError</Code></Error>")),
				"InternalError"},
		} {
			for again, says := range []string{"", c.says} { // the fault comes once, and twice
				f := testenv.Must(at.Open("a", int64(len(data)), ""))(t)
				s.fail(slices.Repeat([]http.HandlerFunc{c.fault}, again+1)...)
				got := make([]byte, len(part))
				_, err := f.ReadAt(got, 10_000)
				if testenv.Says(t, kind+", "+name, err, says); says == "" {
					testenv.Same(t, got, part, "%s, %s", kind, name)
				}
				testenv.Equal(t, len(s.asked()), 2, "%s, %s: requests", kind, name)
			}
		}
		// A whole file that is not what it should be.
		check := func(got []byte) error {
			if !bytes.Equal(got, data) {
				return fmt.Errorf("it has %d bytes", len(got))
			}
			return nil
		}
		for times, fault := range []http.HandlerFunc{answer(200, nil, data[:99]), answer(200, nil, []byte("<Error><Code>SlowDown</Code></Error>"))} {
			s.fail([]http.HandlerFunc{fault, fault}[:times+1]...)
			got, err := at.ReadFile("a", 1<<20, check)
			if times == 0 && (err != nil || !bytes.Equal(got, data)) || times == 1 && (err == nil || !strings.Contains(err.Error(), "SlowDown")) {
				t.Errorf("%s: %v", kind, err)
			}
		}
	}
}

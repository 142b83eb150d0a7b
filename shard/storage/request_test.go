package storage

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
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
		at, err := At("http://store")
		if err != nil {
			t.Fatal(err)
		}
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
		f, err := at.Open("x", int64(len(data)), "")
		if err != nil {
			t.Fatal(err)
		}
		hangs.Store(true)
		began := time.Now()
		var all sync.WaitGroup
		for i := range 500 {
			all.Go(func() {
				_, err := f.ReadAt(make([]byte, 100_000), int64(i%9*100_000))
				if took := time.Since(began); !IsDown(err) || took != timeout {
					t.Errorf("request %d: %v, after %v", i, err, took)
				}
			})
		}
		all.Wait()
		_, err = f.ReadAt(make([]byte, 10), 100_000)
		if !IsDown(err) || !strings.Contains(err.Error(), "502 Bad Gateway, and") || time.Since(began) != timeout {
			t.Error(err)
		}
		hangs.Store(false)
		got := make([]byte, 1000)
		if _, err := f.ReadAt(got, 1000); err != nil || !bytes.Equal(got, data[1000:2000]) {
			t.Error(err)
		}
	})
	if log := text(); strings.Count(log, `level=WARN msg="the store does not answer"`) != 1 || strings.Count(log, `level=INFO msg="the store answers again"`) != 1 {
		t.Error(log)
	}
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
				if err == nil || IsDown(err) {
					t.Errorf("%v, down %v", err, IsDown(err))
				}
				return
			case <-time.After(20 * time.Millisecond):
				if _, err := at.ReadFile("x", 1000, nil); err != nil {
					t.Fatal(err)
				}
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
	for kind, at := range s.places(t) {
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
			for _, times := range []int{1, 2} {
				f, err := at.Open("a", int64(len(data)), "")
				if err != nil {
					t.Fatal(err)
				}
				s.fail([]http.HandlerFunc{c.fault, c.fault}[:times]...)
				got := make([]byte, len(part))
				_, err = f.ReadAt(got, 10_000)
				if times == 1 && (err != nil || !bytes.Equal(got, part)) || times == 2 && (err == nil || !strings.Contains(err.Error(), c.says)) || len(s.asked()) != 2 {
					t.Errorf("%s, %s %d times: %v, %d requests", kind, name, times, err, len(s.asked()))
				}
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

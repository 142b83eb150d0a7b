package server

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// A lockedBuffer is a log's, which is read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// keepQuickly has the listener looked after until the test ends, and returns what is logged.
func keepQuickly(t *testing.T, l *Listener) *lockedBuffer {
	log := &lockedBuffer{}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.keep(ctx, slog.New(slog.NewTextHandler(log, nil)), time.Millisecond)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return log
}

// until waits for a condition.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(testTimeout); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("in vain: %s", what)
		}
	}
}

func exists(path string) func() bool {
	return func() bool { _, err := os.Lstat(path); return err == nil }
}

func TestASocketThatVanishesIsPutBack(t *testing.T) {
	ts := startServer(t, oneSet(t, 8, 1), nil)
	log := keepQuickly(t, ts.listener)
	session := ts.dial().hello()
	session.open(openRequest{BatchSize: 2})
	gone := t.TempDir()
	removeFolder := func(path string) error { // at once, so that nothing is put back into it meanwhile
		return os.Rename(filepath.Dir(path), filepath.Join(gone, "folder"))
	}
	for n, remove := range []func(string) error{os.Remove, removeFolder} {
		if err := remove(ts.path); err != nil {
			t.Fatal(err)
		}
		until(t, "the socket is put back", func() bool { return strings.Count(log.String(), "was put back") == n+1 })
		info, err := os.Stat(ts.path)
		if err != nil || info.Mode() != fs.ModeSocket|SocketMode {
			t.Errorf("mode %v, %v; want a socket of mode 0600", info.Mode(), err)
		}
		ts.dial().hello().close()
		if got := session.epoch(int64(n), 0); len(got) != 4 {
			t.Errorf("the session that was there before gets %v", got)
		}
	}
	if err := ts.stop(); err != nil {
		t.Fatal(err)
	}
	if exists(filepath.Dir(ts.path))() {
		t.Error("the folder that was made for the socket is left")
	}
}

func TestASocketOfAnotherServerIsLeft(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := Listen(path, SocketMode)
	if err != nil {
		t.Fatal(err)
	}
	log := keepQuickly(t, l)
	for n := range 2 { // the second is another one, and is told of again
		other := filepath.Join(filepath.Dir(path), "other")
		theirs, err := Listen(other, SocketMode)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(other, path); err != nil { // at no moment is there none
			t.Fatal(err)
		}
		until(t, "the log names the other server", func() bool { return strings.Count(log.String(), "already listens on") == n+1 })
		time.Sleep(20 * time.Millisecond)
		if said := strings.Count(log.String(), "\n"); said != 2*n+1 {
			t.Errorf("said %d times:\n%s", said, log)
		}
		if info, err := os.Lstat(path); err != nil || !os.SameFile(info, theirs.own) {
			t.Errorf("the other server's socket was touched: %v", err)
		}
		os.Remove(path)
		until(t, "the socket is put back", func() bool { return strings.Count(log.String(), "was put back") == n+1 })
		theirs.Close()
	}
	if _, err := net.Dial("unix", path); err != nil {
		t.Error(err)
	}
	l.Close()
	time.Sleep(20 * time.Millisecond)
	if exists(path)() {
		t.Error("a socket that was closed is back")
	}
	if _, err := l.accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accepting after Close: %v", err)
	}
}

// TestASocketThatCannotBePutBack has its folder taken by a file.
func TestASocketThatCannotBePutBack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "folder")
	l, err := Listen(filepath.Join(dir, "s"), SocketMode)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	log := keepQuickly(t, l)
	file := dir + ".file"
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l.mu.Lock() // so that nothing is put back between the two
	os.RemoveAll(dir)
	os.Rename(file, dir)
	l.mu.Unlock()
	until(t, "the log says so", func() bool { return strings.Contains(log.String(), "not a directory") })
	time.Sleep(20 * time.Millisecond)
	if strings.Count(log.String(), "\n") != 1 {
		t.Errorf("said more than once:\n%s", log)
	}
	os.Remove(dir)
	until(t, "the socket is put back", exists(l.Path()))
}

package server

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/server/internal/ring"
	"github.com/imgfeed/imgfeed/server/internal/wire"
	"github.com/imgfeed/imgfeed/shard"
)

// A testServer is a real server on a real socket.
type testServer struct {
	*Server
	t    testing.TB
	path string
	stop func() error // ends it and returns what Serve returned
}

// startServer serves the sets in dir until the test ends.
func startServer(t testing.TB, dir string, change func(*Config)) *testServer {
	t.Helper()
	found, err := shard.FindAll(dir)
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Found: found, Threads: 2, MemoryBytes: 512 << 20, Name: "imgfeed test", Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	if change != nil {
		change(&cfg)
	}
	srv, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	socketDir, err := os.MkdirTemp("", "imgfeed-test-") // t.TempDir can be longer than a socket's path may be
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(socketDir, "s")
	l, err := Listen(path, SocketMode)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ctx, l) }()
	ts := &testServer{Server: srv, t: t, path: path}
	ts.stop = sync.OnceValue(func() error {
		cancel()
		defer os.RemoveAll(socketDir)
		defer srv.Close()
		return <-served
	})
	t.Cleanup(func() { ts.stop() })
	return ts
}

// checkIdle waits until all sessions have ended and given their memory back.
func (ts *testServer) checkIdle() {
	testenv.Until(ts.t, func() bool { return len(ts.list()) == 0 && ts.memory.inUse() == 0 })
}

// A client is the plainest one possible.
type client struct {
	t      testing.TB
	conn   *net.UnixConn
	rights *rightsReader
	frames *wire.Reader
	opened openedReply
	ring   []byte
}

func (ts *testServer) dial() *client {
	ts.t.Helper()
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: ts.path, Net: "unix"})
	if err != nil {
		ts.t.Fatal(err)
	}
	rights := &rightsReader{conn: conn}
	c := &client{t: ts.t, conn: conn, rights: rights, frames: wire.NewReader(rights, wire.ReplyBytesMax)}
	ts.t.Cleanup(c.close)
	return c
}

func (c *client) close() {
	c.conn.Close()
	c.rights.file.Close()
	if c.ring != nil {
		unix.Munmap(c.ring)
		c.ring = nil
	}
}

func (c *client) send(m any) {
	c.t.Helper()
	frame, err := appendFrame(nil, m)
	if err != nil {
		c.t.Fatal(err)
	}
	c.sendRaw(frame)
}

func (c *client) sendRaw(b []byte) {
	c.t.Helper()
	if _, err := c.conn.Write(b); err != nil {
		c.t.Fatalf("sending: %v", err)
	}
}

// receive returns the next message.
func (c *client) receive() any {
	c.t.Helper()
	text, err := c.frames.Next()
	if err != nil {
		c.t.Fatalf("receiving: %v", err)
	}
	_, m, err := replies.DecodeReply(text)
	if err != nil {
		c.t.Fatal(err)
	}
	return m
}

// appendFrame appends the frame of a request or a reply.
func appendFrame(dst []byte, m any) ([]byte, error) {
	for _, r := range requests {
		if reflect.TypeOf(r.empty) == reflect.TypeOf(m) {
			return requestMessages.AppendFrame(dst, m)
		}
	}
	return replies.AppendFrame(dst, m)
}

// expect returns the next message, which must be an M.
func expect[M any](c *client) M {
	c.t.Helper()
	got := c.receive()
	m, ok := got.(M)
	if !ok {
		c.t.Fatalf("got %#v, want a %T", got, m)
	}
	return m
}

// refused checks that an error of a kind comes, with words in it, and that the connection goes on.
func (c *client) refused(kind string, words ...string) errorMessage {
	c.t.Helper()
	e := expect[errorMessage](c)
	if e.Fatal || e.ErrKind != kind || slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(e.Message, w) }) {
		c.t.Errorf("got %+v, want %s with %q", e, kind, words)
	}
	return e
}

// start starts an epoch.
func (c *client) start(m startRequest) startedReply {
	c.t.Helper()
	c.send(m)
	return expect[startedReply](c)
}

// raw returns the next n bytes.
func (c *client) raw(n int64) []byte {
	c.t.Helper()
	b := make([]byte, n)
	if _, err := io.ReadFull(c.rights, b); err != nil {
		c.t.Fatalf("receiving %d raw bytes: %v", n, err)
	}
	return b
}

// expectClosed fails unless the server closes the connection without another word.
func (c *client) expectClosed() {
	c.t.Helper()
	if text, err := c.frames.Next(); err == nil {
		c.t.Fatalf("got %s, want the end of the connection", text)
	}
}

func (c *client) hello() *client {
	c.t.Helper()
	c.send(wire.Hello{Version: wire.Version})
	expect[helloReply](c)
	return c
}

// open opens a session and maps its ring.
func (c *client) open(m openRequest) *client {
	c.t.Helper()
	if m.Transform == nil {
		m.Transform = onePixel
	}
	c.send(m)
	c.opened = expect[openedReply](c)
	if m.Transport != transportSocket {
		if want := int64(c.opened.Slots) * c.opened.SlotBytes; c.opened.RingBytes != want {
			c.t.Fatalf("a ring of %d bytes, want %d", c.opened.RingBytes, want)
		}
		c.mapRing()
	}
	return c
}

// mapRing maps the memory that came with opened.
func (c *client) mapRing() {
	c.t.Helper()
	file := c.rights.file
	if file == nil {
		c.t.Fatal("no descriptor came with opened")
	}
	defer file.Close()
	c.rights.file = nil
	ring, err := unix.Mmap(int(file.Fd()), 0, int(c.opened.RingBytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		c.t.Fatal(err)
	}
	c.ring = ring
}

// onePixel makes of each of writeSet's images its colour.
var onePixel = json.RawMessage(`[{"op":"CenterCrop","size":1}]`)

// checkBatch fails unless the slot holds 1×1 pixels that match its labels and indices, and returns the indices.
func (c *client) checkBatch(b batchMessage) []int64 {
	c.t.Helper()
	slot := c.ring[int64(*b.Slot)*c.opened.SlotBytes:][:c.opened.SlotBytes]
	labels := view[int64](c.array(ring.Labels, b))
	indices := view[int64](c.array(ring.Indices, b))
	for i, index := range indices {
		pixel := slot[3*i : 3*i+3]
		if labels[i] != index%2 || pixel[0] != byte(10*(index%2)) || pixel[1] != byte(index) || pixel[2] != 7 {
			c.t.Fatalf("position %d of batch %d: index %d, label %d, pixel %v", i, b.Batch, index, labels[i], pixel)
		}
	}
	return append([]int64(nil), indices...)
}

// array returns the memory of one of a batch's arrays.
func (c *client) array(kind string, b batchMessage) []byte {
	c.t.Helper()
	i := slices.IndexFunc(c.opened.Arrays, func(a ring.Array) bool { return a.Kind == kind })
	if i < 0 {
		c.t.Fatalf("no %s among the arrays %+v", kind, c.opened.Arrays)
	}
	a := c.opened.Arrays[i]
	return c.ring[int64(*b.Slot)*c.opened.SlotBytes+a.Offset:][:int64(b.Count)*a.Stride]
}

// epoch runs an epoch from consumed and returns the indices of its batches.
func (c *client) epoch(number, consumed int64) [][]int64 {
	c.t.Helper()
	started := c.start(startRequest{Epoch: number, Consumed: consumed})
	var batches [][]int64
	for {
		switch m := c.receive().(type) {
		case batchMessage:
			if m.Generation != started.Generation || m.Batch != len(batches) {
				c.t.Fatalf("batch %d of generation %d, want %d of %d", m.Batch, m.Generation, len(batches), started.Generation)
			}
			batches = append(batches, c.checkBatch(m))
			c.send(releaseRequest{Slot: *m.Slot})
		case endMessage:
			if len(batches) != started.Batches {
				c.t.Fatalf("%d batches, %d were announced", len(batches), started.Batches)
			}
			return batches
		default:
			c.t.Fatalf("got %#v in an epoch", m)
		}
	}
}

package server

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/png"
	"io"
	"iter"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/server/internal/ring"
	"github.com/imgfeed/imgfeed/server/internal/wire"
	"github.com/imgfeed/imgfeed/shard"
	"golang.org/x/sys/unix"
)

// A testServer is a real server on a real socket.
type testServer struct {
	*Server
	t    testing.TB
	path string
	stop func() error // ends it and returns what Serve returned
}

// newServer returns a server of the sets in dir.
func newServer(t testing.TB, dir string, change func(*Config)) *Server {
	t.Helper()
	cfg := Config{Found: testenv.Must(shard.FindAll(dir))(t), Threads: 2, MemoryBytes: 512 << 20, Name: "imgfeed test"}
	if change != nil {
		change(&cfg)
	}
	return testenv.Must(New(cfg))(t)
}

// startServer serves the sets in dir until the test ends.
func startServer(t testing.TB, dir string, change func(*Config)) *testServer {
	t.Helper()
	srv := newServer(t, dir, change)
	socketDir := testenv.Must(os.MkdirTemp("", "imgfeed-test-"))(t) // t.TempDir can be longer than a socket's path may be
	path := filepath.Join(socketDir, "s")
	l := testenv.Must(Listen(path, SocketMode))(t)
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

// A logText collects what a logger writes.
type logText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logText) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// Write implements io.Writer.
func (l *logText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// String implements fmt.Stringer.
func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// await waits for words in the log.
func (l *logText) await(t testing.TB, words string) {
	t.Helper()
	testenv.Until(t, func() bool { return strings.Contains(l.String(), words) })
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
	conn := testenv.Must(net.DialUnix("unix", nil, &net.UnixAddr{Name: ts.path, Net: "unix"}))(ts.t)
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
	frame := testenv.Must(appendFrame(nil, m))(c.t)
	c.sendRaw(frame)
}

func (c *client) sendRaw(b []byte) {
	c.t.Helper()
	_, err := c.conn.Write(b)
	testenv.Require(c.t, err == nil, "sending: %v", err)
}

// receive returns the next message.
func (c *client) receive() any {
	c.t.Helper()
	text, err := c.frames.Next()
	testenv.OK(c.t, err, "receiving")
	_, m := testenv.Must2(replies.DecodeReply(text))(c.t)
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
	testenv.Require(c.t, ok, "got %#v, want a %T", got, m)
	return m
}

// ask sends a request and returns the answer, which must be an M.
func ask[M any](c *client, request any) M {
	c.t.Helper()
	c.send(request)
	return expect[M](c)
}

// refuses sends a request and checks its refusal, as refused does.
func (c *client) refuses(request any, kind string, words ...string) errorMessage {
	c.t.Helper()
	c.send(request)
	return c.refused(kind, words...)
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
	return ask[startedReply](c, m)
}

// begun starts an epoch and returns its first batch.
func (c *client) begun(epoch int64) batchMessage {
	c.t.Helper()
	c.start(startRequest{Epoch: epoch})
	return expect[batchMessage](c)
}

// batches starts an epoch and returns its batches. Each slot goes back when the next batch is asked for.
func (c *client) batches(epoch, consumed int64) iter.Seq[batchMessage] {
	c.t.Helper()
	started := c.start(startRequest{Epoch: epoch, Consumed: consumed})
	return func(yield func(batchMessage) bool) {
		for n := 0; ; n++ {
			switch m := c.receive().(type) {
			case batchMessage:
				testenv.Require(c.t, m.Generation == started.Generation && m.Batch == n,
					"batch %d of generation %d, want %d of %d", m.Batch, m.Generation, n, started.Generation)
				if !yield(m) {
					return
				}
				c.send(releaseRequest{Slot: *m.Slot})
			case endMessage:
				testenv.Require(c.t, n == started.Batches, "%d batches, %d were announced", n, started.Batches)
				return
			default:
				c.t.Fatalf("got %#v in an epoch", m)
			}
		}
	}
}

// raw returns the next n bytes.
func (c *client) raw(n int64) []byte {
	c.t.Helper()
	b := make([]byte, n)
	_, err := io.ReadFull(c.rights, b)
	testenv.Require(c.t, err == nil, "receiving %d raw bytes: %v", n, err)
	return b
}

// expectClosed fails unless the server closes the connection without another word.
func (c *client) expectClosed() {
	c.t.Helper()
	text, err := c.frames.Next()
	testenv.Require(c.t, err != nil, "got %s, want the end of the connection", text)
}

func (c *client) hello() *client {
	c.t.Helper()
	ask[helloReply](c, wire.Hello{Version: wire.Version})
	return c
}

// open opens a session and maps its ring.
func (c *client) open(m openRequest) *client {
	c.t.Helper()
	if m.Transform == nil {
		m.Transform = onePixel
	}
	c.opened = ask[openedReply](c, m)
	if m.Transport != transportSocket {
		want := int64(c.opened.Slots) * c.opened.SlotBytes
		testenv.Require(c.t, c.opened.RingBytes == want, "a ring of %d bytes, want %d", c.opened.RingBytes, want)
		c.mapRing()
	}
	return c
}

// mapRing maps the memory whose descriptor came with the reply to open.
func (c *client) mapRing() {
	c.t.Helper()
	file := c.rights.file
	testenv.Require(c.t, file != nil, "no descriptor came with opened")
	defer file.Close()
	c.rights.file = nil
	ring := testenv.Must(unix.Mmap(int(file.Fd()), 0, int(c.opened.RingBytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED))(c.t)
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
		testenv.Require(c.t, labels[i] == index%2 && pixel[0] == byte(10*(index%2)) && pixel[1] == byte(index) && pixel[2] == 7,
			"position %d of batch %d: index %d, label %d, pixel %v", i, b.Batch, index, labels[i], pixel)
	}
	return append([]int64(nil), indices...)
}

// array returns the memory of one of a batch's arrays. A name tells it from others of its kind.
func (c *client) array(kind string, b batchMessage, name ...string) []byte {
	c.t.Helper()
	i := slices.IndexFunc(c.opened.Arrays, func(a ring.Array) bool { return a.Kind == kind && (name == nil || a.Name == name[0]) })
	testenv.Require(c.t, i >= 0, "no %s %s among the arrays %+v", kind, name, c.opened.Arrays)
	return c.memory(c.opened.Arrays[i], b)
}

// memory returns the memory of an array in a batch.
func (c *client) memory(a ring.Array, b batchMessage) []byte {
	return c.ring[int64(*b.Slot)*c.opened.SlotBytes+a.Offset:][:int64(b.Count)*a.Stride]
}

// epoch runs an epoch from consumed and returns the indices of its batches.
func (c *client) epoch(number, consumed int64) (indices [][]int64) {
	c.t.Helper()
	for b := range c.batches(number, consumed) {
		indices = append(indices, c.checkBatch(b))
	}
	return indices
}

// A rightsReader reads from a connection and keeps the descriptor that came with the bytes. It never
// reads more than its caller wants, so that a descriptor comes with the first byte of its message.
type rightsReader struct {
	conn *net.UnixConn
	file *os.File // nil if none has come
}

// Read implements io.Reader.
func (r *rightsReader) Read(p []byte) (int, error) {
	oob := make([]byte, unix.CmsgSpace(4))
	n, oobn, _, _, err := r.conn.ReadMsgUnix(p, oob)
	if n == 0 && err == nil {
		return 0, io.EOF
	}
	if messages, _ := unix.ParseSocketControlMessage(oob[:oobn]); len(messages) > 0 {
		fds, err := unix.ParseUnixRights(&messages[0])
		if err != nil {
			return n, err
		}
		r.file = os.NewFile(uintptr(fds[0]), "received")
	}
	return n, err
}

// socketPair returns both ends of a connection.
func socketPair(t testing.TB) (ends [2]*net.UnixConn) {
	t.Helper()
	fds := testenv.Must(unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))(t)
	for i, fd := range fds {
		file := os.NewFile(uintptr(fd), "")
		conn := testenv.Must(net.FileConn(file))(t)
		file.Close()
		t.Cleanup(func() { conn.Close() })
		ends[i] = conn.(*net.UnixConn)
	}
	return ends
}

// TestRights sends a descriptor with a message that is larger than a socket's buffer, between two others.
func TestRights(t *testing.T) {
	ends := socketPair(t)
	null := testenv.Opened(os.Open(os.DevNull))(t)
	end, _ := appendFrame(nil, endMessage{})
	long, _ := appendFrame(nil, classesReply{Classes: []string{strings.Repeat("x", 1<<20)}})
	go func() {
		ends[0].Write(end)
		wire.WriteRights(ends[0], long, null)
		ends[0].Write(end)
	}()
	reader := &rightsReader{conn: ends[1]}
	frames := wire.NewReader(reader, wire.ReplyBytesMax)
	for i := range 3 {
		testenv.Must(frames.Next())(t)
		testenv.Check(t, (reader.file != nil) == (i > 0), "after message %d: %v", i, reader.file)
	}
	reader.file.Close()
}

// writeSet writes a set of samples PNGs of 8×6 pixels whose colour is (10·label, index, 7), with label = index mod 2, in partitions.
func writeSet(t testing.TB, dir, split string, samples, partitions int) {
	t.Helper()
	writeFieldSet(t, dir, split, samples, partitions, nil, func(int) []byte { return nil })
}

// trainSet writes a set of the split train with fields, and returns the folder above it.
func trainSet(t testing.TB, samples, partitions int, fields shard.Fields, values func(index int) []byte) string {
	t.Helper()
	dir := t.TempDir()
	writeFieldSet(t, filepath.Join(dir, "train-shards"), "train", samples, partitions, fields, values)
	return dir
}

// oneSet is trainSet without fields.
func oneSet(t testing.TB, samples, partitions int) string {
	t.Helper()
	return trainSet(t, samples, partitions, nil, func(int) []byte { return nil })
}

// valueFields are the fields of a set whose samples have values: a score of half the index, and "sample 7".
var valueFields = shard.Fields{{Name: "score", Type: shard.Float32}, {Name: "caption", Type: shard.Text}}

func valuesOf(index int) []byte {
	return shard.AppendBytes(shard.AppendFloats(nil, float32(index)/2), fmt.Appendf(nil, "sample %d", index))
}

// writeFieldSet is writeSet with fields.
func writeFieldSet(t testing.TB, dir, split string, samples, partitions int, fields shard.Fields, values func(index int) []byte) {
	t.Helper()
	writeClassSet(t, dir, split, samples, partitions, []string{"cat", "dog"}, fields, values)
}

// writeClassSet is writeFieldSet with two classes of other names.
func writeClassSet(t testing.TB, dir, split string, samples, partitions int, classes []string, fields shard.Fields, values func(index int) []byte) {
	t.Helper()
	w := testenv.Must(shard.NewSetWriter(dir, shard.SetOptions{Split: split, Encoding: shard.Encoding{Name: "jpeg"}, Classes: classes, Partitions: partitions, Fields: fields}))(t)
	defer w.Abort()
	for i, key := range keysInOrder(samples) {
		label := i % 2
		s := shard.Sample{Key: key, Label: int32(label), Width: 8, Height: 6, Format: imagefile.PNG, Image: onePNG(t, color.NRGBA{uint8(10 * label), uint8(i), 7, 255}), Fields: values(i)}
		testenv.OK(t, w.Append(s))
	}
	testenv.Must(w.Commit())(t)
}

// keysInOrder returns the keys of a set in the order in which it is written.
func keysInOrder(samples int) []string {
	keys := make([]string, samples)
	for i := range keys {
		keys[i] = fmt.Sprintf("%04d.png", i)
	}
	slices.SortFunc(keys, func(a, b string) int { return cmp.Compare(shard.OrderHash(0, a), shard.OrderHash(0, b)) })
	return keys
}

func onePNG(t testing.TB, c color.NRGBA) []byte {
	t.Helper()
	img := image.NewNRGBA(image.Rect(0, 0, 8, 6))
	for i := 0; i < len(img.Pix); i += 4 {
		copy(img.Pix[i:], []byte{c.R, c.G, c.B, c.A})
	}
	var b bytes.Buffer
	testenv.OK(t, png.Encode(&b, img))
	return b.Bytes()
}

// change rewrites a file.
func change(t testing.TB, path string, to func(data []byte) []byte) {
	t.Helper()
	testenv.OK(t, os.WriteFile(path, to(testenv.Must(os.ReadFile(path))(t)), 0o666))
}

// crc is CRC-32C.
func crc(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// forge changes the manifest of a trainSet, and then the manifest's checksum.
func forge(t testing.TB, dir string, to func(manifest []byte) []byte) {
	t.Helper()
	change(t, filepath.Join(dir, "train-shards/manifest.json"), func(text []byte) []byte {
		text = to(text)
		body := text[:bytes.LastIndex(text, []byte(`"crc32c"`))]
		return fmt.Appendf(bytes.Clone(body), "\"crc32c\": \"%08x\"\n}\n", crc(body))
	})
}

// damage flips a byte in the middle of the image of sample i of the set in dir.
func damage(t testing.TB, dir string, i int) {
	t.Helper()
	set := testenv.Opened(shard.OpenSet(dir))(t)
	at := testenv.Must(set.Locate(i))(t)
	e := testenv.Must(set.Entry(i))(t)
	change(t, filepath.Join(dir, filepath.FromSlash(at.Path)), func(b []byte) []byte {
		b[e.Offset+int64(e.ImageLength)/2] ^= 0x40
		return b
	})
}

package server

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/loader/plan"
	"github.com/imgfeed/imgfeed/server/internal/ring"
	"github.com/imgfeed/imgfeed/server/internal/wire"
	"github.com/imgfeed/imgfeed/server/status"
)

// checkServes fails unless an ordinary client gets a whole and right epoch.
func checkServes(ts *testServer) {
	ts.t.Helper()
	c := ts.dial().hello().open(openRequest{BatchSize: 4, Shuffle: true, Seed: of[int64](1), Slots: 2})
	defer c.close()
	c.epoch(0, 0)
}

func openFiles(t testing.TB) int {
	t.Helper()
	return len(testenv.Must(os.ReadDir("/proc/self/fd"))(t))
}

// noLeaks waits until all goroutines and descriptors that came with a function are gone.
func noLeaks(ts *testServer, run func()) {
	ts.t.Helper()
	checkServes(ts)
	ts.checkIdle()
	goroutines, files := runtime.NumGoroutine(), openFiles(ts.t)
	run()
	checkServes(ts)
	ts.checkIdle()
	testenv.Until(ts.t, func() bool { return runtime.NumGoroutine() <= goroutines && openFiles(ts.t) <= files })
}

// hostile opens four sessions of the split train, whose epochs run until they are closed. The first reads nothing, the second gives no slot
// back, the third floods the server with questions, and the fourth gives back slots that it does not have.
func hostile(ts *testServer) []*client {
	large := json.RawMessage(`[{"op":"Resize","size":[64,64]}]`)
	stalls := ts.dial().hello().open(openRequest{Split: "train", BatchSize: 100, Transform: large, Transport: transportSocket})
	holds := ts.dial().hello().open(openRequest{Split: "train", BatchSize: 16, Slots: 16})
	floods := ts.dial().hello().open(openRequest{Split: "train", BatchSize: 1, Slots: 1})
	lies := ts.dial().hello().open(openRequest{Split: "train", BatchSize: 1, Slots: 1})
	clients := []*client{stalls, holds, floods, lies}
	for _, c := range clients {
		c.send(startRequest{})
	}
	for c, m := range map[*client]any{floods: statsRequest{}, lies: releaseRequest{Slot: 7}} {
		frame, _ := appendFrame(nil, m)
		go func() {
			for _, err := c.conn.Write(frame); err == nil; _, err = c.conn.Write(frame) {
			}
		}()
		go func() {
			for _, err := c.frames.Next(); err == nil; _, err = c.frames.Next() {
			}
		}()
	}
	return clients
}

func TestGarbledFrames(t *testing.T) {
	ts := startServer(t, oneSet(t, 20, 1), nil)
	noLeaks(ts, func() {
		for _, b := range []string{
			"\x00\x00\x00\x00", "\x01\x00\x00\x00{", "\x01\x00\x01\x00", "\xff\xff\xff\x7f", "GET / HTTP/1.1\r\n\r\n",
			"\x02\x00\x00\x00[]", "\x04\x00\x00\x00null", "\x03\x00\x00\x00{{{", "\x04\x00\x00\x00\xff\xfe\xfd\xfc",
		} {
			for _, greeted := range []bool{false, true} {
				c := ts.dial()
				if greeted {
					c.hello()
				}
				c.sendRaw([]byte(b))
				e := expect[errorMessage](c)
				testenv.Check(t, e.Fatal && e.ErrKind == kindBadRequest, "%q: %+v", b, e)
				c.expectClosed()
				c.close()
			}
		}
		// Frames that are cut off by the end of the connection.
		for _, b := range []string{"", "\x10", "\x10\x00\x00\x00", "\x10\x00\x00\x00{\"type\""} {
			c := ts.dial()
			c.sendRaw([]byte(b))
			c.conn.CloseWrite()
			c.expectClosed()
			c.close()
		}
	})
}

func TestWrongReleases(t *testing.T) {
	ts := startServer(t, oneSet(t, 40, 1), nil)
	c := ts.dial().hello().open(openRequest{BatchSize: 2, Slots: 2})
	refuse := func(slot int) {
		t.Helper()
		testenv.Equal(t, c.refuses(releaseRequest{Slot: slot}, kindBadRequest).Request, "release", "the request of slot %d", slot)
	}
	refuse(0) // before any was lent
	a, b := c.begun(0), expect[batchMessage](c)
	refuse(2)
	refuse(-1)
	c.send(releaseRequest{Slot: *a.Slot})
	again := expect[batchMessage](c) // the slot was filled anew
	testenv.Require(t, *again.Slot == *a.Slot, "slot %d came after slot %d was released", *again.Slot, *a.Slot)
	c.send(releaseRequest{Slot: *b.Slot})
	expect[batchMessage](c)
	c.checkBatch(again)
	socket := ts.dial().hello().open(openRequest{BatchSize: 2, Transport: transportSocket})
	socket.refuses(releaseRequest{Slot: 0}, kindBadRequest)
}

// TestClientsThatDoNotRead holds the server up in every way that a client can, and checks that others do not notice.
func TestClientsThatDoNotRead(t *testing.T) {
	ts := startServer(t, oneSet(t, 400, 1), nil)
	noLeaks(ts, func() {
		large := json.RawMessage(`[{"op":"Resize","size":[64,64]}]`)
		batches := ts.dial().hello().open(openRequest{BatchSize: 100, Transform: large, Transport: transportSocket})
		batches.send(startRequest{})
		slots := ts.dial().hello().open(openRequest{BatchSize: 4})
		slots.send(startRequest{})
		replies := ts.dial().hello().open(openRequest{BatchSize: 4})
		replies.conn.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
		frame, _ := appendFrame(nil, statsRequest{})
		for { // until both directions are full
			if _, err := replies.conn.Write(frame); err != nil {
				break
			}
		}
		silent := make([]*client, 50)
		for i := range silent {
			silent[i] = ts.dial()
		}
		checkServes(ts)
		// A client that wakes up finds everything in order.
		expect[startedReply](batches)
		for i := range 4 {
			b := expect[batchMessage](batches)
			raw := batches.raw(b.Bytes)
			testenv.Check(t, b.Batch == i && raw[1] == byte(100*i), "batch %d begins with %v", b.Batch, raw[:3])
		}
		expect[endMessage](batches)
		for _, c := range append(silent, batches, slots, replies) {
			c.close()
		}
	})
}

func TestConnectionsCutAnywhere(t *testing.T) {
	ts := startServer(t, oneSet(t, 200, 2), nil)
	noLeaks(ts, func() {
		var wg sync.WaitGroup
		for i := range 8 {
			rng := rand.New(rand.NewPCG(3, uint64(i)))
			wg.Go(func() {
				for range 8 {
					c := ts.dial().hello()
					m := openRequest{BatchSize: 1 + rng.IntN(50), Slots: 1 + rng.IntN(4)}
					if rng.IntN(2) == 0 {
						m.Transport = transportSocket
					}
					c.open(m)
					c.send(startRequest{Epoch: int64(rng.IntN(5))})
					time.Sleep(time.Duration(rng.IntN(3000)) * time.Microsecond)
					c.close()
				}
			})
		}
		wg.Wait()
	})
}

// TestEpochsRestartedAtOnce starts epochs without waiting for their ends.
func TestEpochsRestartedAtOnce(t *testing.T) {
	ts := startServer(t, oneSet(t, 200, 1), nil)
	noLeaks(ts, func() {
		c := ts.dial().hello().open(openRequest{BatchSize: 3, Slots: 4})
		const starts = 20
		for i := range starts {
			c.send(startRequest{Epoch: int64(i)})
		}
		var generation uint64
		for ended := false; !ended; {
			switch m := c.receive().(type) {
			case startedReply:
				testenv.Require(t, m.Generation == generation+1, "generation %d after %d", m.Generation, generation)
				generation = m.Generation
			case batchMessage:
				testenv.Require(t, m.Generation == generation, "a batch of generation %d after started of %d", m.Generation, generation)
				c.checkBatch(m)
				c.send(releaseRequest{Slot: *m.Slot})
			case endMessage:
				ended = m.Generation == starts
			default:
				t.Fatalf("got %#v", m)
			}
		}
		c.close()
	})
}

// FuzzConnection sends arbitrary bytes to a server, which must answer, end the connection, and go on.
func FuzzConnection(f *testing.F) {
	frames := func(messages ...any) (b []byte) {
		for _, m := range messages {
			b, _ = appendFrame(b, m)
		}
		return b
	}
	hello := wire.Hello{Version: 1}
	open := openRequest{Transform: onePixel, BatchSize: 2, Slots: 1}
	f.Add(frames(hello))
	f.Add(frames(hello, open, labelsRequest{}, classesRequest{}, keyRequest{Index: 1}, sampleRequest{Index: 1}, orderRequest{Epoch: 1}, statsRequest{}))
	f.Add(frames(hello, open, startRequest{Epoch: 1}, releaseRequest{Slot: 0}, stopRequest{}, startRequest{Consumed: 4}))
	open.Transport, open.Shuffle, open.Seed, open.WithParams, open.Policy = transportSocket, true, of[int64](3), true, plan.DropLast.String()
	f.Add(frames(hello, open, startRequest{Epoch: 1}))
	ts := startServer(f, oneSet(f, 8, 2), func(c *Config) { c.MemoryBytes = 4 << 20 })
	f.Fuzz(func(t *testing.T, b []byte) { checkEnds(t, testenv.Must(net.Dial("unix", ts.path))(t), b) })
}

// checkEnds sends bytes and nothing more to a peer, which must end the connection.
func checkEnds(t *testing.T, conn net.Conn, b []byte) {
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Minute)) // go test sets no limit when it fuzzes
	go func() {
		conn.Write(b)
		conn.(interface{ CloseWrite() error }).CloseWrite()
	}()
	_, err := io.Copy(io.Discard, conn)
	testenv.Check(t, !os.IsTimeout(err), "the peer does not end the connection")
}

// frameText returns the JSON text of a message's frame.
func frameText(t testing.TB, m any) []byte {
	t.Helper()
	frame := testenv.Must(appendFrame(nil, m))(t)
	return testenv.Must(wire.NewReader(bytes.NewReader(frame), wire.ReplyBytesMax).Next())(t)
}

func FuzzDecodeRequest(f *testing.F) {
	for _, r := range requests {
		f.Add(frameText(f, r.empty))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		kind, m, err := requestMessages.DecodeRequest(text)
		if err != nil {
			return
		}
		again, _, err := requestMessages.DecodeRequest(frameText(t, m))
		testenv.Check(t, err == nil && again == kind, "%q decodes to %#v, which does not survive encoding: %v", text, m, err)
	})
}

// TestReplyThatFailsEndsTheConnection fails a reply after its header: the client would take another message for numbers.
func TestReplyThatFailsEndsTheConnection(t *testing.T) {
	conns := socketPair(t)
	c := &connection{server: &Server{totals: status.NewTotals()}, greeted: true, conn: conns[0], log: slog.New(slog.DiscardHandler)}
	const sent = 65 << 10
	err := c.sendArray(labelsReply{Count: sent}, func(w *bufio.Writer) error {
		w.Write(make([]byte, sent))
		return errors.New("unreadable")
	})
	testenv.Check(t, errors.Is(c.answerError("labels", err), errHangUp), "the connection goes on")
	conns[0].Close()
	got, err := io.ReadAll(conns[1])
	testenv.Check(t, err == nil && len(got) <= 64+sent && !bytes.Contains(got, []byte("error")), "%d bytes came: %v", len(got), err)
}

const wireDocument = "../docs/format/wire.md"

// A block is a fenced block of the document.
type block struct {
	info  string
	line  int // of its first line in the document
	lines []string
}

func readBlocks(t *testing.T) (blocks []block) {
	t.Helper()
	text := string(testenv.Must(os.ReadFile(wireDocument))(t))
	for _, m := range regexp.MustCompile("(?m)^```([^\n]*)\n((?:[^`][^\n]*\n|\n)*)```$").FindAllStringSubmatchIndex(text, -1) {
		lines := strings.Split(strings.TrimSuffix(text[m[4]:m[5]], "\n"), "\n")
		blocks = append(blocks, block{text[m[2]:m[3]], 1 + strings.Count(text[:m[4]], "\n"), lines})
	}
	return blocks
}

// TestDocumentExamples replays every example of the wire document against a server.
func TestDocumentExamples(t *testing.T) {
	dir := trainSet(t, 10, 2, valueFields, valuesOf)
	writeSet(t, filepath.Join(dir, "val-shards"), "val", 4, 1)
	damage(t, filepath.Join(dir, "val-shards"), 1)
	ts := startServer(t, dir, nil)
	replayed := map[string]bool{}
	for _, b := range readBlocks(t) {
		if b.info != "wire" {
			continue
		}
		t.Run(fmt.Sprintf("line_%d", b.line), func(t *testing.T) {
			r := replay{client: ts.dial(), kinds: replayed}
			r.client.t = t
			defer ts.checkIdle() // or the next example may still see this one's session
			defer r.client.close()
			for i, line := range b.lines {
				r.step(fmt.Sprintf("%s:%d", wireDocument, b.line+i), line)
			}
		})
	}
	for _, m := range allMessages() {
		testenv.Check(t, replayed[fmt.Sprintf("%T", m)], "no example of the document shows a %T", m)
	}
	ts.checkIdle()
}

// A replay is an example being replayed on a connection.
type replay struct {
	client *client
	kinds  map[string]bool // Go types of the messages seen
	file   int             // bytes of the file that the server has announced
}

func (r *replay) step(at, line string) {
	c := r.client
	c.t.Helper()
	what, rest, _ := strings.Cut(line, " ")
	switch {
	case what == "#" || what == "":
	case what == "C" && strings.HasPrefix(rest, "raw "):
		c.sendRaw(parseHex(c.t, at, rest[4:]))
	case what == "C":
		c.sendRaw(binary.LittleEndian.AppendUint32(nil, uint32(len(rest))))
		c.sendRaw([]byte(rest))
		if _, m, err := requestMessages.DecodeRequest([]byte(rest)); err == nil {
			r.kinds[fmt.Sprintf("%T", m)] = true
		}
	case what == "S" && rest == "closed":
		c.expectClosed()
	case what == "S" && rest == "raw …":
		got := c.raw(int64(r.file))
		testenv.Require(c.t, bytes.HasPrefix(got, []byte("\x89PNG")), "%s: got % x", at, got)
	case what == "S" && strings.HasPrefix(rest, "raw "):
		want := parseHex(c.t, at, rest[4:])
		testenv.Same(c.t, c.raw(int64(len(want))), want, "%s", at)
	case what == "S" || what == "S+fd":
		r.receive(at, rest, what == "S+fd")
	case what == "M":
		from, want, _ := strings.Cut(rest, " ")
		offset := testenv.Must(strconv.Atoi(from))(c.t)
		inMemory := parseHex(c.t, at, want)
		testenv.Same(c.t, c.ring[offset:offset+len(inMemory)], inMemory, "%s: the memory", at)
	default:
		c.t.Fatalf("%s: not a line of an example: %q", at, line)
	}
}

// receive compares the server's next message with the document's.
func (r *replay) receive(at, want string, withFD bool) {
	c := r.client
	c.t.Helper()
	text, err := c.frames.Next()
	testenv.OK(c.t, err, "%s", at)
	var got, expected any
	testenv.OK(c.t, json.Unmarshal(text, &got))
	testenv.OK(c.t, json.Unmarshal([]byte(want), &expected), "%s", at)
	testenv.Require(c.t, reflect.DeepEqual(got, filled(expected, got)), "%s: the server sent\n%s\nthe document says\n%s", at, text, want)
	_, m := testenv.Must2(replies.DecodeReply(text))(c.t)
	r.kinds[fmt.Sprintf("%T", m)] = true
	if file, is := m.(fileReply); is {
		r.file = file.Bytes
	}
	if withFD {
		c.opened = m.(openedReply)
		c.mapRing()
	} else if c.rights.file != nil {
		c.t.Fatalf("%s: a descriptor came with %s", at, text)
	}
}

// filled returns a JSON value of the document, in which what the server sent replaces each "…", unless it is empty.
func filled(want, got any) any {
	switch want := want.(type) {
	case string:
		if want == "…" && got != nil && got != "" {
			return got
		}
	case []any:
		if list, ok := got.([]any); ok && len(list) == len(want) {
			for i := range want {
				want[i] = filled(want[i], list[i])
			}
		}
	case map[string]any:
		if object, ok := got.(map[string]any); ok {
			for k := range want {
				want[k] = filled(want[k], object[k])
			}
		}
	}
	return want
}

func parseHex(t testing.TB, at, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	testenv.OK(t, err, "%s", at)
	return b
}

// TestDocumentFrame checks the frame that the document shows byte for byte.
func TestDocumentFrame(t *testing.T) {
	for _, b := range readBlocks(t) {
		if b.info != "frame" {
			continue
		}
		text, err := wire.NewReader(bytes.NewReader(parseHex(t, wireDocument, b.lines[0])), wire.RequestBytesMax).Next()
		testenv.Check(t, err == nil && string(text) == b.lines[1], "the frame holds %q, %v; the document says %q", text, err, b.lines[1])
		return
	}
	t.Error("the document shows no frame")
}

// TestDocumentNamesEveryField finds each message and each field in the document, in code marks.
func TestDocumentNamesEveryField(t *testing.T) {
	text := testenv.Must(os.ReadFile(wireDocument))(t)
	find := func(name, in string) {
		testenv.Check(t, strings.Contains(string(text), "`"+name+"`"), "the document does not explain %s of %s", name, in)
	}
	for kind := range emptyRequests() {
		find(kind, "the protocol")
	}
	for kind := range emptyReplies {
		find(kind, "the protocol")
	}
	for _, m := range append(allMessages(), status.ServedSet{}, ring.Array{}) {
		typ := reflect.TypeOf(m)
		for _, field := range reflect.VisibleFields(typ) {
			if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); field.IsExported() && !field.Anonymous && name != "-" {
				find(name, typ.Name())
			}
		}
	}
}

// allMessages returns an empty value of every message.
func allMessages() []any {
	return slices.AppendSeq(slices.Collect(maps.Values(emptyRequests())), maps.Values(emptyReplies))
}

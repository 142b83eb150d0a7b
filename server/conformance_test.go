package server

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/server/internal/ring"
	"github.com/imgfeed/imgfeed/server/internal/wire"
	"github.com/imgfeed/imgfeed/server/status"
)

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

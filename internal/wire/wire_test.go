package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func frame(t testing.TB, m Message) []byte {
	t.Helper()
	b, err := AppendFrame(nil, m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestFrameLayout(t *testing.T) {
	for _, tt := range []struct {
		m    Message
		want string
	}{
		{HelloRequest{Version: 1}, "\x1c\x00\x00\x00" + `{"type":"hello","version":1}`},
		{Stop{}, "\x0f\x00\x00\x00" + `{"type":"stop"}`},
		{Release{Slot: 0}, "\x1b\x00\x00\x00" + `{"type":"release","slot":0}`},
	} {
		if got := string(frame(t, tt.m)); got != tt.want {
			t.Errorf("%#v: %q, want %q", tt.m, got, tt.want)
		}
	}
}

func TestRoundTrip(t *testing.T) {
	seed, rank, world, slot := int64(-7), 1, 4, 0
	requests := []Message{
		HelloRequest{Version: 1},
		OpenRequest{Split: "train", Transform: json.RawMessage(`"train"`), BatchSize: 3, Seed: &seed, Shuffle: true, Rank: &rank, World: &world, Slots: 2, WithParams: true, OnError: OnErrorBlank},
		KeyRequest{Index: 5}, StartRequest{Epoch: 3, Consumed: 99}, Release{Slot: 1}, Stop{}, StatsRequest{}, LabelsRequest{}, ClassesRequest{},
	}
	replies := []Message{
		Batch{Generation: 1, Batch: 2, Count: 3, Slot: &slot, Consumed: 12}, Batch{Generation: 1, Bytes: 77, Blank: []int{2}},
		End{Generation: 9, Epoch: 2}, Error{ErrKind: KindCorrupt, Message: "m", Generation: 4}, Key{Index: 5, Key: "a/b.JPEG"},
	}
	for i, m := range append(requests, replies...) {
		text, err := NewReader(bytes.NewReader(frame(t, m)), MaxRequestBytes).Next()
		if err != nil {
			t.Fatal(err)
		}
		decode := DecodeRequest
		if i >= len(requests) {
			decode = DecodeReply
		}
		if got, err := decode(text); err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("%#v came back as %#v, %v", m, got, err)
		}
	}
}

func TestReaderRefusesBadFrames(t *testing.T) {
	header := func(n uint32) []byte { return binary.LittleEndian.AppendUint32(nil, n) }
	var syntax *SyntaxError
	for _, n := range []uint32{0, 1, MaxRequestBytes + 1, 1 << 31, 1<<32 - 1} {
		if _, err := NewReader(bytes.NewReader(header(n)), MaxRequestBytes).Next(); !errors.As(err, &syntax) {
			t.Errorf("length %d: %v, want a SyntaxError", n, err)
		}
	}
	whole := frame(t, HelloRequest{Version: 1})
	for cut := range whole {
		_, err := NewReader(bytes.NewReader(whole[:cut]), MaxRequestBytes).Next()
		if want := map[bool]error{true: io.EOF, false: io.ErrUnexpectedEOF}[cut == 0]; err != want {
			t.Errorf("cut at %d: %v, want %v", cut, err, want)
		}
	}
}

func TestDecodeRequestErrors(t *testing.T) {
	for _, tt := range []struct {
		text   string
		syntax bool
		want   string
	}{
		{`nonsense`, true, "not a JSON object"},
		{`[1]`, true, "not a JSON object"},
		{`null`, true, "not a JSON object"},
		{`{"type":"stop"} {}`, true, "not a JSON object"},
		{`{}`, false, "without a"},
		{`{"type":7}`, false, "without a"},
		{`{"type":"batch"}`, false, "unknown message type"},
		{`{"type":"open","bach_size":3}`, false, "bach_size"},
		{`{"type":"release","slot":"one"}`, false, `field "slot" cannot be a string`},
		{`{"type":"release","slot":1.5}`, false, `field "slot"`},
		{`{"type":"start","epoch":99999999999999999999}`, false, `field "epoch"`},
	} {
		_, err := DecodeRequest([]byte(tt.text))
		var syntax *SyntaxError
		var request *RequestError
		if tt.syntax != errors.As(err, &syntax) || tt.syntax == errors.As(err, &request) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %T %v, want syntax=%v and %q", tt.text, err, err, tt.syntax, tt.want)
		}
	}
}

func TestDecodeReplyIgnoresUnknownFields(t *testing.T) {
	if m, err := DecodeReply([]byte(`{"type":"end","generation":2,"epoch":1,"later":true}`)); err != nil || m != (End{2, 1}) {
		t.Errorf("got %#v, %v", m, err)
	}
}

func TestRights(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.DialUnix("unix", nil, l.Addr().(*net.UnixAddr))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := l.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()

	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	f.WriteString("shared")

	// A message before and one after; only the middle one carries the descriptor. It is larger than a socket buffer.
	long := Classes{Classes: []string{strings.Repeat("x", 1<<20)}}
	go func() {
		server.Write(frame(t, End{Generation: 1}))
		WriteRights(server, frame(t, long), f)
		server.Write(frame(t, End{Generation: 2}))
	}()
	rr := NewRightsReader(client)
	r := NewReader(rr, MaxReplyBytes)
	for i, wantFiles := range []int{0, 1, 0} {
		text, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		files := rr.Take()
		if len(files) != wantFiles {
			t.Fatalf("message %d (%.30s) came with %d descriptors, want %d", i, text, len(files), wantFiles)
		}
		for _, got := range files {
			content := make([]byte, 6)
			if _, err := got.ReadAt(content, 0); err != nil || string(content) != "shared" {
				t.Errorf("the received file holds %q, %v", content, err)
			}
			got.Close()
		}
	}
}

func FuzzDecodeRequest(f *testing.F) {
	for _, m := range Requests() {
		f.Add(frame(f, m)[headerBytes:])
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := DecodeRequest(text)
		if err != nil {
			return
		}
		again, err := DecodeRequest(frame(t, m)[headerBytes:])
		if err != nil || again.Kind() != m.Kind() {
			t.Errorf("%q decodes to %#v, which does not survive encoding: %v", text, m, err)
		}
	})
}

package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
)

// Messages to test with.
type (
	greeting struct {
		Version int `json:"version"`
	}
	slot struct {
		Slot  int `json:"slot"`
		Epoch int `json:"epoch,omitempty"`
	}
	bare struct{}
)

var testMessages = NewMessages(map[string]any{"hello": greeting{}, "release": slot{}, "stop": bare{}})

func frame(t testing.TB, m any) []byte {
	t.Helper()
	b, err := testMessages.AppendFrame(nil, m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestReaderRefusesBadFrames(t *testing.T) {
	header := func(n uint32) []byte { return binary.LittleEndian.AppendUint32(nil, n) }
	var syntax *SyntaxError
	for _, n := range []uint32{0, 1, RequestBytesMax + 1, 1 << 31, 1<<32 - 1} {
		if _, err := NewReader(bytes.NewReader(header(n)), RequestBytesMax).Next(); !errors.As(err, &syntax) {
			t.Errorf("length %d: %v, want a SyntaxError", n, err)
		}
	}
	whole := frame(t, greeting{Version: 1})
	for cut := range whole {
		_, err := NewReader(bytes.NewReader(whole[:cut]), RequestBytesMax).Next()
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
		{`{"type":"release","slod":3}`, false, "slod"},
		{`{"type":"release","slot":"one"}`, false, `field "slot" cannot be a string`},
		{`{"type":"release","slot":1.5}`, false, `field "slot"`},
		{`{"type":"release","epoch":99999999999999999999}`, false, `field "epoch"`},
	} {
		_, _, err := testMessages.DecodeRequest([]byte(tt.text))
		var syntax *SyntaxError
		var request *RequestError
		if tt.syntax != errors.As(err, &syntax) || tt.syntax == errors.As(err, &request) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %T %v, want syntax=%v and %q", tt.text, err, err, tt.syntax, tt.want)
		}
	}
}

func TestDecodeReplyIgnoresUnknownFields(t *testing.T) {
	if _, m, err := testMessages.DecodeReply([]byte(`{"type":"release","slot":2,"epoch":1,"later":true}`)); err != nil || m != (slot{2, 1}) {
		t.Errorf("got %#v, %v", m, err)
	}
}

package wire

import (
	"errors"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
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
		testenv.Check(t, tt.syntax == errors.As(err, &syntax) && tt.syntax != errors.As(err, &request) && strings.Contains(err.Error(), tt.want),
			"%s: %T %v, want syntax=%v and %q", tt.text, err, err, tt.syntax, tt.want)
	}
}

func TestDecodeReplyIgnoresUnknownFields(t *testing.T) {
	_, m, err := testMessages.DecodeReply([]byte(`{"type":"release","slot":2,"epoch":1,"later":true}`))
	testenv.Check(t, err == nil && m == (slot{2, 1}), "got %#v, %v", m, err)
}

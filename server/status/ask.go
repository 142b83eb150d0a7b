package status

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/imgfeed/imgfeed/server/internal/wire"
)

// messages are those that are sent.
var messages = wire.NewMessages(map[string]any{"hello": hello{}, "status": look{}, "reload": reload{}})

type (
	hello struct {
		Version int `json:"version"`
	}
	look struct {
		Since float64 `json:"since,omitempty"`
	}
	reload struct{}
)

// Ask asks the server on a socket what it is doing, with the history after the moment since; the answer must come in
// time.
func Ask(socket string, timeout time.Duration, since float64) (answer Status, err error) {
	err = request(socket, timeout, look{since}, "status", &answer)
	return answer, err
}

// AskReload has the server on a socket reload, and returns what has changed. The answer must come in time.
func AskReload(socket string, timeout time.Duration) (changes []string, err error) {
	var answer Reloaded
	err = request(socket, timeout, reload{}, "reloaded", &answer)
	return answer.Changes, err
}

// request says hello to the server on a socket, sends it one request, and decodes its answer, which is of the wanted kind.
func request(socket string, timeout time.Duration, message any, want string, answer any) error {
	if err := wire.CheckPath(socket); err != nil {
		return err
	}
	conn, err := net.DialTimeout("unix", socket, timeout)
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(timeout))
	frames := wire.NewReader(conn, wire.ReplyBytesMax)
	for _, step := range []struct {
		send   any
		want   string
		answer any
	}{{hello{wire.Version}, "hello", new(struct{})}, {message, want, answer}} {
		frame, err := messages.AppendFrame(nil, step.send)
		if err != nil {
			return err
		}
		if _, err := conn.Write(frame); err != nil {
			return err
		}
		text, err := frames.Next()
		if err != nil {
			return err
		}
		if err := decode(text, step.want, step.answer); err != nil {
			return err
		}
	}
	return nil
}

// decode reads an answer. One that tells of an error is that error.
func decode(text []byte, want string, answer any) error {
	var head struct{ Type, Message string }
	if err := json.Unmarshal(text, &head); err != nil {
		return &wire.SyntaxError{Msg: "not a JSON object: " + err.Error()}
	}
	switch head.Type {
	case "error":
		return errors.New(head.Message)
	case want:
		return json.Unmarshal(text, answer)
	}
	return fmt.Errorf("it answers with a message of type %q", cmp.Or(head.Type, "none"))
}

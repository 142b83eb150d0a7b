package status

import (
	"errors"
	"net"
	"time"

	"github.com/imgfeed/imgfeed/server/internal/wire"
)

type (
	hello struct {
		Version int `json:"version"`
	}
	look struct {
		Since float64 `json:"since,omitempty"`
	}
	reload  struct{}
	failure struct {
		Message string `json:"message"`
	}
)

var (
	requests = wire.NewMessages(map[string]any{"hello": hello{}, "status": look{}, "reload": reload{}})
	answers  = wire.NewMessages(map[string]any{"hello": hello{}, "status": Status{}, "reloaded": Reloaded{}, "error": failure{}})
)

// Ask asks the server on a socket what it is doing, with the history after the moment since; the answer must come in
// time.
func Ask(socket string, timeout time.Duration, since float64) (Status, error) {
	return request[Status](socket, timeout, look{since})
}

// AskReload has the server on a socket reload, and returns what has changed. The answer must come in time.
func AskReload(socket string, timeout time.Duration) (changes []string, err error) {
	answer, err := request[Reloaded](socket, timeout, reload{})
	return answer.Changes, err
}

// request says hello to the server on a socket, sends it one request, and returns its answer.
func request[M any](socket string, timeout time.Duration, message any) (answer M, err error) {
	if err := wire.CheckPath(socket); err != nil {
		return answer, err
	}
	conn, err := net.DialTimeout("unix", socket, timeout)
	if err != nil {
		return answer, err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(timeout))
	frames := wire.NewReader(conn, wire.ReplyBytesMax)
	for _, m := range []any{hello{wire.Version}, message} {
		frame, err := requests.AppendFrame(nil, m)
		if err != nil {
			return answer, err
		}
		if _, err := conn.Write(frame); err != nil {
			return answer, err
		}
		text, err := frames.Next()
		if err != nil {
			return answer, err
		}
		_, reply, err := answers.DecodeReply(text)
		if err != nil {
			return answer, err
		}
		switch reply := reply.(type) {
		case failure:
			return answer, errors.New(reply.Message)
		case M:
			return reply, nil
		}
	}
	return answer, errors.New("it sends something else than the answer")
}

package status

import (
	"net"
	"time"

	"github.com/imgfeed/imgfeed/server/internal/wire"
)

// A Request asks a server what it is doing. It takes no session.
type Request struct {
	// Since leaves out of the history what the asker has already: everything up to this moment.
	Since float64 `json:"since,omitempty"`
}

// Reload asks a server to look for its sets again.
type Reload struct{}

var (
	requests = wire.NewMessages(map[string]any{"hello": wire.Hello{}, "status": Request{}, "reload": Reload{}})
	answers  = wire.NewMessages(map[string]any{"hello": wire.Hello{}, "status": Status{}, "reloaded": Reloaded{}, "error": wire.Refusal{}})
)

// Ask asks the server on a socket what it is doing, with the history after the moment since; the answer must come in
// time.
func Ask(socket string, timeout time.Duration, since float64) (Status, error) {
	return request[Status](socket, timeout, Request{since})
}

// AskReload has the server on a socket reload, and returns what has changed. The answer must come in time.
func AskReload(socket string, timeout time.Duration) (changes []string, err error) {
	answer, err := request[Reloaded](socket, timeout, Reload{})
	return answer.Changes, err
}

// request says hello to the server on a socket, sends it one request, and returns its answer. The connection has one deadline for all of
// that, so a server that hangs is an error in time.
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
	if _, err := wire.Ask[wire.Hello](conn, frames, requests, answers, wire.Hello{Version: wire.Version}); err != nil {
		return answer, err
	}
	return wire.Ask[M](conn, frames, requests, answers, message)
}

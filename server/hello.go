package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/imgfeed/imgfeed/internal/wire"
	"github.com/imgfeed/imgfeed/shard"
)

// helloRequest is the first message of every connection.
type helloRequest struct {
	Version int `json:"version"`
}

// Hello is a server's answer to a client's first message: what it is, and what it serves.
type Hello struct {
	Version int         `json:"version"` // of the protocol, that both will speak
	Server  string      `json:"server"`  // name and version of the program
	PID     int         `json:"pid"`
	Rank    *int        `json:"rank,omitempty"`  // what a session gets that names no rank; absent when the server has no such default
	World   *int        `json:"world,omitempty"` // the same for world
	Sets    []ServedSet `json:"sets"`
}

// ServedSet describes one split that a server can serve.
type ServedSet struct {
	Split       string          `json:"split"`
	Samples     int             `json:"samples"`          // N
	Classes     int             `json:"classes"`          // how many; their names come by classes
	Partitions  int             `json:"partitions"`       // how many the set has
	Fingerprint string          `json:"fingerprint"`      // hex SHA-256 of what is served in what order
	Encoding    json.RawMessage `json:"encoding"`         // {"name":"jpeg"} and its parameters
	Fields      shard.Fields    `json:"fields,omitempty"` // what samples have beside the label
	Here        []int           `json:"partitions_here"`  // those that this server has, and whole
}

// Kind implements [wire.Message].
func (helloRequest) Kind() string { return "hello" }

// Kind implements [wire.Message].
func (Hello) Kind() string { return "hello" }

// A versionError means that the client speaks another version of the protocol.
type versionError struct{ version int }

func (e *versionError) Error() string {
	return fmt.Sprintf("the client speaks version %d of the protocol, this server version %d: bring imgfeed and its client package to the same release", e.version, wire.Version)
}

func (c *connection) hello(m helloRequest) error {
	if c.greeted {
		return badRequest("hello was said already")
	}
	if m.Version != wire.Version {
		return &versionError{m.Version}
	}
	c.greeted = true
	return c.send(c.server.hello())
}

func (s *Server) hello() Hello {
	h := Hello{Version: wire.Version, Server: s.cfg.Name, PID: os.Getpid(), Sets: s.Sets()}
	if s.cfg.World > 0 {
		h.Rank, h.World = &s.cfg.Rank, &s.cfg.World
	}
	return h
}

// Sets describes what is served, in the splits' order.
func (s *Server) Sets() []ServedSet {
	c := s.catalog.Load()
	list := make([]ServedSet, 0, len(c.splits))
	for _, split := range c.splits {
		list = append(list, describeSet(c.sets[split].Set))
	}
	return list
}

func describeSet(set *shard.Set) ServedSet {
	m := set.Manifest()
	d := ServedSet{
		Split: m.Split, Samples: set.Len(), Classes: len(m.Classes), Partitions: set.Partitions(), Fingerprint: m.Fingerprint, Fields: m.Fields, Here: []int{},
	}
	d.Encoding, _ = json.Marshal(m.Encoding) // it was JSON when it was read
	for partition := range set.Partitions() {
		if set.Has(partition) {
			d.Here = append(d.Here, partition)
		}
	}
	return d
}

// Ask says hello to the server on a socket and returns its answer, which must come in time.
func Ask(socket string, timeout time.Duration) (Hello, error) {
	return ask[Hello](socket, timeout)
}

// ask says hello to the server on a socket, sends it one more request if there is one, and returns its last answer.
func ask[Reply wire.Message](socket string, timeout time.Duration, request ...wire.Message) (answer Reply, err error) {
	if err := checkSocketPath(socket); err != nil {
		return answer, err
	}
	conn, err := net.DialTimeout("unix", socket, timeout)
	if err != nil {
		return answer, err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(timeout))
	frames := wire.NewReader(conn, wire.ReplyBytesMax)
	var reply wire.Message
	for _, m := range append([]wire.Message{helloRequest{Version: wire.Version}}, request...) {
		frame, err := wire.AppendFrame(nil, m)
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
		if reply, err = replyTypes.DecodeReply(text); err != nil {
			return answer, err
		}
		if failed, ok := reply.(errorMessage); ok {
			return answer, errors.New(failed.Message)
		}
	}
	answer, ok := reply.(Reply)
	if !ok {
		return answer, fmt.Errorf("it answers with a message of type %q", reply.Kind())
	}
	return answer, nil
}

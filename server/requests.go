package server

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/imgfeed/imgfeed/server/internal/wire"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/encoding/registry"
)

// requests are the messages that clients send, each with the method that serves it. A message is added by its types, its
// method, a line here and one in replies if it has a reply; docs/format/wire.md explains it with an example.
var requests = map[string]request{
	"hello":   before((*connection).hello),
	"status":  greeted((*connection).status),
	"open":    greeted((*connection).open),
	"reload":  greeted((*connection).reload),
	"labels":  inSession((*session).labels),
	"classes": inSession((*session).classes),
	"key":     inSession((*session).key),
	"sample":  inSession((*session).sample),
	"values":  inSession((*session).values),
	"records": inSession((*session).records),
	"order":   inSession((*session).order),
	"select":  inSession((*session).selectSamples),
	"start":   inSession((*session).start),
	"release": inSession((*session).release),
	"stop":    inSession((*session).stop),
	"stats":   inSession((*session).stats),
}

// emptyReplies are the messages that the server sends, by kind.
var emptyReplies = map[string]any{
	"hello":    helloReply{},
	"error":    errorMessage{},
	"status":   Status{},
	"opened":   openedReply{},
	"reloaded": Reloaded{},
	"labels":   labelsReply{},
	"classes":  classesReply{},
	"key":      keyReply{},
	"sample":   sampleReply{},
	"values":   valuesReply{},
	"records":  recordsReply{},
	"order":    orderReply{},
	"selected": selectedReply{},
	"started":  startedReply{},
	"batch":    batchMessage{},
	"end":      endMessage{},
	"stats":    statsReply{},
}

var (
	requestMessages = wire.NewMessages(emptyRequests())
	replies         = wire.NewMessages(emptyReplies)
)

func emptyRequests() map[string]any {
	empty := map[string]any{}
	for kind, r := range requests {
		empty[kind] = r.empty
	}
	return empty
}

// A request is how messages of one kind are served. The error of serve is the reply.
type request struct {
	empty any
	serve func(c *connection, kind string, message any) error
}

// before is a request that may come before hello.
func before[M any](serve func(*connection, M) error) request {
	var empty M
	return request{empty, func(c *connection, _ string, m any) error { return serve(c, m.(M)) }}
}

// greeted is a request that comes after hello.
func greeted[M any](serve func(*connection, M) error) request {
	return before(func(c *connection, m M) error {
		if !c.greeted {
			return badRequest("the first message must be hello")
		}
		return serve(c, m)
	})
}

// inSession is a request of an open session.
func inSession[M any](serve func(*session, M) error) request {
	r := greeted(func(c *connection, m M) error { return serve(c.session.Load(), m) })
	then := r.serve
	r.serve = func(c *connection, kind string, m any) error {
		if c.greeted && c.session.Load() == nil {
			return badRequest("%s needs an open session: send open first", kind)
		}
		return then(c, kind, m)
	}
	return r
}

// An announcer is a request that raw bytes follow.
type announcer interface {
	// followed returns their number. An error ends the connection, as nobody knows then where the next request begins.
	followed() (int64, error)
}

// handle serves one request. An error is the reply to it.
func (c *connection) handle(kind string, m any) error {
	if a, ok := m.(announcer); ok {
		n, err := a.followed()
		if err != nil {
			return &lostError{err}
		}
		c.body = io.LimitReader(c.in, n)
		defer io.Copy(io.Discard, c.body) // what a request that failed has left of it
	}
	return requests[kind].serve(c, kind, m)
}

// helloRequest is the first message of every connection.
type helloRequest struct {
	Version int `json:"version"`
}

// helloReply answers [helloRequest]: what the server is, and what it serves.
type helloReply struct {
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
	Stored      string          `json:"stored"`           // the encoding in words, such as "original"
	KeepsFiles  bool            `json:"keeps_files"`      // records are the files' own bytes
	Fields      shard.Fields    `json:"fields,omitempty"` // what samples have beside the label
	Here        []int           `json:"partitions_here"`  // those that this server has, and whole
}

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
	s := c.server
	reply := helloReply{Version: wire.Version, Server: s.cfg.Name, PID: os.Getpid(), Sets: s.Sets()}
	if s.cfg.World > 0 {
		reply.Rank, reply.World = &s.cfg.Rank, &s.cfg.World
	}
	return c.send(reply)
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
	d.Stored = registry.Describe(m.Encoding)
	if e, err := registry.Open(m.Encoding); err == nil {
		d.KeepsFiles = e.HoldsOriginals()
	}
	for partition := range set.Partitions() {
		if set.Has(partition) {
			d.Here = append(d.Here, partition)
		}
	}
	return d
}

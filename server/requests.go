package server

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/imgfeed/imgfeed/loader/plan"
	"github.com/imgfeed/imgfeed/server/internal/wire"
	"github.com/imgfeed/imgfeed/server/status"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/encoding/registry"
	"github.com/imgfeed/imgfeed/transform"
)

// requests are the messages that clients send, each with the method that serves it. A message is added by its types, its
// method, a line here and one in replies if it has a reply; docs/format/wire.md explains it with an example.
var requests = map[string]request{
	"hello":   ofConnection((*connection).hello),
	"status":  ofConnection((*connection).status),
	"open":    ofConnection((*connection).open),
	"reload":  ofConnection((*connection).reload),
	"labels":  ofSession((*session).labels),
	"classes": ofSession((*session).classes),
	"key":     ofSample[keyRequest]((*session).key),
	"sample":  ofSample[sampleRequest]((*session).sample),
	"file":    ofSample[fileRequest]((*session).file),
	"values":  ofSample[valuesRequest]((*session).values),
	"records": ofSession((*session).records),
	"order":   ofSession((*session).order),
	"select":  ofSession((*session).selectSamples),
	"change":  ofSession((*session).change),
	"start":   ofSession((*session).start),
	"release": ofSession((*session).release),
	"stop":    ofSession((*session).stop),
	"stats":   ofSession((*session).stats),
}

// emptyReplies are the messages that the server sends, by kind.
var emptyReplies = map[string]any{
	"hello":    helloReply{},
	"error":    errorMessage{},
	"status":   status.Status{},
	"opened":   openedReply{},
	"reloaded": status.Reloaded{},
	"labels":   labelsReply{},
	"classes":  classesReply{},
	"key":      keyReply{},
	"sample":   sampleReply{},
	"file":     fileReply{},
	"values":   valuesReply{},
	"records":  recordsReply{},
	"order":    orderReply{},
	"selected": selectedReply{},
	"changed":  changedReply{},
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

// A request is how messages of one kind are served: by the goroutine of the connection, one after the other. The error of serve is the
// reply.
type request struct {
	empty     any
	inSession bool // only after open
	serve     func(c *connection, message any) error
}

func ofConnection[M any](serve func(*connection, M) error) request {
	var empty M
	return request{empty, false, func(c *connection, m any) error { return serve(c, m.(M)) }}
}

func ofSession[M any](serve func(*session, M) error) request {
	r := ofConnection(func(c *connection, m M) error { return serve(c.session.Load(), m) })
	r.inSession = true
	return r
}

// handle serves one request. An error is the reply to it. Every request is checked before it changes anything, so the client may go on
// after an error, and what follows a request on the wire is read whatever becomes of it.
func (c *connection) handle(kind string, m any) error {
	if s, ok := m.(selectRequest); ok {
		n, err := s.followed()
		if err != nil {
			return err
		}
		c.body = io.LimitReader(c.in, n)
		defer io.Copy(io.Discard, c.body) // what a request that failed has left of it
	}
	r := requests[kind]
	switch {
	case kind != "hello" && !c.greeted:
		return badRequest("the first message must be hello")
	case r.inSession && c.session.Load() == nil:
		return badRequest("%s needs an open session: send open first", kind)
	}
	return r.serve(c, m)
}

// helloReply answers [wire.Hello]: what the server is, and what it serves.
type helloReply struct {
	Version int                `json:"version"` // version of the protocol for both
	Server  string             `json:"server"`  // name and version of the program
	PID     int                `json:"pid"`
	Sets    []status.ServedSet `json:"sets"`

	// Operations are those that transforms may hold, with their parameters.
	Operations []transform.Schema `json:"operations"`
	// Waits are the words that waiting_for may be, the most urgent first.
	Waits []status.WaitingFor `json:"waits"`
	// Limits are the largest values of members of requests, by name; request_bytes is of a request itself.
	Limits map[string]int `json:"limits"`
}

var limits = map[string]int{
	"batch_size": plan.BatchSizeMax, "world": plan.WorldMax, "slots": slotsMax, "size": transform.SizeMax,
	"repeats": plan.RepeatsMax, "positions": plan.SamplesMax, "request_bytes": wire.RequestBytesMax,
}

// hello comes first and once. Until then the connection serves no other request, and any error ends it: the peer may speak another
// protocol.
func (c *connection) hello(m wire.Hello) error {
	if c.greeted {
		return badRequest("hello was said already")
	}
	if m.Version != wire.Version {
		return &kindError{fmt.Errorf("the client speaks version %d of the protocol, this server version %d: "+
			"bring imgfeed and its client package to the same release", m.Version, wire.Version), kindUnsupported}
	}
	c.greeted = true
	s, catalog := c.server, c.server.catalog.Load()
	reply := helloReply{
		Version: wire.Version, Server: s.cfg.Name, PID: os.Getpid(), Sets: []status.ServedSet{},
		Operations: transform.Schemas(), Waits: status.Waits, Limits: limits,
	}
	for _, split := range catalog.splits {
		reply.Sets = append(reply.Sets, catalog.sets[split].described.ServedSet)
	}
	return c.send(reply)
}

// describeSet describes a set that is served.
func describeSet(set *shard.Set) status.ServedSet {
	m := set.Manifest()
	d := status.ServedSet{
		Split: m.Split, Samples: set.Len(), Classes: len(m.Classes), Partitions: set.Partitions(),
		Fingerprint: m.Fingerprint, Content: m.Content, Fields: m.Fields, Here: []int{},
	}
	d.Encoding, _ = json.Marshal(registry.Named(m.Encoding)) // it was JSON when it was read
	d.Stored = registry.Describe(m.Encoding)
	if e, err := registry.Open(m.Encoding); err == nil {
		d.KeepsFiles = e.HoldsOriginals()
	}
	d.Joined = set.Parts()
	for partition := range set.Partitions() {
		if set.Has(partition) {
			d.Here = append(d.Here, partition)
		}
	}
	return d
}

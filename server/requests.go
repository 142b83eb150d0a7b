package server

import (
	"io"
	"slices"

	"github.com/imgfeed/imgfeed/internal/wire"
)

// requests are the messages that clients send, each with what serves it and with the messages that it brings about. A message is
// added by a file that holds its types and its method, and by a line here; docs/format/wire.md explains it with an example.
var requests = []request{
	before((*connection).hello, Hello{}, errorMessage{}),
	greeted((*connection).status, Status{}),
	greeted((*connection).open, openedReply{}),
	greeted((*connection).reload, Reloaded{}),
	inSession((*session).labels, labelsReply{}),
	inSession((*session).classes, classesReply{}),
	inSession((*session).key, keyReply{}),
	inSession((*session).sample, sampleReply{}),
	inSession((*session).values, valuesReply{}),
	inSession((*session).records, recordsReply{}),
	inSession((*session).order, orderReply{}),
	inSession((*session).selectSamples, selectedReply{}),
	inSession((*session).start, startedReply{}, batchMessage{}, endMessage{}),
	inSession((*session).release),
	inSession((*session).stop),
	inSession((*session).stats, statsReply{}),
}

// A request is a message that clients send.
type request struct {
	message wire.Message // an empty one
	replies []wire.Message
	serve   func(*connection, wire.Message) error // an error is the reply
}

// before is a request that comes before anything else.
func before[M wire.Message](serve func(*connection, M) error, replies ...wire.Message) request {
	var empty M
	return request{empty, replies, func(c *connection, m wire.Message) error { return serve(c, m.(M)) }}
}

// greeted is a request that comes after hello.
func greeted[M wire.Message](serve func(*connection, M) error, replies ...wire.Message) request {
	return before(func(c *connection, m M) error {
		if !c.greeted {
			return badRequest("the first message must be hello")
		}
		return serve(c, m)
	}, replies...)
}

// inSession is a request of an open session.
func inSession[M wire.Message](serve func(*session, M) error, replies ...wire.Message) request {
	return greeted(func(c *connection, m M) error {
		s := c.session.Load()
		if s == nil {
			return badRequest("%s needs an open session: send open first", m.Kind())
		}
		return serve(s, m)
	}, replies...)
}

var (
	requestTypes = wire.NewTypes(messagesOf(func(r request) []wire.Message { return []wire.Message{r.message} })...)
	replyTypes   = wire.NewTypes(messagesOf(func(r request) []wire.Message { return r.replies })...)
)

func messagesOf(pick func(request) []wire.Message) (list []wire.Message) {
	for _, r := range requests {
		list = append(list, pick(r)...)
	}
	return list
}

// handle serves one request. An error is the reply to it.
func (c *connection) handle(m wire.Message) error {
	i := slices.IndexFunc(requests, func(r request) bool { return r.message.Kind() == m.Kind() })
	if a, ok := m.(announcer); ok {
		n, err := a.followed()
		if err != nil {
			return &lostError{err}
		}
		c.body = io.LimitReader(c.in, n)
		defer io.Copy(io.Discard, c.body) // what a request that failed has left of it
	}
	return requests[i].serve(c, m) // it was decoded as one of them
}

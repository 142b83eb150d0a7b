package server

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/imgfeed/imgfeed/internal/termsafe"
	"github.com/imgfeed/imgfeed/server/feeder"
	"github.com/imgfeed/imgfeed/server/internal/wire"
)

// goodbyeTimeout bounds how long a client that does not read can delay the end of its connection.
const goodbyeTimeout = 200 * time.Millisecond

// A connection is one client's: a goroutine that serves its requests in order, and what was opened on it.
//
// That goroutine alone reads from the client, and opens and closes the session. Three goroutines write: this one, that of the running
// epoch, and the one that says goodbye when the server ends. writeMu lets one message pass at a time, with the raw bytes that follow it.
//
// A writer may wait for the client for as long as the connection is open, and the others wait for writeMu. So whoever ends a connection
// sets a deadline, or closes it, before it waits for anybody.
type connection struct {
	server *Server
	id     uint64
	ctx    context.Context // ends with the server
	conn   *net.UnixConn
	pid    int // the client's process, 0 if it is not known
	log    *slog.Logger

	writeMu sync.Mutex
	frame   []byte // header and JSON of the message being sent; guarded by writeMu

	// Of the goroutine that serves the client:
	in      io.Reader // what the client sends
	body    io.Reader // the raw bytes that follow the request at hand
	greeted bool

	session atomic.Pointer[session] // nil until it is opened, and once it is to be closed; anybody may load it
}

// errHangUp ends a connection whose last message has been sent.
var errHangUp = errors.New("connection ended")

// run serves the connection until it or ctx ends, and frees what the client had. The connection is closed first, the session is taken from
// those who look for it, and then it ends.
func (c *connection) run(ctx context.Context) {
	defer context.AfterFunc(ctx, c.sayGoodbye)()
	c.log.Debug("connected")
	err := c.serve()
	c.conn.Close() // first, since the epoch may be stuck in a write
	inEpoch := false
	if s := c.session.Swap(nil); s != nil {
		inEpoch = s.epoch != nil
		s.close()
	}
	if ctx.Err() != nil || errors.Is(err, io.EOF) || errors.Is(err, errHangUp) || !inEpoch {
		// A client that leaves batches unread resets the connection.
		c.log.Debug("disconnected")
		return
	}
	c.log.Info("connection lost", "err", err)
}

// serve reads and answers requests, until the client leaves, the connection breaks, or an answer has ended it. A request that is not
// understood is answered like one that fails. Only where its end is unknown, nothing that follows it can be read.
func (c *connection) serve() error {
	c.in = bufio.NewReader(c.conn)
	r := wire.NewReader(c.in, wire.RequestBytesMax)
	for {
		text, err := r.Next()
		if is[*wire.SyntaxError](err) {
			return c.fatal("", err)
		}
		if err != nil {
			return err
		}
		kind, m, err := requestMessages.DecodeRequest(text)
		if err == nil {
			err = feeder.Guard(c.log, func() error { return c.handle(kind, m) })
		} else if kind == "select" {
			err = &wire.SyntaxError{Msg: err.Error()} // nobody knows how much follows it
		}
		if err != nil {
			if err = c.answerError(kind, err); err != nil {
				return err
			}
		}
	}
}

// answerError sends what went wrong with a request. It returns an error if the connection cannot go on: nobody knows where the next request
// begins, a bug may have left the session half changed, or the peer is not one of imgfeed's.
func (c *connection) answerError(request string, err error) error {
	if is[*wire.SyntaxError](err) || is[*feeder.BugError](err) || !c.greeted {
		return c.fatal(request, err)
	}
	if errors.Is(err, errHangUp) || errors.Is(err, net.ErrClosed) || is[*net.OpError](err) {
		return err
	}
	c.server.totals.AddError(kindOf(err))
	c.log.Info("request failed", "request", request, "err", err)
	return c.send(errorMessage{ErrKind: kindOf(err), Message: termsafe.Message(err.Error()), Request: request})
}

// fatal sends a last error, as far as the client reads it.
func (c *connection) fatal(request string, err error) error {
	c.server.totals.AddError(kindOf(err))
	c.log.Warn("ending the connection", "request", request, "err", err)
	c.conn.SetWriteDeadline(time.Now().Add(goodbyeTimeout))
	c.send(errorMessage{ErrKind: kindOf(err), Message: termsafe.Message(err.Error()), Fatal: true, Request: request})
	return errHangUp
}

// sayGoodbye tells the client that the server stops, unless it is not reading, and ends the connection. It runs beside the goroutine that
// serves the client, whose next read fails then.
func (c *connection) sayGoodbye() {
	defer c.conn.Close()
	c.conn.SetWriteDeadline(time.Now().Add(goodbyeTimeout)) // the deadline holds for a message in flight, too
	c.send(errorMessage{ErrKind: kindStopped, Message: "imgfeed was stopped", Fatal: true})
}

// send writes one message, and the bytes that follow it, by one call of the system where that takes all. Whoever calls it may change m and
// raw once it has returned.
func (c *connection) send(m any, raw ...[]byte) error {
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	if err := c.encode(m); err != nil {
		return err
	}
	buffers := append(net.Buffers{c.frame}, raw...)
	_, err := buffers.WriteTo(c.conn)
	return err
}

// sendArray writes one message, and after it the numbers that write makes, a piece at a time. If write fails, the connection ends
// without another message: the client would take it for numbers.
func (c *connection) sendArray(m any, write func(*bufio.Writer) error) error {
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	if err := c.encode(m); err != nil {
		return err
	}
	w := bufio.NewWriterSize(c.conn, 64<<10)
	if _, err := w.Write(c.frame); err != nil {
		return err
	}
	if err := write(w); err != nil {
		c.log.Warn("ending the connection in the middle of a reply", "err", err)
		return errHangUp
	}
	return w.Flush()
}

// encode puts m's frame into c.frame; writeMu is held.
func (c *connection) encode(m any) (err error) {
	c.frame, err = replies.AppendFrame(c.frame[:0], m)
	return err
}

// errorMessage says what went wrong. As the reply to a request it carries the request's type; as the end of an epoch it
// carries its generation. After a fatal one the server closes the connection.
type errorMessage struct {
	ErrKind    string `json:"kind"`
	Message    string `json:"message"`
	Fatal      bool   `json:"fatal"`
	Request    string `json:"request,omitempty"`
	Generation uint64 `json:"generation,omitempty"`
}

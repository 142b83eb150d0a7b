package server

import (
	"bufio"
	"context"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"reflect"
	"runtime/debug"
	"time"

	"github.com/imgfeed/imgfeed/loader"
	"github.com/imgfeed/imgfeed/server/internal/ring"
	"github.com/imgfeed/imgfeed/server/internal/wire"
	"github.com/imgfeed/imgfeed/transform"
)

const (
	// helloTimeout bounds how long a peer may take to say who it is, and messageTimeout how long for a message once it has begun, or to take one.
	helloTimeout   = 5 * time.Second
	messageTimeout = 10 * time.Second
	// feedsMax is how many sessions' feeds a connection remembers.
	feedsMax = 64
)

// Feed makes pieces of batches for servers on other machines until ctx ends, and then returns nil, or the listener's error. It closes the listener.
// It keeps nothing of who asks: each piece comes with all that its samples depend on.
func (s *Server) Feed(ctx context.Context, l net.Listener) error {
	defer s.running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		s.stopping.Store(true)
		l.Close()
	})()
	s.feeding.is.Store(true)
	s.running.Go(func() { s.watch(ctx) })
	connections := &s.feeding.connections
	for {
		conn, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				conn.Close()
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil || connections.Load() >= feedConnectionsMax:
			if err == nil {
				conn.Close()
			}
			s.warnings.warn(s.log, "accept", "a connection was not accepted", "connections", connections.Load(), "err", err)
			time.Sleep(10 * time.Millisecond)
			continue
		}
		connections.Add(1)
		s.running.Go(func() {
			defer connections.Add(-1)
			secured, token, err := s.feedAccess().secure(conn)
			if err != nil {
				conn.Close()
				s.warnings.warn(s.log, "secure", "a connection was not accepted", "err", err)
				return
			}
			newFeedConnection(s, secured, token).run(ctx)
		})
	}
}

// A feedConnection is one of a server's, to this feeder.
type feedConnection struct {
	server *Server
	conn   net.Conn
	token  string // that the server must show
	log    *slog.Logger
	in     *bufio.Reader
	frames *wire.Reader
	feeds  map[string]*feed // by the text of their requests
	memory []byte           // of the piece
	piece  loader.Piece
	parts  [][]byte
}

// A feed is what a session of another server makes of a set of this one.
type feed struct {
	openConfig
	cfg loader.StreamConfig
}

func newFeedConnection(s *Server, conn net.Conn, token string) *feedConnection {
	c := &feedConnection{server: s, conn: conn, token: token, log: s.log.With("peer", conn.RemoteAddr().String()), feeds: map[string]*feed{}}
	c.in = bufio.NewReaderSize(conn, requestBufferBytes)
	c.frames = wire.NewReader(c.in, wire.RequestBytesMax)
	return c
}

// run serves the connection until it or ctx ends.
func (c *feedConnection) run(ctx context.Context) {
	defer context.AfterFunc(ctx, func() { c.conn.Close() })()
	defer c.forget()
	defer c.conn.Close()
	request, err := c.serve(ctx)
	switch {
	case ctx.Err() != nil || errors.Is(err, io.EOF) || is[*net.OpError](err):
		c.log.Debug("disconnected", "err", err)
	default:
		conn := c.conn
		if plain, is := errors.AsType[tls.RecordHeaderError](err); is && plain.Conn != nil {
			conn, err = plain.Conn, errors.New("the feeder speaks TLS only: start the server with --tls")
		}
		c.server.warnings.warn(c.log, request+" "+kindOf(err), "ending the connection", "request", request, "err", err)
		conn.SetWriteDeadline(time.Now().Add(goodbyeTimeout))
		conn.Write(errorFrame(request, err))
	}
}

// serve answers requests until one of them, named with the error, fails. A panic is our bug; it costs this connection and no other.
func (c *feedConnection) serve(ctx context.Context) (request string, err error) {
	defer func() {
		if p := recover(); p != nil {
			c.log.Error("panic", "value", p, "stack", string(debug.Stack()))
			err = bugError(p)
		}
	}()
	if err := c.hello(); err != nil {
		return "hello", err
	}
	for {
		if _, err := c.in.Peek(1); err != nil { // however long there is nothing to do
			return "", err
		}
		c.conn.SetReadDeadline(time.Now().Add(messageTimeout))
		text, err := c.frames.Next()
		if err != nil {
			return "", err
		}
		if err := c.serveFeed(ctx, text); err != nil {
			return "feed", err
		}
		c.conn.SetReadDeadline(time.Time{})
	}
}

// hello greets a server.
func (c *feedConnection) hello() error {
	c.conn.SetDeadline(time.Now().Add(helloTimeout))
	text, err := c.frames.Next()
	if err != nil {
		return err
	}
	_, m, err := feedRequests.DecodeRequest(text)
	if err != nil {
		return err
	}
	hello, ok := m.(feedHello)
	switch {
	case !ok:
		return badRequest("the first message must be hello")
	case hello.Version != wire.Version:
		return &versionError{hello.Version}
	}
	if subtle.ConstantTimeCompare([]byte(c.token), []byte(hello.Token)) == 0 {
		return badRequest("the server's token is not the feeder's: both need the same file token in the folder of --tls")
	}
	reply := feedHelloReply{Version: wire.Version, Server: c.server.cfg.Name, Connections: c.server.feedConnections(), Sets: c.server.feedSets()}
	frame, err := feedReplies.AppendFrame(nil, reply)
	if err == nil {
		_, err = c.conn.Write(frame)
	}
	c.conn.SetDeadline(time.Time{})
	return err
}

// feedConnections is how many connections keep this feeder busy: while some wait for their samples' bytes, or are on their way, others decode.
func (s *Server) feedConnections() int {
	each, catalog := 0.125, s.catalog.Load()
	for _, set := range catalog.sets {
		if set.Store() != "" {
			each = 2
		}
	}
	return min(2+int(each*float64(s.pool.Threads())), feedConnectionsMax)
}

// serveFeed makes one piece.
func (c *feedConnection) serveFeed(ctx context.Context, text []byte) error {
	f := c.feeds[string(text)]
	if f == nil {
		var err error
		if f, err = c.open(text); err != nil {
			return err
		}
	}
	if err := readNumbers(c.in, &c.piece, f.set.Len()); err != nil {
		return err
	}
	n := len(c.piece.Indices)
	layout, err := ring.NewLayout(n, f.arrays()...)
	if err != nil {
		return err
	}
	if n > 1 && layout.Size > 2*feedBytesMax {
		return badRequest("a piece of %d samples of %d bytes: at most %d bytes are possible", n, layout.Size, feedBytesMax)
	}
	if int64(len(c.memory)) < layout.Size {
		c.memory = make([]byte, layout.Size)
	}
	c.piece.Slot = viewSlot(0, c.memory, layout)
	flags, made := make([]byte, n), make([]bool, n)
	if err := c.server.pool.Make(ctx, &f.cfg, &c.piece, made); err != nil {
		return err
	}
	for i, is := range made {
		if is {
			flags[i] = 1
			c.server.feeding.samples.Add(1)
		}
	}
	c.server.feeding.pieces.Add(1)
	c.parts = c.piece.Slot.AppendPlaces(append(c.parts[:0], madeFrame, flags), 0, n)
	c.conn.SetWriteDeadline(time.Now().Add(messageTimeout))
	buffers := net.Buffers(c.parts)
	_, err = buffers.WriteTo(c.conn)
	return err
}

// open reads what a request's samples are.
func (c *feedConnection) open(text []byte) (_ *feed, err error) {
	_, m, err := feedRequests.DecodeRequest(text)
	if err != nil {
		return nil, err
	}
	r, ok := m.(feedRequest)
	if !ok {
		return nil, badRequest("hello was said already")
	}
	f := &feed{openConfig: openConfig{split: r.Set.Split, params: r.WithParams, nchw: r.Layout == layoutNCHW}}
	if f.set, err = c.server.chooseSet(&f.split); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			f.set.drop()
		}
	}()
	if here := feedSetOf(f.split, f.set); !reflect.DeepEqual(here, r.Set) {
		return nil, &otherDataError{here, r.Set}
	}
	if f.views, err = parseTransform(r.Transform, transform.Pillow13); err != nil {
		return nil, err
	}
	f.listed = len(f.views) > 1
	if f.fields, err = loader.NewFields(f.set.Manifest().Fields, r.Fields); err != nil {
		return nil, err
	}
	f.cfg = loader.StreamConfig{Views: f.views, Fields: f.fields}
	if f.nchw {
		f.cfg.Layout = transform.NCHW
	}
	if f.cfg.Dataset, err = loader.FromShards(f.set.Set); err != nil {
		return nil, err
	}
	if len(c.feeds) >= feedsMax {
		c.forget()
	}
	c.feeds[string(text)] = f
	return f, nil
}

// forget lets go of the sets of all feeds.
func (c *feedConnection) forget() {
	for _, f := range c.feeds {
		if err := f.set.drop(); err != nil {
			c.log.Error("closing a set failed", "err", err)
		}
	}
	clear(c.feeds)
}

// An otherDataError means that a feeder's set of a split is not the server's.
type otherDataError struct{ feeder, server feedSet }

func (e *otherDataError) Error() string {
	return fmt.Sprintf("split %s: the feeder serves other data than the server: fingerprint %.12s, content %.12s and encoding %s; the server's are %.12s, %.12s and %s",
		e.feeder.Split, e.feeder.Fingerprint, e.feeder.Content, e.feeder.Encoding, e.server.Fingerprint, e.server.Content, e.server.Encoding)
}

package feeder

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/imgfeed/imgfeed/internal/termsafe"
	"github.com/imgfeed/imgfeed/loader"
	"github.com/imgfeed/imgfeed/server/internal/wire"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/transform"
)

// goodbyeTimeout bounds how long a peer that does not read delays the end of its connection.
const goodbyeTimeout = 200 * time.Millisecond

// Counters count a feeder's work for servers. Connections are those that are open and greeted; the others only grow.
type Counters struct{ Connections, Pieces, Samples atomic.Int64 }

// Serve makes pieces of batches for servers on other machines until ctx ends, and then returns nil, or the listener's error. It closes the
// listener. Connections that are open then are closed by ctx, and end in goroutines of host.Running, which the caller waits for.
func Serve(ctx context.Context, l net.Listener, host *Host, counters *Counters) error {
	failed := func(err error) {
		host.Warn(host.Log, "accept", "a connection was not accepted", "connections", counters.Connections.Load(), "err", err)
	}
	g := &greetings{}
	return wire.Accept(ctx, l, failed, func(conn net.Conn) {
		g.begin(conn)
		host.Running.Go(func() {
			defer g.end(conn)
			secured, err := host.Access.secure(conn)
			if err != nil {
				conn.Close()
				failed(err)
				return
			}
			in := bufio.NewReader(secured)
			c := &connection{
				host: host, counters: counters, conn: secured, log: host.Log.With("peer", conn.RemoteAddr().String()),
				in: in, frames: wire.NewReader(in, wire.RequestBytesMax), greeted: func() { g.end(conn) },
			}
			c.run(ctx)
		})
	})
}

// greetings are connections that have not said who they are. If there are many, a new one ends the oldest: a server takes a moment, so it
// comes through whatever others do.
//
// A connection is added before its goroutine begins, and removed by that: once it is greeted, and again at its end. One that was removed
// before is not there, which does no harm.
type greetings struct {
	mu    sync.Mutex
	conns []net.Conn // guarded by mu; the oldest first, greetingsMax at most
}

func (g *greetings) begin(conn net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.conns) == greetingsMax {
		g.conns[0].Close()
		g.conns = slices.Delete(g.conns, 0, 1)
	}
	g.conns = append(g.conns, conn)
}

func (g *greetings) end(conn net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.conns = slices.DeleteFunc(g.conns, func(c net.Conn) bool { return c == conn })
}

// A connection is one of a server's, to this feeder. Its goroutine alone uses it, and makes one piece after the other. Only closing it
// comes from elsewhere, which fails the read or write under way.
//
// It holds the set of its last offer open, for as long as no other offer replaces it. The slot is of that offer too, and grows to its
// largest piece.
type connection struct {
	host     *Host
	counters *Counters
	conn     net.Conn
	log      *slog.Logger
	in       *bufio.Reader
	frames   *wire.Reader
	greeted  func()       // called once the peer has said who it is
	offer    *offered     // the last piece's; nil before the first
	piece    loader.Piece // piece in work, with its slot
	parts    [][]byte
	flags    [loader.PieceSamplesMax]byte
	made     [loader.PieceSamplesMax]bool
}

// An offered is the stream of another server's session, over a set that this feeder has too. It is kept for the next piece, which most
// often belongs to the same session, so that the request is read once.
type offered struct {
	loader.StreamConfig
	text    string // the request's
	samples int    // samples of the set
	params  bool   // the session wants params

	sampleBytes int64 // size of a sample in a slot
	release     func()
}

// run serves the connection until it or ctx ends. A peer that fails or leaves is logged, for those who debug. Any other error is sent as a
// last message, as far as the peer reads, and ends this connection alone.
func (c *connection) run(ctx context.Context) {
	defer context.AfterFunc(ctx, func() { c.conn.Close() })()
	defer c.release()
	defer c.conn.Close()
	var request string
	err := Guard(c.log, func() (err error) {
		request, err = c.serve(ctx)
		return err
	})
	if _, broken := errors.AsType[*net.OpError](err); broken || ctx.Err() != nil || errors.Is(err, io.EOF) {
		c.log.Debug("disconnected", "err", err)
		return
	}
	c.host.Warn(c.log, request, "ending the connection", "request", request, "err", err)
	c.conn.SetWriteDeadline(time.Now().Add(goodbyeTimeout))
	goodbye, _ := Replies.AppendFrame(nil, wire.Refusal{Message: termsafe.Message(err.Error())})
	c.conn.Write(goodbye)
}

// serve answers requests until one of them, named with the error, fails. A peer may be silent between two requests for ever;
// one that has begun a request has messageTimeout for the rest of it.
func (c *connection) serve(ctx context.Context) (request string, err error) {
	if err := c.hello(); err != nil {
		return "hello", err
	}
	c.greeted()
	defer c.counters.Connections.Add(-1)
	if c.counters.Connections.Add(1) > connectionsMax {
		return "hello", errors.New("too many connections")
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
		if err := c.feed(ctx, text); err != nil {
			return "feed", err
		}
		c.conn.SetReadDeadline(time.Time{})
	}
}

// hello greets a server.
func (c *connection) hello() error {
	c.conn.SetDeadline(time.Now().Add(HelloTimeout))
	text, err := c.frames.Next()
	if err != nil {
		return err
	}
	_, m, err := Requests.DecodeRequest(text)
	if err != nil {
		return err
	}
	if _, ok := m.(wire.Hello); !ok {
		return badRequest("hello", "the first message must be hello")
	}
	sets, _ := c.host.Sets()
	reply := HelloReply{Version: wire.Version, Server: c.host.Name, Connections: c.host.connections(), Sets: sets}
	frame, err := Replies.AppendFrame(nil, reply)
	if err == nil {
		_, err = c.conn.Write(frame)
	}
	c.conn.SetDeadline(time.Time{})
	return err
}

// connections is how many connections keep this feeder busy: while some wait for their samples' bytes, or are on their way, others decode.
func (h *Host) connections() int {
	each := 0.125
	if _, remote := h.Sets(); remote {
		each = 2
	}
	return min(2+int(each*float64(h.Pool.Threads())), connectionsMax)
}

// feed makes one piece: it reads the offer, unless that is the last one's, and the numbers, which it checks. The pool makes the samples, in
// turn with those of other connections, and they are sent from the slot. A sample that could not be made is flagged, and is not an error.
func (c *connection) feed(ctx context.Context, text []byte) error {
	if c.offer == nil || c.offer.text != string(text) {
		if err := c.open(text); err != nil {
			return err
		}
	}
	o := c.offer
	if err := ReadNumbers(c.in, &c.piece, o.samples); err != nil {
		return err
	}
	n := len(c.piece.Indices)
	if n > 1 && int64(n)*o.sampleBytes > pieceBytesMax {
		return badRequest("feed", "a piece of %d samples of %d bytes: at most %d MiB are possible", n, o.sampleBytes, pieceBytesMax>>20)
	}
	if c.piece.Slot == nil || len(c.piece.Slot.Labels) < n {
		c.piece.Slot = o.newSlot(n)
	}
	made, flags := c.made[:n], c.flags[:n]
	clear(made)
	if err := c.host.Pool.Make(ctx, &o.StreamConfig, &c.piece, made); err != nil {
		return err
	}
	for i, is := range made {
		if flags[i] = 0; is {
			flags[i] = 1
			c.counters.Samples.Add(1)
		}
	}
	c.counters.Pieces.Add(1)
	c.parts = c.piece.Slot.AppendSamples(append(c.parts[:0], MadeFrame, flags), 0, n)
	c.conn.SetWriteDeadline(time.Now().Add(messageTimeout))
	buffers := net.Buffers(c.parts)
	_, err := buffers.WriteTo(c.conn)
	return err
}

// newSlot returns a slot for n samples.
func (o *offered) newSlot(n int) *loader.Slot {
	s := loader.NewSlot(0, n, o.Views)
	if !o.params {
		s.Params = nil
	}
	for k := range o.Fields.Len() {
		s.Fields = append(s.Fields, make([]byte, n*o.Fields.Stride(k)))
	}
	return s
}

// open reads an offer, which replaces the last one. It takes hold of the new set first, and lets go of the other once nothing can fail any
// more: after an error the connection ends, and releases what it had.
func (c *connection) open(text []byte) (err error) {
	_, m, err := Requests.DecodeRequest(text)
	if err != nil {
		return err
	}
	r, ok := m.(Request)
	if !ok {
		return badRequest("feed", "hello was said already")
	}
	here, set, release, err := c.host.Hold(r.Set.Split)
	if err != nil {
		return err
	}
	o := &offered{text: string(text), params: r.WithParams, release: release}
	defer func() {
		if c.offer != o { // This also runs after a panic.
			release()
		}
	}()
	if here != r.Set {
		return dataMismatch(here, r.Set)
	}
	o.Dataset, o.Log, o.samples = set, c.log, set.Len()
	if o.Views, err = transform.ParseViews(string(r.Transform), transform.Pillow13); err != nil {
		return err
	}
	if o.Fields, err = loader.NewFields(set.Manifest().Fields, r.Fields); err != nil {
		return err
	}
	boxes, err := loader.ParseBoxForm(r.Boxes, r.BoxesUnit)
	if err != nil {
		return err
	}
	if err = o.Fields.Follow(o.Views, boxes); err != nil {
		return err
	}
	o.sampleBytes = int64(o.Views.OutputBytes())
	for k := range o.Fields.Len() {
		o.sampleBytes += int64(o.Fields.Stride(k))
	}
	if r.Layout == transform.NCHW.String() {
		o.Layout = transform.NCHW
	}
	c.release()
	c.offer, c.piece.Slot = o, nil
	return nil
}

// release releases the set of the last offer.
func (c *connection) release() {
	if c.offer != nil {
		c.offer.release()
	}
}

// dataMismatch is the error of a split of which the feeder and the server have different sets.
func dataMismatch(feeder, server Set) error {
	return fmt.Errorf("split %s: the feeder serves other data than the server: %s and encoding %s; the server's are %s and %s",
		feeder.Split, shard.Identity(feeder.Fingerprint, feeder.Content), feeder.Encoding,
		shard.Identity(server.Fingerprint, server.Content), server.Encoding)
}

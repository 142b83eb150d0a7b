package server

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/imgfeed/imgfeed/internal/wire"
)

const (
	requestBufferBytes = 4 << 10
	// lastWordsTimeout bounds how long a client that does not read can delay the end of its connection.
	lastWordsTimeout = 200 * time.Millisecond
)

// A session is one connection: its reader, which serves the requests in order, and, while an epoch runs, the goroutine
// that pushes its batches.
type session struct {
	server *Server
	id     uint64
	conn   *net.UnixConn
	log    *slog.Logger

	writeMu sync.Mutex // held for a whole message with what follows it
	frame   []byte

	// The reader's alone, but for feed, which the status page looks at too.
	greeted    bool
	generation uint64
	epoch      *epoch
	feed       atomic.Pointer[feed]
}

// errHangUp ends a session whose last message has been sent.
var errHangUp = errors.New("connection ended")

func newSession(s *Server, conn *net.UnixConn) *session {
	id := s.lastID.Add(1)
	return &session{server: s, id: id, conn: conn, log: s.log.With("session", id, "client_pid", peerPID(conn))}
}

// run serves the connection until it or ctx ends, and frees what the session had.
func (s *session) run(ctx context.Context) {
	stop := context.AfterFunc(ctx, s.sayGoodbye)
	defer stop()
	s.log.Debug("connected")
	err := s.serve()
	s.conn.Close() // before the epoch's end, which may be stuck in a write
	s.stopEpoch()
	if f := s.feed.Swap(nil); f != nil {
		f.close()
	}
	switch {
	case ctx.Err() != nil || errors.Is(err, io.EOF) || errors.Is(err, errHangUp):
		s.log.Debug("disconnected")
	default:
		s.log.Info("connection lost", "err", err)
	}
}

// serve reads and answers requests. A panic is our bug; it costs this session and no other.
func (s *session) serve() (err error) {
	defer func() {
		if p := recover(); p != nil {
			s.log.Error("panic", "value", p, "stack", string(debug.Stack()))
			err = s.fatal("", bugError(p))
		}
	}()
	r := wire.NewReader(bufio.NewReaderSize(s.conn, requestBufferBytes), wire.MaxRequestBytes)
	for {
		text, err := r.Next()
		if is[*wire.SyntaxError](err) {
			return s.fatal("", err)
		}
		if err != nil {
			return err
		}
		m, err := wire.DecodeRequest(text)
		if err == nil {
			if err = s.handle(m); err == nil {
				continue
			}
		}
		if err := s.answerError(m, err); err != nil {
			return err
		}
	}
}

// answerError sends what went wrong with a request. It returns an error if the session cannot go on.
func (s *session) answerError(m wire.Message, err error) error {
	request := ""
	if m != nil {
		request = m.Kind()
	} else if re, ok := errors.AsType[*wire.RequestError](err); ok {
		request = re.Type
	}
	if is[*wire.SyntaxError](err) || !s.greeted {
		return s.fatal(request, err)
	}
	if errors.Is(err, errHangUp) || errors.Is(err, net.ErrClosed) || is[*net.OpError](err) {
		return err
	}
	s.server.totals.countError(kindOf(err))
	s.log.Info("request failed", "request", request, "err", err)
	return s.send(wire.Error{ErrKind: kindOf(err), Message: err.Error(), Request: request})
}

// fatal sends a last error, as far as the client reads it.
func (s *session) fatal(request string, err error) error {
	kind := kindOf(err)
	if is[*versionError](err) {
		kind = wire.KindUnsupported
	}
	s.server.totals.countError(kind)
	s.log.Warn("ending the connection", "request", request, "err", err)
	s.conn.SetWriteDeadline(time.Now().Add(lastWordsTimeout))
	s.send(wire.Error{ErrKind: kind, Message: err.Error(), Fatal: true, Request: request})
	return errHangUp
}

// sayGoodbye tells the client that the server stops, unless it is not reading, and ends the connection.
func (s *session) sayGoodbye() {
	if s.writeMu.TryLock() {
		s.conn.SetWriteDeadline(time.Now().Add(lastWordsTimeout))
		frame, err := wire.AppendFrame(s.frame[:0], wire.Error{ErrKind: wire.KindInternal, Message: "imgfeed was stopped", Fatal: true})
		if err == nil {
			s.conn.Write(frame)
		}
		s.writeMu.Unlock()
	}
	s.conn.Close()
}

// send writes one message, and the bytes that follow it.
func (s *session) send(m wire.Message, raw ...[]byte) error {
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	if err := s.encode(m); err != nil {
		return err
	}
	buffers := net.Buffers{s.frame}
	for _, b := range raw {
		if len(b) > 0 {
			buffers = append(buffers, b)
		}
	}
	_, err := buffers.WriteTo(s.conn)
	return err
}

// encode puts m's frame into s.frame; writeMu is held.
func (s *session) encode(m wire.Message) (err error) {
	s.frame, err = wire.AppendFrame(s.frame[:0], m)
	return err
}

// stopEpoch ends the running epoch, if any, and waits until nothing of it is under way.
func (s *session) stopEpoch() {
	if s.epoch != nil {
		s.epoch.cancel()
		<-s.epoch.done
		s.epoch = nil
	}
}

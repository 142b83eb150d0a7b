// Package server serves shard sets to training processes on the same machine: sessions on a Unix socket, each with its own
// ring of shared memory, all on one pool of decoding workers. docs/format/wire.md says what goes over the socket.
//
//	            requests:                        batches:
//	client ───────────────► connection ─┐    ┌─────────────► client
//	                                    ▼    │
//	                         session ──► epoch ──► loader.Stream ──► loader.Pool (shared)
//	                            │                     ▲
//	                            └──────── ring ───────┘ free slots.
//
// A connection is one goroutine, which serves the requests in order. A session is what an open request has set up on it; it lives
// as long as the connection. While an epoch runs, a second goroutine takes finished batches from the loader and sends them. A
// client that does not read, or that keeps all its slots, stops its own stream and no other.
//
// Whatever a client does, it can harm only its own session. Requests are bounded in size, and checked before anything
// changes. A slot comes back only if it was lent. Memory comes from one budget, and the end of a connection frees all of
// it. The server never reads what a client can write to.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/imgfeed/imgfeed/internal/memory"
	"github.com/imgfeed/imgfeed/loader"
	"github.com/imgfeed/imgfeed/server/feeder"
	"github.com/imgfeed/imgfeed/server/internal/socket"
	"github.com/imgfeed/imgfeed/server/internal/wire"
	"github.com/imgfeed/imgfeed/server/status"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/transform"
)

// ProtocolVersion is the version of the protocol that clients must speak.
const ProtocolVersion = wire.Version

// Config says what to serve, and with what.
type Config struct {
	// Found are the sets, as [shard.FindAll] and [shard.FindJoined] return them.
	Found shard.Found
	// Find looks for sets again, for [Server.Reload]; nil looks at the folders in Found.
	Find func() (shard.Found, error)
	// Threads is the number of decoding workers that all sessions share: 0 means one for each CPU that Go may use. With Feeders,
	// [loader.NoThreads] means none.
	Threads int
	// Feeders are addresses of servers whose [Server.Feed] makes samples for this one: host:port; dns:host:port for all addresses
	// of a name; or file:PATH, a file that lists addresses. The last two are looked up again every few seconds.
	Feeders []string
	// FeedTLS is a folder with ca.crt, tls.crt and tls.key in PEM, for TLS with feeders, and with the servers of [Server.Feed].
	// "" means plain connections, on loopback addresses only.
	FeedTLS string
	// Reading, if not nil, is called when the server begins to read samples from the disk, with the processors of Go that this
	// takes beside the threads, and with 0 when it no longer does.
	Reading func(processors int)
	// Rank and World are those of sessions that name none. With World 0 such a session is rank 0 of 1.
	Rank, World int
	// MemoryBytes bounds the rings of all sessions together, and with them what is read ahead into memory of the server's own.
	// 0 means half of the machine's or the container's memory.
	MemoryBytes int64
	// PrefetchBytes is the part of MemoryBytes into which records are read before they are due; 0 means a sixteenth, and no more
	// than 256 MiB.
	PrefetchBytes int64
	// Sessions is the number of rings that share MemoryBytes, if the server chooses their number of slots. 0 means that it is
	// unknown: each ring takes as much as is useful, and no more than half of the rest.
	Sessions int
	// BitExact refuses sessions whose transform of the stored images does not give the bits that it gives of the originals.
	BitExact bool
	// Resampler is the one of sessions that name none; the zero value is the newest Pillow's.
	Resampler transform.Resampler
	// Notes are sentences for the user of every session.
	Notes []string
	// Name is the program's name and version, for the clients.
	Name string
	// Log takes what operators should know; nil discards it.
	Log *slog.Logger
}

// A Server serves shard sets to any number of sessions.
//
// New, SetPage and SetPath set the plain fields before anything is served; nobody changes them afterwards. The others have locks of their
// own, or are atomic. Nobody holds one of these locks while it waits for a client or a storage, except reloading, which only reloads take.
//
// Serve and Feed return once the goroutines in running have ended. Only then may Close end the pool and the sets. Pages may be asked for
// all the time: they acquire the sets that they read.
type Server struct {
	cfg    Config
	log    *slog.Logger
	pool   *loader.Pool
	cpus   int // processors that Go may use, except those for reading
	memory budget
	totals *status.Totals

	catalog   atomic.Pointer[catalog] // what is served now; a reload replaces it, and sessions follow when they start an epoch
	reloading sync.Mutex              // held for a whole reload, so that each compares with the one before it

	started  time.Time
	history  status.History
	host     *feeder.Host
	feeders  *feeder.List
	warnings warner
	feeding  atomic.Pointer[feeder.Counters] // counters of a feeder; nil unless Feed was called

	lastID   atomic.Uint64 // number of the last connection, and of its session
	stopping atomic.Bool   // the server ends
	page     string        // URL of the status page, "" without one
	path     string        // the socket's path as serve prints it; "" if unknown

	mu          sync.Mutex
	connections []*connection // guarded by mu; those being served, ordered by arrival
	running     sync.WaitGroup
}

// New opens the sets and starts the workers. A damaged set or partition is logged, and is an error for the sessions that ask for
// it; the rest is served. New returns an error that names the folders when no set can be read, or none has the partitions that Rank
// needs.
func New(cfg Config) (*Server, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.MemoryBytes == 0 {
		cfg.MemoryBytes = memory.OfMachine() / 2
	}
	switch {
	case cfg.Threads < 0 && len(cfg.Feeders) == 0:
		return nil, fmt.Errorf("%d threads: at least 1 is needed", cfg.Threads)
	case cfg.World < 0 || cfg.Rank < 0 || cfg.Rank >= max(1, cfg.World):
		return nil, fmt.Errorf("rank %d of world %d: ranks are 0 to world-1", cfg.Rank, cfg.World)
	case cfg.Sessions < 0:
		return nil, fmt.Errorf("%d sessions: 0 or more are possible", cfg.Sessions)
	case len(cfg.Found.Sets) == 0:
		return nil, errors.New("no shard set to serve")
	}
	s := &Server{cfg: cfg, log: cfg.Log, started: time.Now()}
	// Mistakes in the configuration are found first, files are opened then, and goroutines begin last, when nothing can fail any more.
	var err error
	s.host = s.newHost()
	if s.feeders, err = feeder.NewList(s.host, cfg.Feeders); err != nil {
		return nil, err
	}
	ahead := prefetchBytes(cfg.PrefetchBytes, cfg.MemoryBytes)
	s.memory.max, s.memory.rings = cfg.MemoryBytes-ahead, cfg.Sessions
	c := openCatalog(cfg.Found, s.log)
	if len(c.splits) == 0 {
		return nil, errors.Join(c.problems()...)
	}
	for _, err := range c.problems() {
		s.log.Error("damaged, and not served", "err", err)
	}
	absent := c.absent(cfg.Rank, cfg.World)
	if len(absent) == len(c.splits) {
		c.close()
		return nil, errors.Join(absent...)
	}
	for _, err := range absent {
		s.log.Error("clients without a rank cannot use this split", "err", err)
	}
	s.catalog.Store(c)
	s.totals, s.cpus = status.NewTotals(errorKinds...), runtime.GOMAXPROCS(0)
	s.pool = loader.NewPool(loader.PoolConfig{Threads: cfg.Threads, ReadAheadBytes: max(1, ahead), Reading: cfg.Reading})
	s.host.Pool = s.pool
	return s, nil
}

// Serve accepts connections until ctx ends, then ends every session and returns nil, or returns a listener's error. It closes the
// listeners. A listener that fails ends the others and all sessions too, as a server that cannot be reached serves nobody.
func (s *Server) Serve(ctx context.Context, listeners ...*Listener) error {
	group, connections := errgroup.WithContext(ctx)
	defer context.AfterFunc(connections, func() { s.stopping.Store(ctx.Err() != nil) })()
	s.running.Go(func() { s.watch(connections) })
	s.running.Go(func() { s.feeders.Run(connections) })
	failed := func(err error) { s.log.Warn("accepting a connection failed", "err", err) }
	for _, l := range listeners {
		group.Go(func() error {
			return wire.Accept(connections, l, failed, func(conn net.Conn) {
				s.running.Go(func() { s.serveConn(connections, conn.(*net.UnixConn)) })
			})
		})
	}
	err := group.Wait() // ends connections
	s.running.Wait()
	return err
}

// serveConn runs one connection to its end. It is on the list from before its first request until everything that it had is freed.
func (s *Server) serveConn(ctx context.Context, conn *net.UnixConn) {
	c := &connection{server: s, id: s.lastID.Add(1), ctx: ctx, conn: conn, pid: socket.PeerPID(conn)}
	c.log = s.log.With("session", c.id, "client_pid", c.pid)
	s.mu.Lock()
	s.connections = append(s.connections, c)
	s.mu.Unlock()
	c.run(ctx)
	s.mu.Lock()
	s.connections = slices.DeleteFunc(s.connections, func(other *connection) bool { return other == c })
	s.mu.Unlock()
}

// Close stops the workers and closes the sets. Call it after Serve has returned, when no session and no feeder's connection holds one any
// more.
func (s *Server) Close() {
	s.pool.Close()
	s.catalog.Load().close()
}

// list returns the connections in the order in which they came.
func (s *Server) list() []*connection {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.connections)
}

// openSessions returns the sessions in the order of their connections. Any of them may end meanwhile: its snapshot and its
// counts can be read all the same.
func (s *Server) openSessions() (sessions []*session) {
	for _, c := range s.list() {
		if sess := c.session.Load(); sess != nil {
			sessions = append(sessions, sess)
		}
	}
	return sessions
}

// WatchIdle returns a context that ends, with the reason as its cause, once no client has been connected for as long as
// after, counted from now and from the end of the last connection. It lets a server that was started beside a training, in
// a container of its own, end with it, also when the training fails before it asks for a batch. With after 0 it returns ctx.
//
// A connection that asks something and leaves, as imgfeed status does, is not a client: a health check must not keep the server up.
// So a connection counts once two looks in a row have seen it.
func (s *Server) WatchIdle(ctx context.Context, after time.Duration) context.Context {
	if after == 0 {
		return ctx
	}
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		var seen []*connection
		last := time.Now() // last time with a client
		for now := range time.Tick(min(after/4+1, time.Second)) {
			before := seen
			seen = s.list()
			if slices.ContainsFunc(seen, func(c *connection) bool { return slices.Contains(before, c) }) {
				last = now
			} else if now.Sub(last) >= after {
				cancel(fmt.Errorf("no client has been connected for %v", after))
			}
			if ctx.Err() != nil {
				return
			}
		}
	}()
	return ctx
}

package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/imgfeed/imgfeed/internal/memory"
	"github.com/imgfeed/imgfeed/loader"
	"github.com/imgfeed/imgfeed/server/internal/wire"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/transform"
)

// ProtocolVersion is the version of the protocol that clients must speak.
const ProtocolVersion = wire.Version

// Config says what to serve, and with what.
type Config struct {
	// Sets holds the folder of each split's shard set, and Damaged what else was found, as [shard.FindAll] returns them.
	Sets    map[string]string
	Damaged []shard.DamagedSet
	// Find looks for sets again, for [Server.Reload]; nil looks at the folders in Sets.
	Find func() (shard.Found, error)
	// Threads is the number of decoding workers that all sessions share; 0 means one for each CPU that Go may use.
	Threads int
	// Reading, if there is one, is told when samples begin to be read from the disk, and when they no longer are.
	Reading func(reading bool)
	// Rank of World is what a session gets that does not say. World 0: there is no such default, and such a session is
	// rank 0 of 1.
	Rank, World int
	// MemoryBytes bounds the rings of all sessions together, and with them what is read ahead into memory of the server's own.
	// 0 means half of the machine's or the container's memory.
	MemoryBytes int64
	// PrefetchBytes is the part of MemoryBytes into which records are read before they are due; 0 means a sixteenth, and no more than 256 MiB.
	PrefetchBytes int64
	// Sessions is how many rings MemoryBytes is dealt to, where their number of slots is the server's to choose; 0 means that
	// nobody knows: the first ones get as much as is useful, and give up some for later ones.
	Sessions int
	// BitExact refuses sessions whose transform of the stored images does not give the bits that it gives of the originals.
	BitExact bool
	// Resampler is that of sessions which name none; the zero value is the newest Pillow's.
	Resampler transform.Resampler
	// Traces has batches traced; nil: none is.
	Traces *Traces
	// Metrics are further ones for /metrics.
	Metrics []prometheus.Collector
	// Name is the program's name and version, for the clients.
	Name string
	// Log takes what operators should know; nil discards it.
	Log *slog.Logger
}

// A Server serves shard sets to any number of sessions.
type Server struct {
	cfg    Config
	log    *slog.Logger
	pool   *loader.Pool
	memory budget
	totals *totals

	arriving atomic.Int64 // sessions that have the memory for a ring, and not yet the ring

	catalog   atomic.Pointer[catalog]
	reloading sync.Mutex

	started time.Time
	history history
	bad     badSamples
	gallery gallery

	lastID   atomic.Uint64
	stopping atomic.Bool

	mu          sync.Mutex
	connections map[uint64]*connection
	running     sync.WaitGroup
}

// New opens the sets and starts the workers. What is damaged (a set, or a partition of one) is logged, and is an error for
// the sessions that ask for it; the rest is served. New returns an error that names the folders when nothing is left: no
// set can be read, or none has the partitions that rank and world need.
func New(cfg Config) (*Server, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Threads == 0 {
		cfg.Threads = runtime.GOMAXPROCS(0)
	}
	if cfg.MemoryBytes == 0 {
		cfg.MemoryBytes = memory.OfMachine() / 2
	}
	switch {
	case cfg.Threads < 1:
		return nil, fmt.Errorf("%d threads: at least 1 is needed", cfg.Threads)
	case cfg.World < 0 || cfg.World == 0 && cfg.Rank != 0 || cfg.World > 0 && (cfg.Rank < 0 || cfg.Rank >= cfg.World):
		return nil, fmt.Errorf("rank %d of world %d: the rank must be 0 to world-1", cfg.Rank, cfg.World)
	case cfg.Sessions < 0:
		return nil, fmt.Errorf("%d sessions: 0 or more are possible", cfg.Sessions)
	case cfg.Traces != nil && (cfg.Traces.Provider == nil || !(cfg.Traces.Share > 0 && cfg.Traces.Share <= 1)):
		return nil, errors.New("traces need a provider, and a share of the batches above 0 and up to 1")
	case len(cfg.Sets) == 0:
		return nil, errors.New("no shard set to serve")
	}
	s := &Server{cfg: cfg, log: cfg.Log, connections: map[uint64]*connection{}, started: time.Now()}
	ahead := prefetchBytes(cfg.PrefetchBytes, cfg.MemoryBytes)
	s.memory.max, s.memory.rings = cfg.MemoryBytes-ahead, cfg.Sessions
	c := openCatalog(shard.Found{Sets: maps.Clone(cfg.Sets), Damaged: cfg.Damaged}, s.log)
	if err := s.checkServed(c); err != nil {
		c.close()
		return nil, err
	}
	s.catalog.Store(c)
	s.totals = newTotals()
	s.pool = loader.NewPool(loader.PoolConfig{Threads: cfg.Threads, ReadAheadBytes: max(1, ahead), Reading: cfg.Reading})
	return s, nil
}

// checkServed returns an error when nothing can be served: no set is whole, or none has the partitions that rank and world need.
func (s *Server) checkServed(c *catalog) error {
	var errs []error
	reached := 0
	for _, split := range slices.Sorted(maps.Keys(c.found.Sets)) {
		set := c.sets[split]
		if set == nil {
			errs = append(errs, c.broken[split])
			continue
		}
		if s.cfg.World > 0 {
			if err := checkReach(set.Set, s.cfg.Rank, s.cfg.World, 0); err != nil {
				errs = append(errs, fmt.Errorf("split %s: %w", split, err))
				continue
			}
		}
		reached++
	}
	if reached == 0 {
		for _, d := range c.found.Damaged {
			errs = append(errs, d.Err)
		}
		return errors.Join(errs...)
	}
	for _, err := range errs {
		if is[*ReachError](err) {
			s.log.Error("sessions that name no rank cannot have this", "err", err)
		}
	}
	for _, err := range c.problems() {
		s.log.Error("damaged, and not served", "err", err)
	}
	return nil
}

// Serve accepts connections until ctx ends, then ends every session and returns nil, or returns the listener's error.
// It closes the listener.
func (s *Server) Serve(ctx context.Context, l *Listener) error {
	stop := context.AfterFunc(ctx, func() {
		s.stopping.Store(true)
		l.Close()
	})
	defer stop()
	defer l.Close()
	connections, cancel := context.WithCancel(ctx)
	defer s.running.Wait()
	defer cancel()
	s.running.Go(func() { s.watch(connections) })
	for {
		conn, err := l.AcceptUnix()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				conn.Close()
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil: // out of descriptors, most likely: they come back when a session ends
			s.log.Warn("accepting a connection failed", "err", err)
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
			}
			continue
		}
		s.running.Go(func() { s.serveConn(connections, conn) })
	}
}

// serveConn runs one connection to its end.
func (s *Server) serveConn(ctx context.Context, conn *net.UnixConn) {
	c := newConnection(s, conn)
	s.mu.Lock()
	s.connections[c.id] = c
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.connections, c.id)
		s.mu.Unlock()
	}()
	c.run(ctx)
}

// Close stops the workers and closes the sets. Call it after Serve has returned.
func (s *Server) Close() error {
	s.pool.Close()
	return s.catalog.Load().close()
}

// list returns the connections in the order in which they came.
func (s *Server) list() []*connection {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*connection, 0, len(s.connections))
	for _, c := range s.connections {
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b *connection) int { return int(a.id) - int(b.id) })
	return list
}

// openSessions returns the sessions in the order in which their connections came.
func (s *Server) openSessions() (sessions []*session) {
	for _, c := range s.list() {
		if sess := c.session.Load(); sess != nil {
			sessions = append(sessions, sess)
		}
	}
	return sessions
}

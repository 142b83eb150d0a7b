package server

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/imgfeed/imgfeed/loader"
	"github.com/imgfeed/imgfeed/server/feeder"
)

// ListenFeed listens for servers that [Server.Feed] makes samples for.
func (s *Server) ListenFeed(address string) (net.Listener, error) {
	return s.host.Access.Listen(address)
}

// Feed makes pieces of batches for servers on other machines until ctx ends, and then returns nil, or the listener's error. It closes
// the listener. It keeps nothing of who asks: each piece comes with all that its samples depend on.
func (s *Server) Feed(ctx context.Context, l net.Listener) error {
	defer s.running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { s.stopping.Store(true) })()
	counters := new(feeder.Counters)
	s.feeding.Store(counters)
	s.running.Go(func() { s.watch(ctx) })
	return feeder.Serve(ctx, l, s.host, counters)
}

// A warner logs troubles, those of one kind once a minute: a peer may bring it hundreds of times. Any goroutine may use it.
type warner struct{ logged sync.Map } // keyed by kind: those of the last minute

// warn logs a trouble of a kind.
func (w *warner) warn(log *slog.Logger, kind, message string, args ...any) {
	if _, logged := w.logged.LoadOrStore(kind, true); !logged {
		log.Warn(message, args...)
		time.AfterFunc(time.Minute, func() { w.logged.Delete(kind) })
	}
}

// newHost returns what feeders know of the server. Both functions load the catalog anew each time, so they follow a reload. A set that Hold
// has returned stays open until its release is called, also if a reload drops it.
func (s *Server) newHost() *feeder.Host {
	return &feeder.Host{
		Name: s.cfg.Name, Access: feeder.Access(s.cfg.FeedTLS), Log: s.log, Running: &s.running, Warn: s.warnings.warn,
		Sets: func() (sets []feeder.Set, remote bool) {
			catalog := s.catalog.Load()
			for _, split := range catalog.splits {
				set := catalog.sets[split]
				sets, remote = append(sets, feederSet(split, set)), remote || set.Store() != ""
			}
			return sets, remote
		},
		Hold: func(split string) (feeder.Set, *loader.Dataset, func(), error) {
			set, err := s.chooseSet(&split)
			if err != nil {
				return feeder.Set{}, nil, nil, err
			}
			return feederSet(split, set), set.Dataset, set.release, nil
		},
	}
}

func feederSet(split string, set *openSet) feeder.Set {
	d := set.described
	return feeder.Set{Split: split, Fingerprint: d.Fingerprint, Content: d.Content, Encoding: string(d.Encoding)}
}

// offer returns the description of the session's next stream for feeders, or nil without feeders. It never changes while the stream exists,
// as links compare and send it from goroutines of their own.
func (s *session) offer() any {
	if len(s.server.cfg.Feeders) == 0 || s.buckets != nil { // pieces have one size
		return nil
	}
	r := feeder.Request{
		Set: feederSet(s.Split, s.set), Transform: json.RawMessage(s.viewsText), Layout: s.imageLayout.String(), WithParams: s.WithParams,
		Boxes: s.Boxes, BoxesUnit: s.BoxesUnit,
	}
	for k := range s.fields.Len() {
		r.Fields = append(r.Fields, s.fields.Field(k).Name)
	}
	return feeder.NewOffer(r, s.slotLayout.SampleBytes)
}

package server

import (
	"context"
	"fmt"
	"time"
)

// WatchIdle returns a context that ends, with the reason as its cause, once no client has been connected for as long as
// after, counted from now and from the end of the last connection. It lets a server that was started beside a training, in
// a container of its own, end with it, also when the training fails before it asks for a batch. With after 0 it returns ctx.
func (s *Server) WatchIdle(ctx context.Context, after time.Duration) context.Context {
	if after == 0 {
		return ctx
	}
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		tick := time.NewTicker(min(after/4+1, time.Second))
		defer tick.Stop()
		last := time.Now() // when a client was last connected
		var before, connected map[uint64]bool
		for {
			select {
			case <-ctx.Done():
				return
			case now := <-tick.C:
				before, connected = connected, s.connected()
				if stayed(before, connected) {
					last = now
				} else if now.Sub(last) >= after {
					cancel(fmt.Errorf("no client has been connected for %v", after))
					return
				}
			}
		}
	}()
	return ctx
}

// connected returns the IDs of the connections.
func (s *Server) connected() map[uint64]bool {
	ids := make(map[uint64]bool)
	for _, c := range s.list() {
		ids[c.id] = true
	}
	return ids
}

// stayed says whether a connection of before is still there. One that only asks, as imgfeed status does, and leaves is no
// client: a health check must not keep the server up.
func stayed(before, now map[uint64]bool) bool {
	for id := range now {
		if before[id] {
			return true
		}
	}
	return false
}

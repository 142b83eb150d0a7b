package server

import (
	"context"
	"fmt"
	"time"
)

// WatchIdle returns a context that ends, with the reason as its cause, once no client has had a session open for as long
// as after, counted from the end of the last one; before the first it waits without end. It lets a server that was
// started beside a training, in a container of its own, end with it. With after 0 it returns ctx.
func (s *Server) WatchIdle(ctx context.Context, after time.Duration) context.Context {
	if after == 0 {
		return ctx
	}
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		tick := time.NewTicker(min(after/4+1, time.Second))
		defer tick.Stop()
		var last time.Time // when a session was last seen; zero before the first
		for {
			select {
			case <-ctx.Done():
				return
			case now := <-tick.C:
				if s.hasOpen() {
					last = now
				} else if !last.IsZero() && now.Sub(last) >= after {
					cancel(fmt.Errorf("no session has been open for %v", after))
					return
				}
			}
		}
	}()
	return ctx
}

// hasOpen says whether a client has opened a session: one that only said hello, as imgfeed status does, has not.
func (s *Server) hasOpen() bool {
	for _, sess := range s.list() {
		if sess.feed.Load() != nil {
			return true
		}
	}
	return false
}

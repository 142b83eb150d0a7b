package server

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"time"
)

// keepEvery is how often a server looks whether its socket is there: clients wait for a server much longer.
const keepEvery = time.Second

// Keep puts the socket's file back when it has vanished, with its folder, until ctx ends: cleaners of temporary files and hands
// that tidy up remove what a running server needs for new clients. What another server, or anybody, has put in its place is left
// alone until it vanishes too. Whatever it does or can't do is logged once.
func (l *Listener) Keep(ctx context.Context, log *slog.Logger) { l.keep(ctx, log, keepEvery) }

func (l *Listener) keep(ctx context.Context, log *slog.Logger, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	said := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		switch back, err := l.putBack(); {
		case err != nil && err.Error() != said:
			said = err.Error()
			log.Warn("the socket has vanished, and can't be put back: sessions go on, new clients can't connect", "err", err)
		case back:
			said = ""
			log.Warn("the socket had vanished, and was put back", "socket", l.path)
		}
	}
}

// putBack looks at the socket's file, and says whether it was put back.
func (l *Listener) putBack() (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	id, err := identify(l.path)
	gone := errors.Is(err, fs.ErrNotExist)
	switch {
	case l.closed, err == nil && (id == l.id || id == l.other):
		return false, nil
	case err != nil && !gone:
		return false, err
	}
	if err := l.bind(); err != nil {
		if !gone {
			l.other = id
		}
		return false, err
	}
	return true, nil
}

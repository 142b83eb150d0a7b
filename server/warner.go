package server

import (
	"log/slog"
	"sync"
	"time"
)

// A warner logs troubles, those of one kind once a minute: a peer may bring it hundreds of times.
type warner struct {
	mu     sync.Mutex
	logged map[string]bool // kinds of the last minute
}

// warn logs a trouble of a kind.
func (w *warner) warn(log *slog.Logger, kind, message string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.logged[kind] {
		return
	}
	log.Warn(message, args...)
	if w.logged == nil {
		w.logged = map[string]bool{}
	}
	w.logged[kind] = true
	time.AfterFunc(time.Minute, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.logged, kind)
	})
}

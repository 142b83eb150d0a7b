package server

import (
	"log/slog"
	"sync"
	"time"
)

// countFor is how long a warner counts what it has logged.
const countFor = time.Minute

// A warner logs a trouble at once. The same trouble is then counted for a minute, and logged with its count: a peer may bring it
// hundreds of times.
type warner struct {
	mu     sync.Mutex
	counts map[string]int // number of troubles by kind
}

// warn logs a trouble of a kind, or counts it.
func (w *warner) warn(log *slog.Logger, kind, message string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, counted := w.counts[kind]; counted {
		w.counts[kind]++
		return
	}
	log.Warn(message, args...)
	if w.counts == nil {
		w.counts = map[string]int{}
	}
	w.counts[kind] = 0
	time.AfterFunc(countFor, func() { w.end(log, kind, message, args) })
}

// end logs how often there was the same trouble again.
func (w *warner) end(log *slog.Logger, kind, message string, args []any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if more := w.counts[kind]; more > 0 {
		log.Warn(message, append(args, "more_of_these", more)...)
	}
	delete(w.counts, kind)
}

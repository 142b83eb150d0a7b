package server

import (
	"sync/atomic"

	"github.com/imgfeed/imgfeed/server/status"
)

// A feeding counts what a feeder does for servers.
type feeding struct {
	is                           atomic.Bool // a feeder
	connections, pieces, samples atomic.Int64
}

// addTo completes the status of a feeder.
func (f *feeding) addTo(st *status.Status, h *history) {
	if !f.is.Load() {
		return
	}
	st.Feeding = &status.Feeding{Connections: f.connections.Load(), Pieces: f.pieces.Load()}
	st.Images = f.samples.Load()
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.looks) < 2 {
		return
	}
	first, last := &h.looks[0], &h.looks[len(h.looks)-1]
	elapsed, did := last.at.Sub(first.at).Seconds(), last.pool.Sub(first.pool)
	st.ImagesPerSecond = float64(last.images-first.images) / elapsed
	st.Feeding.Busy = min(1, (did.Read+did.Decode+did.Resample).Seconds()/(elapsed*float64(st.Threads)))
}

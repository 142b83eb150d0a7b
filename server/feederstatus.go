package server

import (
	"fmt"
	"strings"

	"github.com/imgfeed/imgfeed/internal/termsafe"
	"github.com/imgfeed/imgfeed/server/status"
)

// status is the status of the feeders that are listed, nil if the server has none.
func (l *feederList) status() *status.Feeders {
	if len(l.names) == 0 {
		return nil
	}
	st := &status.Feeders{Each: []status.Feeder{}}
	for _, f := range l.all() {
		of := status.Feeder{Address: f.address, Connections: f.connected.Load(), Trouble: f.lastTrouble()}
		of.FeederCounts = f.counts()
		of.SamplesPerSecond, of.BytesPerSecond, of.Share = l.server.history.feederRates(f.address)
		st.Each = append(st.Each, of)
		st.Add(of.FeederCounts)
		st.SamplesPerSecond += of.SamplesPerSecond
		st.BytesPerSecond += of.BytesPerSecond
		st.Share += of.Share
	}
	return st
}

// counts returns the counts of all feeders by address.
func (l *feederList) counts() map[string]status.FeederCounts {
	counts := map[string]status.FeederCounts{}
	for _, f := range l.all() {
		counts[f.address] = f.counts()
	}
	return counts
}

func (f *feeder) counts() status.FeederCounts {
	return status.FeederCounts{Samples: f.samples.Load(), Again: f.again.Load(), Late: f.late.Load(), Bytes: f.bytes.Load()}
}

// lastTrouble returns the last trouble with the feeder in a line, "" if there was none. A peer may have worded it.
func (f *feeder) lastTrouble() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return fmt.Sprintf("%.300s", strings.ReplaceAll(termsafe.Message(f.trouble), "\n", "; "))
}

// feederRates returns what came of a feeder in the last seconds, a second, and its share of all samples.
func (h *history) feederRates(address string) (samples, bytes, share float64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.looks {
		first, last := &h.looks[i], &h.looks[len(h.looks)-1]
		from, there := first.feeders[address]
		to, still := last.feeders[address]
		elapsed := last.at.Sub(first.at).Seconds()
		if !there || !still || elapsed <= 0 || to.Samples < from.Samples { // a feeder that is listed again begins anew
			continue
		}
		all := last.pool.Images - first.pool.Images
		for other, counts := range last.feeders {
			all += max(0, counts.Samples-first.feeders[other].Samples)
		}
		made := float64(to.Samples - from.Samples)
		return made / elapsed, float64(to.Bytes-from.Bytes) / elapsed, made / float64(max(1, all))
	}
	return 0, 0, 0
}

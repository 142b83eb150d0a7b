package server

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/imgfeed/imgfeed/internal/wire"
	"github.com/imgfeed/imgfeed/loader"
)

// stats answers a stats request.
func (f *feed) stats() wire.Stats {
	waiting, words := f.status()
	c := f.server.pool.Counters()
	return wire.Stats{
		WaitingFor: waiting, Words: words,
		Images: f.images.Load(), Batches: f.batches.Load(), Bytes: f.bytes.Load(), Blanks: f.blanks.Load(),
		Seconds: map[string]float64{
			"read": c.Read.Seconds(), "decode": c.Decode.Seconds(), "resample": c.Resample.Seconds(), "worker_wait": c.Wait.Seconds(),
			"slot_wait": time.Duration(f.slotWait.Load()).Seconds(), "write": time.Duration(f.writeTime.Load()).Seconds(),
		},
		SlotsFree: f.supply.Free(), SlotsLent: f.ring.Lent(), Threads: f.server.pool.Threads(),
	}
}

// status says what the session waits for: as one of the wire's words, and as a sentence with its evidence.
func (f *feed) status() (waiting, words string) {
	st := f.stream.Load()
	if st == nil {
		return wire.WaitingIdle, "no epoch is running"
	}
	stats := st.Stats()
	free, lent, all := f.supply.Free(), f.ring.Lent(), f.ring.Slots()
	slots := fmt.Sprintf("%d of %d slots are with the client, %d free", lent, all, free)
	switch stats.WaitingFor {
	case loader.Client:
		if f.shared {
			return wire.WaitingClient, "waiting for the client: every batch that fits is ready; " + slots
		}
		return wire.WaitingClient, fmt.Sprintf("waiting for the client to read from the socket: %d batches are ready", stats.InFlight)
	case loader.Disk:
		return wire.WaitingDisk, "waiting for the disk: workers spend most of their time reading; " + slots
	case loader.CPU:
		return wire.WaitingCPU, fmt.Sprintf("waiting for the CPU: %d workers spend most of their time decoding and resizing; %s", f.server.pool.Threads(), slots)
	}
	return wire.WaitingIdle, "no epoch is running"
}

// Status describes the server and its sessions for people, a line each.
func (s *Server) Status() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %d threads, %s of %s for batches in use\n", s.cfg.Name, s.pool.Threads(), formatBytes(s.memory.inUse()), formatBytes(s.memory.max))
	for _, set := range s.Sets() {
		fmt.Fprintf(&b, "split %s: %d samples of %d classes in %s\n", set.Split, set.Samples, set.Classes, s.cfg.Sets[set.Split])
	}
	for _, err := range s.problems() {
		fmt.Fprintf(&b, "damaged, and not served: %v\n", err)
	}
	open := 0
	for _, sess := range s.list() {
		f := sess.feed.Load()
		if f == nil {
			continue
		}
		open++
		_, words := f.status()
		fmt.Fprintf(&b, "session %d: %s, rank %d of %d, %d images in %d batches: %s\n", sess.id, f.split, f.plan.Rank, f.plan.World, f.images.Load(), f.batches.Load(), words)
	}
	if open == 0 {
		b.WriteString("no sessions\n")
	}
	return b.String()
}

// list returns the sessions in the order in which they connected.
func (s *Server) list() []*session {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*session, 0, len(s.sessions))
	for _, sess := range s.sessions {
		list = append(list, sess)
	}
	slices.SortFunc(list, func(a, b *session) int { return int(a.id) - int(b.id) })
	return list
}

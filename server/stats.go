package server

import (
	"fmt"
	"time"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/loader"
)

// statsRequest asks what the session has done and what it waits for.
type statsRequest struct{}

// statsReply answers [statsRequest]. Times are in seconds, counts since the session was opened.
type statsReply struct {
	WaitingFor  loader.WaitingFor  `json:"waiting_for"` // disk, cpu, client or idle
	Verdict     string             `json:"verdict"`     // the same as a sentence, with its evidence
	Images      int64              `json:"images"`
	Batches     int64              `json:"batches"`
	Bytes       int64              `json:"bytes"`       // of arrays delivered
	Blanks      int64              `json:"blanks"`      // samples replaced under on_error: blank
	Substitutes int64              `json:"substitutes"` // and under on_error: substitute
	Seconds     map[string]float64 `json:"seconds"`     // slot_wait, write: of the session; the others: of all threads since the server started
	SlotsFree   int                `json:"slots_free"`
	SlotsLent   int                `json:"slots_lent"`
	Threads     int                `json:"threads"`
}

func (s *session) stats(statsRequest) error {
	waiting, verdict := s.verdict()
	c := s.server.pool.Counters()
	return s.connection.send(statsReply{
		WaitingFor: waiting, Verdict: verdict,
		Images: s.images.Load(), Batches: s.batches.Load(), Bytes: s.bytes.Load(), Blanks: s.blanks.Load(), Substitutes: s.subs.Load(),
		Seconds: map[string]float64{
			"read": c.Read.Seconds(), "decode": c.Decode.Seconds(), "resample": c.Resample.Seconds(), "thread_wait": c.Wait.Seconds(),
			"slot_wait": time.Duration(s.slotWait.Load()).Seconds(), "write": time.Duration(s.writeTime.Load()).Seconds(),
		},
		SlotsFree: s.slotPool.Free(), SlotsLent: s.ring.Lent(), Threads: s.server.pool.Threads(),
	})
}

// verdict says what the session waits for: in one word, and as a sentence with its evidence.
func (s *session) verdict() (loader.WaitingFor, string) {
	const idle = "no epoch is running"
	st := s.stream.Load()
	if st == nil {
		return loader.Idle, idle
	}
	stats := st.Stats()
	slots := fmt.Sprintf("%d of %d slots are with the client, %d free", s.ring.Lent(), s.ring.Usable(), s.slotPool.Free())
	switch stats.WaitingFor {
	case loader.Client:
		if s.shared {
			return loader.Client, "waiting for the client: every batch that fits is ready; " + slots
		}
		return loader.Client, fmt.Sprintf("waiting for the client to read from the socket: %s ready", bytesize.Counted(int(stats.InFlight), "batch is", "batches are"))
	case loader.Disk:
		return loader.Disk, "waiting for the disk: threads spend most of their time reading; " + slots
	case loader.CPU:
		return loader.CPU, fmt.Sprintf("waiting for the CPU: %s most of the time decoding and resizing; %s", bytesize.Counted(s.server.pool.Threads(), "thread spends", "threads spend"), slots)
	}
	return loader.Idle, idle
}

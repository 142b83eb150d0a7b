package server

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"runtime/debug"

	"github.com/imgfeed/imgfeed/loader/plan"
)

// selectRequest says which samples the session's epochs hold, from the next start on. List int64 follow it, then Weights
// float64, all little-endian. One without any field goes back to the whole set.
type selectRequest struct {
	List      int64 `json:"list,omitempty"`      // how many indices follow; none means the set's
	OfRank    bool  `json:"of_rank,omitempty"`   // the list is this rank's own share
	Weights   int64 `json:"weights,omitempty"`   // how many follow: one for each sample of the list
	Repeats   int   `json:"repeats,omitempty"`   // positions in a row that hold the same sample
	Positions int64 `json:"positions,omitempty"` // the length of an epoch
}

// selectedReply answers [selectRequest].
type selectedReply struct {
	Positions int64 `json:"positions"` // of all ranks together, in an epoch
	Bytes     int64 `json:"bytes"`     // of the server's memory that the selection takes
}

// followed implements [announcer].
func (m selectRequest) followed() (int64, error) {
	for _, f := range []struct {
		name  string
		value int64
	}{{"list", m.List}, {"weights", m.Weights}} {
		if f.value < 0 || f.value > plan.SamplesMax {
			return 0, badRequest("%s is %d, want 0 to %d", f.name, f.value, plan.SamplesMax)
		}
	}
	return 8 * (m.List + m.Weights), nil
}

// selectSamples takes a selection, or goes back to the whole set.
func (s *session) selectSamples(m selectRequest) error {
	if m == (selectRequest{}) {
		s.dropSelection()
		return s.connection.send(selectedReply{Positions: int64(s.set.Len())})
	}
	if m.Positions < 0 || m.Positions > plan.SamplesMax {
		return badRequest("positions is %d, want 0 to %d", m.Positions, plan.SamplesMax)
	}
	lasting, building := plan.SelectionBytes(int(m.List), int(m.Weights))
	if err := s.server.memory.reserve(building); err != nil {
		return err
	}
	made, err := s.readSelection(m)
	if err != nil {
		s.server.memory.give(building)
		return err
	}
	dropped := s.selectionBytes
	s.dropSelection()
	s.plan.Selection, s.selectionBytes = made, lasting
	giveBack(building - lasting + dropped)
	s.server.memory.give(building - lasting)
	s.connection.log.Debug("selected", "list", m.List, "of_rank", m.OfRank, "weights", m.Weights, "repeats", m.Repeats, "positions", made.Positions(s.plan.World))
	return s.connection.send(selectedReply{Positions: int64(made.Positions(s.plan.World)), Bytes: lasting})
}

// giveBackMin is how much memory nobody uses any more for the system to get it back at once: selections of two million weights and more.
const giveBackMin = 64 << 20

// giveBack returns memory to the system at once, if so many unused bytes are many. Go would keep them for minutes in a server that
// allocates next to nothing, at the expense of its control group.
func giveBack(unused int64) {
	if unused >= giveBackMin {
		debug.FreeOSMemory()
	}
}

// dropSelection forgets the selection. An epoch that runs keeps it.
func (s *session) dropSelection() {
	s.server.memory.give(s.selectionBytes)
	s.plan.Selection, s.selectionBytes = nil, 0
}

// readSelection makes a selection of a request and of what follows it.
func (s *session) readSelection(m selectRequest) (*plan.Selection, error) {
	cfg := plan.SelectionConfig{Samples: s.set.Len(), Repeats: m.Repeats, Positions: int(m.Positions), OfRank: m.OfRank}
	if m.List > 0 {
		cfg.List = make([]uint32, m.List)
		err := eachWord(s.connection.body, len(cfg.List), func(i int, word uint64) error {
			if word >= uint64(cfg.Samples) {
				return badRequest("place %d of the list is %d: indices are 0 to %d", i, int64(word), cfg.Samples-1)
			}
			cfg.List[i] = uint32(word)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if m.Weights > 0 {
		cfg.Weights = make([]float64, m.Weights)
		err := eachWord(s.connection.body, len(cfg.Weights), func(i int, word uint64) error {
			cfg.Weights[i] = math.Float64frombits(word)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	made, err := plan.NewSelection(cfg)
	if err != nil {
		return nil, err
	}
	with := s.plan
	with.Selection = made
	_, err = plan.New(with)
	return made, err
}

// eachWord reads n little-endian words.
func eachWord(r io.Reader, n int, take func(i int, word uint64) error) error {
	var buffer [4096]byte
	for i := 0; i < n; {
		piece := buffer[:min(8*(n-i), len(buffer))]
		if _, err := io.ReadFull(r, piece); err != nil {
			return fmt.Errorf("the connection ended in the middle of an array: %w", err)
		}
		for ; len(piece) > 0; piece = piece[8:] {
			if err := take(i, binary.LittleEndian.Uint64(piece)); err != nil {
				return err
			}
			i++
		}
	}
	return nil
}

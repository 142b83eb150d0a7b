package server

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/imgfeed/imgfeed/loader/plan"
	"github.com/imgfeed/imgfeed/server/internal/wire"
)

// selectRequest says which samples the session's epochs hold, from the next start on. List int64 follow it, then Weights
// float64, all little-endian. One without any field goes back to the whole set.
type selectRequest struct {
	List      int64     `json:"list,omitempty"`      // how many indices follow; none means the set's
	OfRank    bool      `json:"of_rank,omitempty"`   // the list is this rank's own share
	Weights   int64     `json:"weights,omitempty"`   // how many follow: one for each sample of the list
	Repeats   int       `json:"repeats,omitempty"`   // positions in a row that hold the same sample
	Positions int64     `json:"positions,omitempty"` // the length of an epoch
	Mix       []float64 `json:"mix,omitempty"`       // the weight of each of joined sets
}

// selectedReply answers [selectRequest].
type selectedReply struct {
	Positions int64 `json:"positions"` // positions of an epoch, all ranks together
	Bytes     int64 `json:"bytes"`     // server memory of the selection
}

// followed returns how many bytes follow the request. An error ends the connection: nobody knows where the next request begins.
func (m selectRequest) followed() (int64, error) {
	if min(m.List, m.Weights) < 0 || max(m.List, m.Weights) > plan.SamplesMax {
		return 0, &wire.SyntaxError{Msg: fmt.Sprintf("list is %d and weights is %d, want 0 to %d", m.List, m.Weights, plan.SamplesMax)}
	}
	return 8 * (m.List + m.Weights), nil
}

// selectSamples takes a selection, or goes back to the whole set. The epochs that are started from now on have it; one that runs keeps its
// own.
func (s *session) selectSamples(m selectRequest) error {
	if s.buckets != nil {
		return badRequest("select: the buckets of this session say which samples a batch holds")
	}
	if m.List+m.Weights+m.Positions == 0 && !m.OfRank && m.Repeats == 0 && m.Mix == nil {
		s.dropSelection()
		return s.connection.send(selectedReply{Positions: int64(s.set.Len())})
	}
	if m.Positions < 0 || m.Positions > plan.SamplesMax {
		return badRequest("positions is %d, want 0 to %d", m.Positions, plan.SamplesMax)
	}
	if err := s.replaceSelection(m); err != nil {
		return err
	}
	positions := s.plan.Selection.Positions(s.plan.World)
	s.connection.log.Debug("selected", "list", m.List, "of_rank", m.OfRank, "weights", m.Weights, "repeats", m.Repeats,
		"positions", positions)
	return s.connection.send(selectedReply{Positions: int64(positions), Bytes: s.selectionBytes})
}

// replaceSelection makes a selection, and replaces the session's by it.
//
// Memory is reserved for all that making it takes. From then on the session has the old selection and its bytes, until it has the new one
// and those. The rest, or all if it fails, is released before the client has an answer.
func (s *session) replaceSelection(m selectRequest) error {
	lasting, building := plan.SelectionBytes(int(m.List), int(m.Weights))
	if err := s.server.memory.reserve(building); err != nil {
		return err
	}
	kept := int64(0)
	defer func() { s.server.memory.release(building - kept) }() // This also runs after a panic.
	made, err := s.readSelection(m)
	if err != nil {
		return err
	}
	s.dropSelection()
	s.plan.Selection, s.selectionBytes, kept = made, lasting, lasting
	return nil
}

// dropSelection forgets the selection. An epoch that runs keeps it.
func (s *session) dropSelection() {
	s.server.memory.release(s.selectionBytes)
	s.plan.Selection, s.selectionBytes = nil, 0
}

// readSelection makes a selection of a request and of what follows it.
func (s *session) readSelection(m selectRequest) (*plan.Selection, error) {
	cfg := plan.SelectionConfig{Samples: s.set.Len(), Repeats: m.Repeats, Positions: int(m.Positions), OfRank: m.OfRank,
		Joined: s.set.Parts(), Mix: m.Mix}
	var err error
	cfg.List, err = readWords(s.connection.body, m.List, func(i int, word uint64) (uint32, error) {
		if word >= uint64(cfg.Samples) {
			return 0, badRequest("position %d of the list is %d: indices are 0 to %d", i, int64(word), cfg.Samples-1)
		}
		return uint32(word), nil
	})
	if err != nil {
		return nil, err
	}
	cfg.Weights, err = readWords(s.connection.body, m.Weights, func(_ int, word uint64) (float64, error) {
		return math.Float64frombits(word), nil
	})
	if err != nil {
		return nil, err
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

// readWords reads n values of 8 little-endian bytes each; nil if n is 0.
func readWords[T any](r io.Reader, n int64, convert func(i int, word uint64) (T, error)) (values []T, err error) {
	if n == 0 {
		return nil, nil
	}
	values = make([]T, n)
	var buffer [4096]byte
	for i := 0; i < len(values); {
		piece := buffer[:min(8*(len(values)-i), len(buffer))]
		if _, err := io.ReadFull(r, piece); err != nil {
			return nil, fmt.Errorf("the connection ended in the middle of an array: %w", err)
		}
		for ; len(piece) > 0; piece = piece[8:] {
			if values[i], err = convert(i, binary.LittleEndian.Uint64(piece)); err != nil {
				return nil, err
			}
			i++
		}
	}
	return values, nil
}

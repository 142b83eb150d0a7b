package server

import (
	"encoding/json"

	"github.com/imgfeed/imgfeed/server/internal/ring"
)

// changeRequest gives the epochs that are started from now on another transform and batch size. The running epoch ends.
type changeRequest struct {
	Transform json.RawMessage `json:"transform"` // same form as in openRequest
	Size      int             `json:"size,omitempty"`
	BatchSize int             `json:"batch_size"`
}

// changedReply answers [changeRequest]. Where batches do not fit into the ring's slots any more, nothing has changed.
type changedReply struct {
	Fits      bool         `json:"fits"`
	Arrays    []ring.Array `json:"arrays,omitempty"`    // arrays of each slot from now on
	Positions int64        `json:"positions,omitempty"` // same meaning as in openedReply
}

// change reads the new output beside the old one. Only if all of it is sound and fits does it stop the epoch and replace one by the other.
// The ring stays as it is, so the client's mapping and the slots that it holds stay valid.
func (s *session) change(m changeRequest) error {
	next := s.openConfig
	next.Transform, next.Size, next.BatchSize = m.Transform, m.Size, m.BatchSize
	if err := next.readOutput(s.server); err != nil {
		return err
	}
	if next.slotLayout.Size > s.slotBytes {
		return s.connection.send(changedReply{})
	}
	s.stopEpoch()
	s.output, s.fields, s.plan.BatchSize = next.output, next.fields, m.BatchSize
	if s.buckets != nil {
		s.plan.Selection = next.plan.Selection
	}
	s.viewSlots()
	s.publish(nil, false)
	s.connection.log.Debug("changed", "transform", s.viewsText, "batch_size", m.BatchSize)
	return s.connection.send(changedReply{Fits: true, Arrays: s.slotLayout.Arrays, Positions: s.positions()})
}

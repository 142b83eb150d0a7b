package server

import (
	"encoding/json"

	"github.com/imgfeed/imgfeed/loader"
	"github.com/imgfeed/imgfeed/transform"
)

// recordsRequest asks what the session's transform does to samples in an epoch. It begins nothing.
type recordsRequest struct {
	Epoch       int64 `json:"epoch"`
	Indices     []int `json:"indices"`
	Repetitions []int `json:"repetitions,omitempty"` // of each, where samples are repeated; 0 when absent
	View        int   `json:"view,omitempty"`        // of the transform
}

// recordsReply answers [recordsRequest]: for each sample a list of functions with their arguments.
type recordsReply struct {
	Epoch   int64             `json:"epoch"`
	Records []json.RawMessage `json:"records"`
}

// Kind implements [wire.Message].
func (recordsRequest) Kind() string { return "records" }

// Kind implements [wire.Message].
func (recordsReply) Kind() string { return "records" }

// recordsMax bounds the samples of one request: each costs as much as serving it.
const recordsMax = 1024

func (s *session) records(m recordsRequest) error {
	switch {
	case m.Epoch < 0:
		return badRequest("records: epoch is %d, want 0 or more", m.Epoch)
	case len(m.Indices) == 0 || len(m.Indices) > recordsMax:
		return badRequest("records: %d indices, want 1 to %d", len(m.Indices), recordsMax)
	case m.Repetitions != nil && len(m.Repetitions) != len(m.Indices):
		return badRequest("records: %d repetitions for %d indices", len(m.Repetitions), len(m.Indices))
	case m.View < 0 || m.View >= len(s.views):
		return badRequest("records: view is %d, want 0 to %d", m.View, len(s.views)-1)
	}
	engine, reply := transform.NewEngine(transform.ActiveLevel()), recordsReply{Epoch: m.Epoch}
	for i, index := range m.Indices {
		if err := s.checkIndex(index); err != nil {
			return err
		}
		repetition := 0
		if m.Repetitions != nil {
			repetition = m.Repetitions[i]
		}
		record, err := loader.Recorded(s.samples, engine, s.views, s.plan.Seed, int(m.Epoch), index, repetition, m.View)
		if err != nil {
			return err
		}
		reply.Records = append(reply.Records, json.RawMessage(record))
	}
	return s.connection.send(reply)
}

package server

import (
	"encoding/binary"

	"github.com/imgfeed/imgfeed/loader/plan"
)

// orderRequest asks which samples an epoch gives this rank. It begins nothing.
type orderRequest struct {
	Epoch int64 `json:"epoch"`
}

// orderReply answers [orderRequest]. Count int64 follow it, little-endian: the samples' indices in the order of the batches.
type orderReply struct {
	Epoch int64 `json:"epoch"`
	Count int   `json:"count"`
}

// Kind implements [wire.Message].
func (orderRequest) Kind() string { return "order" }

// Kind implements [wire.Message].
func (orderReply) Kind() string { return "order" }

// order sends the indices some batches at a time: an epoch may have two thousand million.
func (s *session) order(m orderRequest) error {
	const piece = 64 << 10
	cfg := s.plan
	cfg.Epoch = int(m.Epoch)
	p, err := plan.New(cfg)
	if err != nil {
		return err
	}
	c := s.connection
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	if err := c.encode(orderReply{Epoch: m.Epoch, Count: p.Samples()}); err != nil {
		return err
	}
	var batch []int
	for b := range p.Batches() {
		batch = p.Batch(b, batch)
		for _, index := range batch {
			c.frame = binary.LittleEndian.AppendUint64(c.frame, uint64(index))
			if len(c.frame) < piece {
				continue
			}
			if _, err := c.conn.Write(c.frame); err != nil {
				return err
			}
			c.frame = c.frame[:0]
		}
	}
	_, err = c.conn.Write(c.frame)
	return err
}

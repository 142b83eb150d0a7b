package server

import "encoding/binary"

// labelsRequest asks for the label of every sample.
type labelsRequest struct{}

// labelsReply answers [labelsRequest]. Count int32 follow it, little-endian, in index order: -1 where the partition is out
// of reach.
type labelsReply struct {
	Count int `json:"count"`
}

// keyRequest asks for the key of one sample.
type keyRequest struct {
	Index int `json:"index"`
}

// keyReply answers [keyRequest].
type keyReply struct {
	Index int    `json:"index"`
	Key   string `json:"key"`
}

// Kind implements [wire.Message].
func (labelsRequest) Kind() string { return "labels" }

// Kind implements [wire.Message].
func (labelsReply) Kind() string { return "labels" }

// Kind implements [wire.Message].
func (keyRequest) Kind() string { return "key" }

// Kind implements [wire.Message].
func (keyReply) Kind() string { return "key" }

// labels sends the labels a piece at a time, straight from the index: a manifest may claim any number of samples in
// partitions that are not here.
func (s *session) labels(labelsRequest) error {
	const piece = 16 << 10
	count, c := s.set.Len(), s.connection
	labels := make([]int32, min(piece, count))
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	if err := c.encode(labelsReply{Count: count}); err != nil {
		return err
	}
	for first := 0; ; first += piece {
		if _, err := c.conn.Write(c.frame); err != nil {
			return err
		}
		if first >= count {
			return nil
		}
		c.frame = c.frame[:0]
		some := labels[:min(piece, count-first)]
		if err := s.set.Labels(first, some); err != nil {
			return err
		}
		for _, label := range some {
			c.frame = binary.LittleEndian.AppendUint32(c.frame, uint32(label))
		}
	}
}

// checkIndex refuses an index that no sample has.
func (s *session) checkIndex(index int) error {
	if index < 0 || index >= s.set.Len() {
		return badRequest("there is no sample %d: indices are 0 to %d", index, s.set.Len()-1)
	}
	return nil
}

func (s *session) key(m keyRequest) error {
	if err := s.checkIndex(m.Index); err != nil {
		return err
	}
	key, err := s.set.Key(m.Index)
	if err != nil {
		return err
	}
	return s.connection.send(keyReply{Index: m.Index, Key: key})
}

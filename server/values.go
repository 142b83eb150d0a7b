package server

// valuesRequest asks for the values of one sample's fields.
type valuesRequest struct {
	Index int `json:"index"`
}

// valuesReply answers [valuesRequest]. Bytes bytes follow it: the values as docs/format/shard.md has them in a record.
type valuesReply struct {
	Index int `json:"index"`
	Bytes int `json:"bytes"`
}

// Kind implements [wire.Message].
func (valuesRequest) Kind() string { return "values" }

// Kind implements [wire.Message].
func (valuesReply) Kind() string { return "values" }

func (s *session) values(m valuesRequest) error {
	if err := s.checkIndex(m.Index); err != nil {
		return err
	}
	record, _, err := s.set.Read(m.Index, nil)
	if err != nil {
		return err
	}
	if _, err := s.set.Manifest().Fields.Split(record.Fields, nil); err != nil {
		return s.set.Corrupt(m.Index, err)
	}
	return s.connection.send(valuesReply{Index: m.Index, Bytes: len(record.Fields)}, record.Fields)
}

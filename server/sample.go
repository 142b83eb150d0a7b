package server

import "github.com/imgfeed/imgfeed/loader"

// sampleRequest asks for one stored image, whole.
type sampleRequest struct {
	Index int `json:"index"`
}

// sampleReply answers [sampleRequest]. Height · Width · 3 bytes follow it: RGB, row after row.
type sampleReply struct {
	Index  int   `json:"index"`
	Label  int32 `json:"label"`
	Width  int   `json:"width"`
	Height int   `json:"height"`
}

// Kind implements [wire.Message].
func (sampleRequest) Kind() string { return "sample" }

// Kind implements [wire.Message].
func (sampleReply) Kind() string { return "sample" }

func (s *session) sample(m sampleRequest) error {
	if err := s.checkIndex(m.Index); err != nil {
		return err
	}
	image, err := loader.Whole(s.set.Set, m.Index)
	if err != nil {
		return err
	}
	return s.connection.send(sampleReply{Index: m.Index, Label: image.Label, Width: image.Width, Height: image.Height}, image.Pix)
}

package server

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"

	"github.com/imgfeed/imgfeed/loader"
	"github.com/imgfeed/imgfeed/loader/plan"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/encoding/registry"
	"github.com/imgfeed/imgfeed/transform"
)

// Requests that look something up in the session's dataset or its plan. None of them changes anything, so they are served while an epoch
// runs. The connection's goroutine serves them, and the client's next request waits for the answer. The session holds the set open.

// labelsRequest asks for the label of every sample.
type labelsRequest struct{}

// labelsReply answers [labelsRequest]. Count int32 follow it, little-endian, in index order: -1 where the partition is out
// of reach.
type labelsReply struct {
	Count int `json:"count"`
}

// An indexRequest asks for something of one sample.
type indexRequest struct {
	Index int `json:"index"`
}

type (
	keyRequest    indexRequest // the sample's key
	sampleRequest indexRequest // the stored image, whole
	fileRequest   indexRequest // the sample's file, as it was packed
	valuesRequest indexRequest // the values of the sample's fields
)

// ofSample makes a request of a method that serves it for a sample that the set has.
func ofSample[M keyRequest | sampleRequest | fileRequest | valuesRequest](serve func(s *session, index int) error) request {
	return ofSession(func(s *session, m M) error {
		index := indexRequest(m).Index
		if err := s.checkIndex(index); err != nil {
			return err
		}
		return serve(s, index)
	})
}

// keyReply answers [keyRequest].
type keyReply struct {
	Index int    `json:"index"`
	Key   string `json:"key"`
}

// labels sends the labels one by one, straight from the index: a manifest may claim any number of samples in partitions that are not
// here. Their labels are -1.
func (s *session) labels(labelsRequest) error {
	count := s.set.Len()
	return s.connection.sendArray(labelsReply{Count: count}, func(w *bufio.Writer) (err error) {
		for i := 0; i < count && err == nil; i++ {
			label := int32(-1)
			if e, failed := s.set.Entry(i); failed == nil {
				label = e.Label
			}
			_, err = w.Write(binary.LittleEndian.AppendUint32(w.AvailableBuffer(), uint32(label)))
		}
		return err
	})
}

// checkIndex refuses an index that no sample has.
func (s *session) checkIndex(index int) error {
	if index < 0 || index >= s.set.Len() {
		return badRequest("there is no sample %d: indices are 0 to %d", index, s.set.Len()-1)
	}
	return nil
}

func (s *session) key(index int) error {
	key, err := s.set.Key(index)
	if err != nil {
		return err
	}
	return s.connection.send(keyReply{Index: index, Key: key})
}

// classesRequest asks for the names of the classes, from the first of a label on.
type classesRequest struct {
	First int `json:"first"`
}

// classesMax is how many names one message holds at most.
const classesMax = 4096

// classesReply answers [classesRequest] with some names. Class i of the list has label First + i.
type classesReply struct {
	First   int      `json:"first"`
	Count   int      `json:"count"` // how many classes the set has
	Classes []string `json:"classes"`
}

// classes sends some names of the manifest, from one on: a set may have more than fit into a message.
func (s *session) classes(m classesRequest) error {
	classes := s.set.Manifest().Classes
	if m.First < 0 || m.First > len(classes) {
		return badRequest("first is %d: the set has %d classes, so want 0 to that", m.First, len(classes))
	}
	some := append([]string{}, classes[m.First:min(m.First+classesMax, len(classes))]...) // not nil, which JSON would write as null
	return s.connection.send(classesReply{First: m.First, Count: len(classes), Classes: some})
}

// do calls do for each of n samples: on the pool, in turn with the streams; or on this goroutine if reads may hang, since workers must
// not wait for them.
func (s *session) do(n int, do func(engine *transform.Engine, i int) error) (err error) {
	if !s.set.MayHang() {
		return s.server.pool.Do(s.connection.ctx, n, do)
	}
	engine := transform.NewEngine(transform.ActiveLevel())
	for i := 0; i < n && err == nil; i++ {
		err = cmp.Or(s.connection.ctx.Err(), shard.Guard(func() error { return do(engine, i) }))
	}
	return err
}

// sampleReply answers [sampleRequest]. Height · Width · 3 bytes follow it: RGB, row after row.
type sampleReply struct {
	Index  int   `json:"index"`
	Label  int32 `json:"label"`
	Width  int   `json:"width"`
	Height int   `json:"height"`
}

// sample sends the stored image, decoded whole. The session's transform plays no part.
func (s *session) sample(index int) error {
	var image loader.Picture
	var label int32
	err := s.do(1, func(*transform.Engine, int) (err error) {
		image, label, err = loader.Whole(s.set.Dataset, index)
		return err
	})
	if err != nil {
		return err
	}
	return s.connection.send(sampleReply{Index: index, Label: label, Width: image.Width, Height: image.Height}, image.Pix)
}

// fileReply answers [fileRequest]. Bytes bytes follow it.
type fileReply struct {
	Index int `json:"index"`
	Bytes int `json:"bytes"`
}

func (s *session) file(index int) error {
	if !s.set.described.KeepsFiles {
		return &kindError{fmt.Errorf("the set keeps no files: its images are stored as %s", s.set.described.Encoding), kindUnsupported}
	}
	file, err := registry.File(s.set.Set, index)
	if err != nil {
		return err
	}
	return s.connection.send(fileReply{Index: index, Bytes: len(file)}, file)
}

// valuesReply answers [valuesRequest]. Bytes bytes follow it: the values as docs/format/shard.md has them in a record.
type valuesReply fileReply

// values reads the record on the connection's goroutine: nothing is decoded, so it needs no worker.
func (s *session) values(index int) error {
	record, _, err := s.set.Read(index, nil)
	if err != nil {
		return err
	}
	values, err := loader.Values(s.set.Manifest().Fields, &record)
	if err != nil {
		return s.set.Corrupt(index, err)
	}
	return s.connection.send(valuesReply{Index: index, Bytes: len(values)}, values)
}

// recordsRequest asks what the session's transform does to samples in an epoch. It begins nothing.
type recordsRequest struct {
	Epoch       int64 `json:"epoch"`
	Indices     []int `json:"indices"`
	Repetitions []int `json:"repetitions,omitempty"` // repetition of each sample; 0 if absent
	View        int   `json:"view,omitempty"`        // number of the view
}

// recordsReply answers [recordsRequest]: for each sample a list of functions with their arguments.
type recordsReply struct {
	Epoch   int64             `json:"epoch"`
	Records []json.RawMessage `json:"records"`
}

// recordsMax bounds the samples of one request: each costs as much as serving it.
const recordsMax = 1024

func (s *session) records(m recordsRequest) error {
	if m.Repetitions == nil {
		m.Repetitions = make([]int, len(m.Indices))
	}
	switch {
	case m.Epoch < 0:
		return badRequest("records: epoch is %d, want 0 or more", m.Epoch)
	case len(m.Indices) == 0 || len(m.Indices) > recordsMax:
		return badRequest("records: %d indices, want 1 to %d", len(m.Indices), recordsMax)
	case len(m.Repetitions) != len(m.Indices):
		return badRequest("records: %d repetitions for %d indices", len(m.Repetitions), len(m.Indices))
	case s.buckets != nil:
		return badRequest("records: with buckets only a batch knows its images' size: with_params tells the crops")
	case m.View < 0 || m.View >= len(s.views):
		return badRequest("records: view is %d, want 0 to %d", m.View, len(s.views)-1)
	}
	for _, index := range m.Indices {
		if err := s.checkIndex(index); err != nil {
			return err
		}
	}
	reply := recordsReply{Epoch: m.Epoch, Records: make([]json.RawMessage, len(m.Indices))}
	err := s.do(len(m.Indices), func(engine *transform.Engine, i int) error {
		key := loader.DrawKey{Seed: s.plan.Seed, Epoch: int(m.Epoch), Index: m.Indices[i], Repetition: m.Repetitions[i]}
		record, err := loader.Recorded(s.set.Dataset, engine, s.views, m.View, s.fields, key)
		reply.Records[i] = json.RawMessage(record)
		return err
	})
	if err != nil {
		return err
	}
	return s.connection.send(reply)
}

// orderRequest asks which samples an epoch gives this rank. It begins nothing.
type orderRequest struct {
	Epoch int64 `json:"epoch"`
}

// orderReply answers [orderRequest]. Count int64 follow it, little-endian: the samples' indices in the order of the batches.
type orderReply struct {
	Epoch int64 `json:"epoch"`
	Count int   `json:"count"`
}

// order sends the indices some batches at a time: an epoch may have two thousand million.
func (s *session) order(m orderRequest) error {
	cfg := s.plan
	cfg.Epoch = int(m.Epoch)
	p, err := plan.New(cfg)
	if err != nil {
		return err
	}
	return s.connection.sendArray(orderReply{Epoch: m.Epoch, Count: p.Samples()}, func(w *bufio.Writer) error {
		var batch []int
		for b := range p.Batches() {
			batch = p.Batch(b, batch)
			for _, index := range batch {
				if _, err := w.Write(binary.LittleEndian.AppendUint64(w.AvailableBuffer(), uint64(index))); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

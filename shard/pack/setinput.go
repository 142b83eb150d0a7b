package pack

import (
	"context"
	"io"

	"github.com/imgfeed/imgfeed/shard"
)

// setInput is the samples of a set, in another order or for another encoding.
type setInput struct {
	set   *shard.Set
	items []setItem
	at    int
	// asStored says that records are taken as they are, of a set that stores images in the same way.
	asStored bool
}

type setItem struct {
	item
	index int // in the set
}

func (s *setInput) path() string         { return s.set.Dir() }
func (s *setInput) classes() []string    { return s.set.Manifest().Classes }
func (s *setInput) fields() shard.Fields { return s.set.Manifest().Fields }
func (s *setInput) count() int           { return len(s.items) }
func (s *setInput) done(*inFlight)       {}
func (s *setInput) close()               {}

func (s *setInput) gather(ctx context.Context, b *builder) error {
	s.items = make([]setItem, 0, min(s.set.Len(), max(len(b.wanted), 1<<20)))
	for i := range s.set.Len() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if b.wanted != nil && !s.set.Has(i%s.set.Partitions()) {
			continue // what it has serves to repair what it can
		}
		key, err := s.set.Key(i)
		if err != nil {
			return err
		}
		if !b.wants(key) {
			continue
		}
		s.items = append(s.items, setItem{newItem(b.options.Seed, key), i})
		b.report(StageList, i+1, 0, 0)
	}
	return sortItems(s.path(), s.items)
}

func (s *setInput) next(im *inFlight) error {
	if s.at == len(s.items) {
		return io.EOF
	}
	im.key, im.location.index = s.items[s.at].key, s.items[s.at].index
	s.at++
	return nil
}

func (s *setInput) values(*inFlight) error { return nil } // load has read them

func (s *setInput) load(im *inFlight) error {
	record, _, err := s.set.Read(im.location.index, im.data)
	if err != nil {
		return err
	}
	if im.encoded = s.asStored; s.asStored {
		im.data, im.label = record.Image, record.Label
		im.sample = shard.Sample{
			Key: im.key, Label: record.Label, Width: int(record.Width), Height: int(record.Height), Format: record.Format,
			Image: record.Image, Aux: record.Aux, Fields: record.Fields,
		}
		return nil
	}
	im.data, im.label = record.Image, record.Label
	im.fields = append(im.fields[:0], record.Fields...)
	return nil
}

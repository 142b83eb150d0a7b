package loader

import (
	"fmt"
	"sync/atomic"

	"github.com/imgfeed/imgfeed/internal/memory"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/encoding"
	"github.com/imgfeed/imgfeed/shard/encoding/registry"
	"github.com/imgfeed/imgfeed/transform"
)

// FromShards makes an open shard set a [Dataset]. It reads the encoding's parameters once; one that this program
// cannot decode is an error. The set stays the caller's to close.
func FromShards(set *shard.Set) (Dataset, error) {
	e, err := encodingOf(set)
	if err != nil {
		return nil, err
	}
	return &shardSet{set: set, encoding: e, mapped: e.Mapped() && set.Map() == nil}, nil
}

func encodingOf(set *shard.Set) (encoding.Encoding, error) {
	e, err := registry.Open(set.Manifest().Encoding)
	if err != nil {
		return nil, fmt.Errorf("loader: %s: %w", set.Dir(), err)
	}
	return e, nil
}

// A NotBitExactError says that a transform of a set's stored images does not give the bits that it gives of the originals.
type NotBitExactError struct {
	Dir  string
	Note string // why
}

func (e *NotBitExactError) Error() string {
	return fmt.Sprintf("loader: %s: bit-exact results were asked for: %s", e.Dir, e.Note)
}

// CheckBitExact returns a [*NotBitExactError] if the transform's results of the set's stored images differ from those of the
// originals, of any view. Its Note is for the user.
func CheckBitExact(set *shard.Set, views transform.Views) error {
	e, err := encodingOf(set)
	if err != nil {
		return err
	}
	for _, spec := range views {
		if note := e.NotBitExact(spec); note != "" {
			return &NotBitExactError{Dir: set.Dir(), Note: note}
		}
	}
	return nil
}

// DescribeEncoding says how a set's images are stored, in a few words: "pixels (bitpack, resize 256 bilinear, pillow-13)".
func DescribeEncoding(stored shard.Encoding) string { return registry.Describe(stored) }

type shardSet struct {
	set      *shard.Set
	encoding transform.Encoding
	mapped   bool        // records may be viewed
	copies   atomic.Bool // and yet they are read
}

func (s *shardSet) Read(i int, buf []byte) (Record, []byte, error) {
	var rec shard.Record
	var err error
	if s.mapped && !s.copies.Load() {
		rec, err = s.set.View(i)
	} else {
		rec, buf, err = s.set.Read(i, buf)
	}
	if err != nil {
		return Record{}, buf, err
	}
	return s.record(&rec), buf, nil
}

func (s *shardSet) record(rec *shard.Record) Record {
	source := transform.Source{Format: rec.Format, Image: rec.Image, Aux: rec.Aux, Encoding: s.encoding}
	return Record{Source: source, Label: rec.Label, Fields: rec.Fields}
}

func (s *shardSet) Label(i int) (int32, bool) {
	label, err := s.set.Label(i)
	return label, err == nil
}

func (s *shardSet) Key(i int) (string, error) { return s.set.Key(i) }

func (s *shardSet) Resident(i int) (resident, waits bool) { return s.set.Resident(i) }

func (s *shardSet) Prefetch(i int) int64 { return s.set.Prefetch(i) }

func (s *shardSet) DropsHints() bool { return s.set.DropsHints() }

// Room leaves a fifth of what there is to others, and half where the set needs it all: what they will need is not known.
func (s *shardSet) Room() float64 {
	size, room := float64(s.set.Bytes()), float64(memory.ForCache())
	if size <= 0.8*room {
		return 1
	}
	return room / 2 / size
}

// Direct implements [Dataset].
func (s *shardSet) Direct(bytes int64, count int) (Direct, error) {
	d, err := s.set.NewDirect(bytes, count)
	if err != nil {
		return nil, err
	}
	return shardDirect{d, s}, nil
}

// A shardDirect is a shard set's as the loader has it.
type shardDirect struct {
	*shard.Direct
	set *shardSet
}

// Take implements [Direct].
func (d shardDirect) Take(n int64) (Record, bool, error) {
	rec, held, err := d.Direct.Take(n)
	if !held || err != nil {
		return Record{}, held, err
	}
	return d.set.record(&rec), true, nil
}

func (s *shardSet) Copy(on bool) { s.copies.Store(on) }

func (s *shardSet) Mapped(i int) []byte {
	if !s.mapped || s.copies.Load() {
		return nil
	}
	return s.set.Mapped(i)
}

func (s *shardSet) Corrupt(i int, err error) error { return s.set.Corrupt(i, err) }

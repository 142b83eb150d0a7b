package loader

import (
	"fmt"

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
	return &shardSet{Set: set, encoding: e, mapped: e.Mapped() && set.Map() == nil}, nil
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

// A shardSet is a shard set as a Dataset.
type shardSet struct {
	*shard.Set
	encoding transform.Encoding
	mapped   bool // records may be viewed
}

func (s *shardSet) Encoding() transform.Encoding { return s.encoding }

func (s *shardSet) Read(i int, from Access) (record shard.Record, buf []byte, err error) {
	switch {
	case from.Bytes != nil:
		record, err = s.Set.Record(i, from.Bytes)
		return record, from.Buf, err
	case from.View && s.mapped:
		record, err = s.Set.View(i)
		return record, from.Buf, err
	}
	return s.Set.Read(i, from.Buf)
}

func (s *shardSet) Label(i int) (int32, bool) {
	label, err := s.Set.Label(i)
	return label, err == nil
}

func (s *shardSet) Mapped(i int) []byte {
	if !s.mapped {
		return nil
	}
	return s.Set.Mapped(i)
}

package loader

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/pixels"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/transform"
)

// FromShards makes an open shard set a [Set]. It reads the encoding's parameters once; one that this program
// cannot decode is an error. The set stays the caller's to close.
func FromShards(set *shard.Set) (Set, error) {
	s := &shardSet{set: set}
	encoding := set.Manifest().Encoding
	switch encoding.Name {
	case "jpeg":
	case "pixels":
		params, _, err := pixelsParams(set)
		if err != nil {
			return nil, err
		}
		s.pixels = &params.Params
		s.mapped = set.Map() == nil // a copy would cost as much as decoding
	default:
		return nil, fmt.Errorf("loader: %s: unknown encoding %s; it needs a newer version of this program", set.Dir(), encoding)
	}
	return s, nil
}

// pixelsParams reads and checks the parameters of a set of the encoding pixels.
func pixelsParams(set *shard.Set) (params transform.PixelsParams, resize transform.StoredResize, err error) {
	encoding := set.Manifest().Encoding
	if len(encoding.Params) > 0 {
		if err := json.Unmarshal(encoding.Params, &params); err != nil {
			return params, resize, fmt.Errorf("loader: %s: the parameters of encoding %s: %w", set.Dir(), encoding, err)
		}
	}
	if resize, err = params.Stored(); err == nil {
		_, err = pixels.New(params.Params, kernel.Generic)
	}
	if err != nil {
		return params, resize, fmt.Errorf("loader: %s: encoding %s: %w", set.Dir(), encoding, err)
	}
	return params, resize, nil
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
// originals. Its Note is for the user.
func CheckBitExact(set *shard.Set, spec *transform.Spec) error {
	if set.Manifest().Encoding.Name != "pixels" {
		return nil
	}
	_, resize, err := pixelsParams(set)
	if err != nil {
		return err
	}
	if note := resize.NotBitExact(spec); note != "" {
		return &NotBitExactError{Dir: set.Dir(), Note: note}
	}
	return nil
}

// DescribeEncoding says how a set's images are stored, in a few words: "pixels (bitpack, resize 256 bilinear, pillow-13)".
func DescribeEncoding(encoding shard.Encoding) string {
	var p transform.PixelsParams
	if encoding.Name != "pixels" || json.Unmarshal(encoding.Params, &p) != nil {
		return encoding.Name
	}
	if p.Resize == "" {
		return fmt.Sprintf("%s (%s)", encoding.Name, p.Codec)
	}
	words := []string{p.Codec, strings.TrimSpace("resize " + p.Resize + " " + p.Interpolation)}
	if s, err := p.Stored(); err == nil && s != (transform.StoredResize{}) {
		words = append(words, s.Resampler.String())
	}
	return fmt.Sprintf("%s (%s)", encoding.Name, strings.Join(words, ", "))
}

type shardSet struct {
	set    *shard.Set
	pixels *pixels.Params // nil unless the encoding is pixels
	mapped bool           // records are viewed, not read
}

func (s *shardSet) Read(i int, buf []byte) (Record, []byte, error) {
	var rec shard.Record
	var err error
	if s.mapped {
		rec, err = s.set.View(i)
	} else {
		rec, buf, err = s.set.Read(i, buf)
	}
	if err != nil {
		return Record{}, buf, err
	}
	return Record{transform.Source{Format: rec.Format, Image: rec.Image, Aux: rec.Aux, Pixels: s.pixels}, rec.Label}, buf, nil
}

func (s *shardSet) Key(i int) (string, error) { return s.set.Key(i) }

func (s *shardSet) Prefetch(i int) { s.set.Prefetch(i) }

func (s *shardSet) Mapped(i int) []byte {
	if !s.mapped {
		return nil
	}
	return s.set.Mapped(i)
}

func (s *shardSet) Corrupt(i int, err error) error { return s.set.Corrupt(i, err) }

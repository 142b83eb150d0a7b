package loader

import (
	"encoding/json"
	"fmt"

	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/transform"
	"github.com/imgfeed/imgfeed/transform/kernel"
	"github.com/imgfeed/imgfeed/transform/pixels"
)

// FromShards makes an open shard set a [Set]. It reads the encoding's parameters once; one that this program
// cannot decode is an error. The set stays the caller's to close.
func FromShards(set *shard.Set) (Set, error) {
	s := &shardSet{set: set}
	encoding := set.Manifest().Encoding
	switch encoding.Name {
	case "jpeg":
	case "pixels":
		s.pixels = new(pixels.Params)
		if len(encoding.Params) > 0 {
			if err := json.Unmarshal(encoding.Params, s.pixels); err != nil {
				return nil, fmt.Errorf("loader: %s: the parameters of encoding %s: %w", set.Dir(), encoding, err)
			}
		}
		if _, err := pixels.New(*s.pixels, kernel.Generic); err != nil {
			return nil, fmt.Errorf("loader: %s: encoding %s: %w", set.Dir(), encoding, err)
		}
	default:
		return nil, fmt.Errorf("loader: %s: unknown encoding %s; it needs a newer version of this program", set.Dir(), encoding)
	}
	return s, nil
}

type shardSet struct {
	set    *shard.Set
	pixels *pixels.Params // nil unless the encoding is pixels
}

// formats translates what is on disk to what the engine knows. What is not listed is told by its first bytes.
var formats = [...]transform.Format{
	shard.FormatJPEG:   transform.FormatJPEG,
	shard.FormatPNG:    transform.FormatPNG,
	shard.FormatPixels: transform.FormatPixels,
	shard.FormatWebP:   transform.FormatWebP,
	shard.FormatGIF:    transform.FormatGIF,
	shard.FormatBMP:    transform.FormatBMP,
}

func (s *shardSet) Read(i int, buf []byte) (Record, []byte, error) {
	rec, buf, err := s.set.Read(i, buf)
	if err != nil {
		return Record{}, buf, err
	}
	r := Record{Source: transform.Source{Image: rec.Image, Aux: rec.Aux, Pixels: s.pixels}, Label: rec.Label}
	if int(rec.Format) < len(formats) {
		r.Format = formats[rec.Format]
	}
	return r, buf, nil
}

func (s *shardSet) Key(i int) (string, error) { return s.set.Key(i) }

func (s *shardSet) ReadAhead(i int) { s.set.ReadAhead(i) }

package pack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync/atomic"

	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/encoding/registry"
	"github.com/imgfeed/imgfeed/shard/storage"
)

// remoteReads is the number of concurrent reads where parts lie in a bucket: each record is a request.
const remoteReads = 64

// Merge makes the set at out, or the sets of several splits in it, of parts: the bytes are those of a build on one machine. It copies
// every record once and decodes none, and removes the parts at the end. Of the options Jobs, Replace and Progress count. done is
// called after each set.
func Merge(ctx context.Context, out string, o Options, done func(Summary)) error {
	sets, err := findParts(out)
	if err != nil {
		return err
	}
	if o.Jobs == 0 && storage.IsRemote(out) {
		o.Jobs = remoteReads
	}
	for _, s := range sets {
		sum, err := s.merge(ctx, o)
		if err != nil {
			return err
		}
		done(sum)
	}
	return removeParts(out)
}

// merge writes the set.
func (s *partSet) merge(ctx context.Context, o Options) (Summary, error) {
	m := s.manifests[0]
	stored, err := registry.Open(m.Encoding)
	if err != nil {
		return Summary{}, fmt.Errorf("%s: %w", s.places[0], err)
	}
	o.Partitions, o.Seed, o.Encoding = m.Partitions, m.Seed, stored
	if text := m.Built[builtShardBytes]; text != "" {
		if o.ShardBytes, err = strconv.ParseInt(text, 10, 64); err != nil {
			return Summary{}, fmt.Errorf("%s: %w", s.places[0], err)
		}
	}
	b := newBuilder(m.Split, &mergeInput{partSet: s}, o)
	b.built = wholeBuilt(m.Built)
	return b.build(ctx, s.out)
}

// mergeInput is the samples and rejects of all parts of a set, one part after the other.
type mergeInput struct {
	*partSet
	readers []*partReader
	part    *partReader // the last of them, while it has items left
}

// partReader is an open part.
type partReader struct {
	set     *shard.Set // part, opened lazily
	path    string     // path of items
	items   io.ReadCloser
	lines   *json.Decoder
	samples int          // listed so far
	pending atomic.Int64 // unfinished samples; the set closes with the last
}

func (in *mergeInput) path() string         { return in.out }
func (in *mergeInput) classes() []string    { return in.manifests[0].Classes }
func (in *mergeInput) fields() shard.Fields { return in.manifests[0].Fields }

func (in *mergeInput) count() (n int) {
	for _, m := range in.manifests {
		n += m.Samples
	}
	return n
}

func (in *mergeInput) gather(context.Context, *builder) error { return nil }

// open opens the next part; the error is io.EOF after the last.
func (in *mergeInput) open() error {
	if len(in.readers) == len(in.places) {
		return io.EOF
	}
	place := in.places[len(in.readers)]
	set, err := shard.OpenLazily(place)
	if err != nil {
		return err
	}
	items, err := openList(place, partItemsName)
	if err != nil {
		return err
	}
	p := &partReader{set: set, path: storage.Join(place, partItemsName), items: items, lines: json.NewDecoder(items)}
	p.pending.Store(int64(p.set.Len()))
	in.part, in.readers = p, append(in.readers, p)
	return nil
}

// item returns the next item of all parts.
func (in *mergeInput) item() (it partItem, err error) {
	for {
		if in.part == nil {
			if err := in.open(); err != nil {
				return it, err
			}
		}
		p := in.part
		switch err := p.lines.Decode(&it); {
		case err == nil:
			if it.Reason == "" {
				p.samples++
			}
			return it, nil
		case err == io.EOF && p.samples == p.set.Len():
			p.items.Close()
			in.part = nil
		default:
			p.items.Close()
			return it, fmt.Errorf("%s is damaged after %d of %d samples (%v): %s", p.path, p.samples, p.set.Len(), err, again(in.out))
		}
	}
}

func (in *mergeInput) next(im *inFlight) error {
	it, err := in.item()
	if err != nil {
		return err
	}
	im.key, im.reason, im.bytes, im.part, im.index = string(it.Key), it.Reason, it.Bytes, in.part, in.part.samples-1
	im.scratch.Repaired = nil
	if it.Repaired != "" {
		im.scratch.Repaired = errors.New(it.Repaired)
	}
	return nil
}

func (in *mergeInput) load(im *inFlight) error {
	set := im.part.set
	key, err := set.Key(im.index)
	if err == nil && key != im.key {
		err = fmt.Errorf("%s has %q where its set has %q: %s", im.part.path, im.key, key, again(in.out))
	}
	if err != nil {
		return err
	}
	r, _, err := set.Read(im.index, im.data)
	im.data, im.encoded = r.Image, true
	im.sample = shard.Sample{
		Key: im.key, Label: r.Label, Width: int(r.Width), Height: int(r.Height), Format: r.Format,
		Image: r.Image, Aux: r.Aux, Fields: r.Fields,
	}
	return err
}

func (in *mergeInput) done(im *inFlight) {
	if p := im.part; im.reason == "" && p.pending.Add(-1) == 0 {
		p.set.Close()
	}
}

func (in *mergeInput) close() {
	for _, p := range in.readers {
		if p.pending.Load() > 0 {
			p.set.Close()
		}
	}
	if in.part != nil {
		in.part.items.Close()
	}
}

package pack

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/encoding/registry"
	"github.com/imgfeed/imgfeed/shard/storage"
)

// remoteReads is the number of concurrent reads where parts, or the images of an index, lie in a bucket: each of them is a request.
const remoteReads = 64

// Merge makes the set at out, or the sets of several splits in it, of parts: the bytes are those of a build on one machine. It copies
// every record once and decodes none, and removes the parts at the end. The summaries have no repaired images: those of the parts name them. Of the options Jobs, Replace and Progress count. done is
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

// mergeInput is the samples of all parts of a set, in order, and then the rejects.
type mergeInput struct {
	*partSet
	sets    []*shard.Set
	joined  *shard.Set // all of sets
	rejects []Reject
	at      int // the next sample or reject
}

func (in *mergeInput) path() string         { return in.out }
func (in *mergeInput) classes() []string    { return in.manifests[0].Classes }
func (in *mergeInput) fields() shard.Fields { return in.manifests[0].Fields }
func (in *mergeInput) count() int           { return in.joined.Len() + len(in.rejects) }
func (in *mergeInput) done(*inFlight)       {}

func (in *mergeInput) gather(context.Context, *builder) (err error) {
	for _, place := range in.places {
		set, err := shard.OpenLazily(place)
		if err != nil {
			return err
		}
		in.sets = append(in.sets, set)
		if err := ReadRejects(place, func(r Reject) { in.rejects = append(in.rejects, r) }); err != nil {
			return err
		}
	}
	in.joined, err = shard.Join(in.sets, false)
	return err
}

func (in *mergeInput) next(im *inFlight) error {
	samples := in.joined.Len()
	switch {
	case in.at < samples:
		im.index = in.at
	case in.at < in.count():
		r := in.rejects[in.at-samples]
		im.key, im.reason, im.bytes = r.Key, r.Reason, r.Bytes
	default:
		return io.EOF
	}
	in.at++
	return nil
}

func (in *mergeInput) load(im *inFlight) error {
	key, err := in.joined.Key(im.index)
	if err != nil {
		return err
	}
	r, _, err := in.joined.Read(im.index, im.data)
	im.data, im.encoded = r.Image, true
	im.sample = shard.Sample{
		Key: key, Label: r.Label, Width: int(r.Width), Height: int(r.Height), Format: r.Format,
		Image: r.Image, Aux: r.Aux, Fields: r.Fields,
	}
	return err
}

func (in *mergeInput) close() {
	for _, set := range in.sets {
		set.Close()
	}
}

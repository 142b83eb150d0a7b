package pack

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/encoding/registry"
	"github.com/imgfeed/imgfeed/shard/storage"
)

// remoteReads is the number of concurrent reads where parts, or the images of an index, lie in a bucket: each of them is a request.
const remoteReads = 64

// Merge makes the set at out, or the sets of several splits in it, of parts: the bytes are those of a build on one machine. It copies
// every record once and decodes none, and removes the parts at the end. If it was killed there, it finds the sets complete. The summaries
// have no repaired images: those of the parts name them. Of the options Jobs, Replace and Progress count. done is called after each set.
func Merge(ctx context.Context, out string, o Options, done func(Summary)) error {
	if sums := alreadyMerged(out); sums != nil {
		for _, s := range sums {
			done(s)
		}
		return removeParts(out)
	}
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

func (s *partSet) merge(ctx context.Context, o Options) (Summary, error) {
	m := s.manifests[0]
	stored, err := registry.Open(m.Encoding)
	if err != nil {
		return Summary{}, fmt.Errorf("%s: %w", s.dirs[0], err)
	}
	o.Partitions, o.Seed, o.Encoding = m.Partitions, m.Seed, stored
	if text := m.Built[builtShardBytes]; text != "" {
		if o.ShardBytes, err = strconv.ParseInt(text, 10, 64); err != nil {
			return Summary{}, fmt.Errorf("%s: %w", s.dirs[0], err)
		}
	}
	found := shard.Found{Joined: map[string][]string{m.Split: s.dirs}}
	parts, err := found.Open(m.Split, nil)
	if err != nil {
		return Summary{}, err
	}
	defer parts.Close()
	b := newBuilder(m.Split, s.out, m.Fields, &mergeInput{setInput{set: parts}, s.dirs}, o)
	b.built = wholeBuilt(m.Built)
	return b.build(ctx, s.out)
}

// mergeInput is the samples of all parts of a set, joined, and then the rejects.
type mergeInput struct {
	setInput
	dirs []string // the parts' paths, in order
}

func (in *mergeInput) count() int { return in.set.Len() + len(in.rejects) }

func (in *mergeInput) gather(context.Context, *builder) (_ []string, err error) {
	for _, dir := range in.dirs {
		err = errors.Join(err, ReadRejects(dir, func(r Reject) { in.rejects = append(in.rejects, r) }))
	}
	return in.set.Manifest().Classes, err
}

func (in *mergeInput) next(im *inFlight) error {
	if in.taken == in.count() {
		return io.EOF
	}
	im.index = in.taken
	in.taken++
	in.reject(im)
	return nil
}

func (in *mergeInput) load(im *inFlight) error {
	key, err := in.set.Key(im.index)
	if err != nil {
		return err
	}
	r, _, err := in.set.Read(im.index, im.data)
	im.data, im.encoded = r.Image, true
	im.sample = shard.Sample{
		Key: key, Label: r.Label, Width: int(r.Width), Height: int(r.Height), Format: r.Format,
		Image: r.Image, Aux: r.Aux, Fields: r.Fields,
	}
	return err
}

// partSet is all parts of a set.
type partSet struct {
	out       string   // output folder of the merged set
	dirs      []string // folders of the parts, in order
	manifests []*shard.Manifest
}

// findParts finds the parts of the set at out, or of the sets of several splits in it, which must be whole and alike.
func findParts(out string) ([]*partSet, error) {
	files, names, err := listParts(out)
	if err != nil {
		return nil, err
	}
	of, splits := 0, []string(nil)
	for _, name := range names {
		var p Part
		if n, _ := fmt.Sscanf(name, "%d-of-%d/", &p.Number, &p.Of); n < 2 {
			continue
		}
		if of != 0 && of != p.Of {
			return nil, fmt.Errorf("%s has parts of %d and parts of %d: remove those that are not meant", files, of, p.Of)
		}
		of = p.Of
		if splits == nil {
			if splits, err = splitsOf(files, name); err != nil {
				return nil, err
			}
		}
	}
	if splits == nil {
		return nil, fmt.Errorf("%s has no finished part: run imgshard build SRC -o %s --part 1/N, and so on to N/N", out, out)
	}
	sets := make([]*partSet, len(splits))
	for i, split := range splits {
		s := &partSet{out: out}
		for number := range of {
			s.dirs = append(s.dirs, storage.Join(files.String(), Part{number + 1, of}.folder()))
		}
		if len(splits) > 1 {
			s.out = storage.Join(out, split)
			for k := range s.dirs {
				s.dirs[k] = storage.Join(s.dirs[k], split)
			}
		}
		if err := s.read(out); err != nil {
			return nil, err
		}
		sets[i] = s
	}
	return sets, nil
}

// splitsOf returns the splits that a part is of, nil if nothing of the part is finished.
func splitsOf(files storage.Storage, part string) ([]string, error) {
	names, err := files.Names(strings.TrimSuffix(part, "/"))
	for _, name := range append([]string{""}, names...) {
		m, err := shard.ReadManifest(storage.Join(files.String(), part+name))
		if err == nil {
			return strings.Split(m.Built[builtSplits], ","), nil
		} else if !errors.Is(err, shard.ErrNotSet) {
			return nil, err
		}
	}
	return nil, err
}

// read reads the manifests, and refuses parts that make no set. out is what all parts had for -o.
func (s *partSet) read(out string) error {
	var missing []string
	for i, dir := range s.dirs {
		m, err := shard.ReadManifest(dir)
		if err != nil && !errors.Is(err, shard.ErrNotSet) {
			return err
		}
		if err != nil || m.Built[builtPart] != (Part{i + 1, len(s.dirs)}).String() {
			missing = append(missing, strconv.Itoa(i+1))
		}
		s.manifests = append(s.manifests, m)
	}
	if len(missing) > 0 {
		return fmt.Errorf("%s lacks parts of %d: %s. Run each, as imgshard build SRC -o %s --part %s/%[2]d with the flags of the others, "+
			"then merge again", s.out, len(s.dirs), bytesize.Listed(missing, 20), out, missing[0])
	}
	first := partOrigin(s.manifests[0])
	for i, m := range s.manifests {
		if origin := partOrigin(m); origin != first {
			remedy := "run the part again with --force"
			if storage.IsRemote(out) { // A bucket replaces no set.
				remedy = "remove it, and run the part again"
			}
			return fmt.Errorf("%s is from another source than part 1, or was made with other flags: %s\n  part 1: %s\n  part %d: %s",
				s.dirs[i], remedy, first, i+1, origin)
		}
	}
	return nil
}

// partOrigin describes the source of a part, and the flags, which all parts of a set have in common.
func partOrigin(m *shard.Manifest) string {
	return fmt.Sprintf("%s, files %s", setOrigin(m), m.Built[builtListing])
}

// setOrigin describes what a part and its set have in common.
func setOrigin(m *shard.Manifest) string {
	classes := sha256.Sum256([]byte(strings.Join(m.Classes, "\n")))
	return fmt.Sprintf("split %s, encoding %s%s, seed %d, partitions %d, fields %v, %v, %d classes %.4x", m.Split, m.Encoding.Name,
		string(m.Encoding.Params), m.Seed, m.Partitions, m.Fields, wholeBuilt(m.Built), len(m.Classes), classes)
}

package pack

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"reflect"
	"strconv"
	"strings"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/storage"
)

// partSet is all parts of a set.
type partSet struct {
	out       string   // where the set shall stand
	places    []string // of the parts, in order
	manifests []*shard.Manifest
}

// findParts finds the parts of the set at out, or of the sets of several splits in it, which must be whole and alike.
func findParts(out string) ([]*partSet, error) {
	place, err := partsPlace(out)
	if err != nil {
		return nil, err
	}
	files, err := storage.At(place)
	if err != nil {
		return nil, err
	}
	names, err := files.Names("")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	of, splits := 0, []string(nil)
	for _, name := range names {
		var p Part
		if n, _ := fmt.Sscanf(name, "%d-of-%d/", &p.Number, &p.Of); n < 2 {
			continue
		}
		if of != 0 && of != p.Of {
			return nil, fmt.Errorf("%s has parts of %d and parts of %d: remove those that are not meant", place, of, p.Of)
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
			s.places = append(s.places, storage.Join(place, Part{number + 1, of}.folder()))
		}
		if len(splits) > 1 {
			s.out = storage.Join(out, split)
			for k := range s.places {
				s.places[k] = storage.Join(s.places[k], split)
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
	for i, place := range s.places {
		m, err := shard.ReadManifest(place)
		if errors.Is(err, shard.ErrNotSet) {
			missing = append(missing, strconv.Itoa(i+1))
		} else if err != nil {
			return err
		}
		s.manifests = append(s.manifests, m)
	}
	if len(missing) > 0 {
		return fmt.Errorf("%s lacks parts of %d: %s. Run each, as imgshard build SRC -o %s --part %s/%d with the flags of the others, then merge again",
			s.out, len(s.places), bytesize.Listed(missing, 20), out, missing[0], len(s.places))
	}
	first := s.manifests[0]
	for i, m := range s.manifests {
		a, b := partTraits(first), partTraits(m)
		if a == b && !reflect.DeepEqual(first.Classes, m.Classes) {
			a, b = "other classes", "these"
		}
		if a != b {
			return fmt.Errorf("%s was made with other flags than part 1, or of another source; run it again with --force\n  part 1: %s\n  part %d: %s", s.places[i], a, i+1, b)
		}
	}
	return nil
}

// partTraits describes what all parts of a set have in common, but for the classes.
func partTraits(m *shard.Manifest) string {
	return fmt.Sprintf("split %s, encoding %s%s, seed %d, partitions %d, fields %v, %v, source %q of %s",
		m.Split, m.Encoding.Name, string(m.Encoding.Params), m.Seed, m.Partitions, m.Fields, wholeBuilt(m.Built), m.Built[builtSource], m.Built[builtListing])
}

// removeParts removes all parts of the set at out. In a bucket that is a request for each file.
func removeParts(out string) error {
	place, err := partsPlace(out)
	if err != nil || !storage.IsRemote(place) {
		return errors.Join(err, os.RemoveAll(place))
	}
	files, err := storage.WriterAt(place)
	if err != nil {
		return err
	}
	return removeBelow(files, "")
}

func removeBelow(files storage.Writer, folder string) error {
	names, err := files.Names(folder)
	for _, name := range names {
		if err != nil {
			return err
		}
		if strings.HasSuffix(name, "/") {
			err = removeBelow(files, path.Join(folder, name))
		} else {
			err = files.Remove(path.Join(folder, name))
		}
	}
	return err
}

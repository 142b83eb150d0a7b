package pack

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/storage"
)

// partSet is all parts of a set.
type partSet struct {
	out       string   // place of the merged set
	places    []string // places of the parts, in order
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
	var missing, wrong []string
	for i, place := range s.places {
		m, err := shard.ReadManifest(place)
		other := err == nil && m.Built[builtPart] != Part{i + 1, len(s.places)}.String()
		if other {
			wrong = append(wrong, fmt.Sprintf("%s is part %s: remove it. ", place, m.Built[builtPart]))
		}
		if other || errors.Is(err, shard.ErrNotSet) {
			missing = append(missing, strconv.Itoa(i+1))
		} else if err != nil {
			return err
		}
		s.manifests = append(s.manifests, m)
	}
	if len(missing) > 0 {
		return fmt.Errorf("%s lacks parts of %d: %s. %s"+
			"Run each, as imgshard build SRC -o %s --part %s/%[2]d with the flags of the others, then merge again",
			s.out, len(s.places), bytesize.Listed(missing, 20), strings.Join(wrong, ""), out, missing[0])
	}
	first := s.manifests[0]
	for i, m := range s.manifests {
		what, a, b := "was made with other flags than part 1", partFlags(first), partFlags(m)
		if a == b {
			what, a, b = "is of another source than part 1", partSource(first), partSource(m)
		}
		if a != b {
			return fmt.Errorf("%s %s: %s\n  part 1: %s\n  part %d: %s", s.places[i], what, again(s.places[i]), a, i+1, b)
		}
	}
	return nil
}

// again says how to make the part at a place again. A bucket replaces none.
func again(place string) string {
	if storage.IsRemote(place) {
		return "remove it, and run the part again"
	}
	return "run the part again with --force"
}

// partFlags describes the flags that all parts of a set have in common.
func partFlags(m *shard.Manifest) string {
	return fmt.Sprintf("split %s, encoding %s%s, seed %d, partitions %d, fields %v, %v",
		m.Split, m.Encoding.Name, string(m.Encoding.Params), m.Seed, m.Partitions, m.Fields, wholeBuilt(m.Built))
}

// partSource describes the source of a part.
func partSource(m *shard.Manifest) string {
	classes := sha256.Sum256([]byte(strings.Join(m.Classes, "\n")))
	return fmt.Sprintf("%d classes %.4x, files %s", len(m.Classes), classes, m.Built[builtListing])
}

// removeParts removes all parts of the set at out. A bucket takes a request for each file.
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

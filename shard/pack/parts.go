package pack

import (
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"path"
	"path/filepath"
	"strings"

	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/transport"
	"github.com/imgfeed/imgfeed/shard/storage"
)

// A Part is a share of a set that one of several machines packs. The hashes are divided into Of equal ranges, and a part has the
// samples in range Number, counted from 1. So parts follow each other in the set's order. The zero value is the whole set.
//
// A part is a shard set of its own, with the set's flags:
//
//	/data/train-shards                   the result of Merge
//	/data/.train-shards.parts/1-of-4/    a part; of several splits, the folder of the parts of each
type Part struct{ Number, Of int }

func (p Part) String() string {
	if p.Of == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%d", p.Number, p.Of)
}

// ParsePart reads a part as people write it, such as 2/7. 0/7 is the last one, for what counts from 0.
func ParsePart(text string) (Part, error) {
	var p Part
	if fmt.Sscanf(text, "%d/%d", &p.Number, &p.Of); p.Number < 0 || p.Number > p.Of || p.Of == 0 || p.String() != text {
		return Part{}, errors.New("want I/N, the I-th of N parts, as 1/4")
	}
	if p.Number == 0 {
		p.Number = p.Of
	}
	return p, nil
}

// share says whether a sample with this hash is in the part, and where in the part's range it lies, as a fraction of 2⁶⁴.
func (p Part) share(hash uint64) (own bool, at uint64) {
	if p.Of == 0 {
		return true, hash
	}
	number, at := bits.Mul64(hash, uint64(p.Of))
	return int(number) == p.Number-1, at
}

// partsPlace returns the folder of the parts of the set at out.
func partsPlace(out string) (string, error) {
	if !storage.IsRemote(out) {
		var err error
		if out, err = filepath.Abs(out); err != nil {
			return "", err
		}
	} else if _, name := storage.Root(out); name == "" {
		return "", fmt.Errorf("%s: parts lie beside the set, so name a folder within the bucket", out)
	}
	folder, name := path.Split(strings.TrimRight(out, "/"))
	return folder + "." + name + ".parts", nil
}

func (p Part) folder() string { return fmt.Sprintf("%d-of-%d", p.Number, p.Of) }

// Place returns what stands in for out as the place of this part's sets.
func (p Part) Place(out string) (string, error) {
	if p.Of == 0 {
		return out, nil
	}
	parts, err := partsPlace(out)
	return storage.Join(parts, p.folder()), err
}

// A part's manifest has these entries in Built, in addition to the flags.
const (
	builtPart    = "part"    // the part, from Part.String
	builtListing = "listing" // a digest of all samples of the source
	builtSplits  = "splits"  // splits built together, with commas between them
)

// wholeBuilt returns the Built of the whole set, by that of a part.
func wholeBuilt(part map[string]string) map[string]string {
	built := maps.Clone(part)
	delete(built, builtPart)
	delete(built, builtListing)
	delete(built, builtSplits)
	return built
}

// A partChoice chooses a part's samples, and has the digest of all.
type partChoice struct {
	part   Part
	seed   uint64
	split  *dataset.Split
	digest dataset.Digest
}

// takes reports whether an item is in the part.
func (l *partChoice) takes(it *transport.Item) (bool, error) {
	own, _ := l.part.share(shard.OrderHash(l.seed, it.Key))
	return own, l.digest.Add(l.split, it)
}

// listingKeys begins a listing: the number of samples and rejects of the source.
const listingKeys = "%d keys, "

// listing is the digest of all samples, after the walk.
func (l *partChoice) listing() string {
	return fmt.Sprintf(listingKeys, l.digest.Items) + l.digest.Sum(l.split)
}

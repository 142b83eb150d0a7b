package pack

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/bits"
	"os"
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

// partsFolder returns the folder of the parts of the set at out.
func partsFolder(out string) (_ string, err error) {
	if !storage.IsRemote(out) {
		if out, err = filepath.Abs(out); err != nil {
			return "", err
		}
	} else if _, name := storage.Root(out); name == "" {
		return "", fmt.Errorf("%s: parts lie beside the set, so name a folder within the bucket", out)
	}
	folder, name := path.Split(strings.TrimRight(out, "/"))
	return folder + "." + name + ".parts", nil
}

// listParts returns the folder of the parts of the set at out, and the names in it.
func listParts(out string) (files storage.Storage, names []string, err error) {
	folder, err := partsFolder(out)
	if err != nil {
		return nil, nil, err
	}
	if files, err = storage.At(folder); err != nil {
		return nil, nil, err
	}
	if names, err = files.Names(""); errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return files, names, err
}

func (p Part) folder() string { return fmt.Sprintf("%d-of-%d", p.Number, p.Of) }

// Output returns what stands in for out as the folder of this part's sets.
func (p Part) Output(out string) (string, error) {
	if p.Of == 0 {
		return out, nil
	}
	parts, err := partsFolder(out)
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

const listingKeys = "%d keys, " // begins a listing: the number of samples and rejects of the source

// listing is the digest of all samples, after the walk.
func (l *partChoice) listing() string {
	return fmt.Sprintf(listingKeys, l.digest.Items) + l.digest.Sum(l.split)
}

// alreadyMerged returns the finished sets at out if they have all that its parts hold: a merge was killed while it removed the parts.
func alreadyMerged(out string) (sums []Summary) {
	sets, err := shard.FindSets(out)
	if err != nil {
		return nil
	}
	files, names, err := listParts(out)
	if err != nil {
		return nil
	}
	for _, name := range names {
		if strings.HasPrefix(name, ".") || !holdPart(sets, storage.Join(files.String(), name)) { // A part that is being built is hidden.
			return nil
		}
	}
	for split, dir := range sets {
		m, err := shard.ReadManifest(dir)
		if err != nil {
			return nil
		}
		sums = append(sums, Summary{Split: split, Output: dir, Manifest: m, Kept: true})
	}
	return sums
}

// holdPart reports whether sets are of the same source as a part, and have all samples that can be read of it.
func holdPart(sets map[string]string, part string) bool {
	found, err := shard.FindAll(part)
	if len(found.Damaged) > 0 || errors.Is(err, shard.ErrNotSet) { // Without a manifest it is not a part. A bucket's is not finished.
		return !storage.IsRemote(part)
	}
	for split, dir := range found.Sets {
		a, errPart := shard.ReadManifest(dir)
		set, errSet := shard.OpenSet(sets[split])
		if sets[split] == "" || cmp.Or(errPart, errSet) != nil {
			return false
		}
		defer set.Close()
		keys := set.Len()
		err := ReadRejects(set.Dir(), func(Reject) { keys++ })
		if err != nil || setOrigin(a) != setOrigin(set.Manifest()) ||
			!strings.HasPrefix(a.Built[builtListing], fmt.Sprintf(listingKeys, keys)) {
			return false
		}
		if rest, err := found.Open(split, nil); err == nil { // else nothing can be read of it
			defer rest.Close()
			if !holdRecords(set, rest) {
				return false
			}
		}
	}
	return err == nil
}

// holdRecords reports whether a set has all records of a part whose partitions are whole.
func holdRecords(set, part *shard.Set) bool {
	for i := range part.Len() {
		a, err := part.Entry(i)
		if err != nil {
			continue
		}
		key, err := part.Key(i)
		k, missing := set.Find(key)
		b, unknown := set.Entry(k)
		if cmp.Or(err, missing, unknown) != nil || a.Checksum != b.Checksum || a.Label != b.Label {
			return false
		}
	}
	return true
}

// removeParts removes all parts of the set at out. A folder loses its name first: a part is whole or gone. In a bucket each file goes.
func removeParts(out string) error {
	folder, err := partsFolder(out)
	if err != nil {
		return err
	}
	if !storage.IsRemote(folder) {
		removed := folder + ".removed"
		if err = os.RemoveAll(removed); err == nil {
			err = os.Rename(folder, removed)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return os.RemoveAll(removed)
	}
	files, err := storage.WriterAt(folder)
	if err != nil {
		return err
	}
	return removeBelow(files, "")
}

// removeBelow removes a folder's files after its folders: a part has a manifest until the end.
func removeBelow(files storage.Writer, folder string) error {
	names, err := files.Names(folder)
	for _, folders := range []bool{true, false} {
		for _, name := range names {
			if err != nil {
				return err
			}
			if strings.HasSuffix(name, "/") != folders {
				continue
			}
			if folders {
				err = removeBelow(files, path.Join(folder, name))
			} else {
				err = files.Remove(path.Join(folder, name))
			}
		}
	}
	return err
}

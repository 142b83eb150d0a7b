package pack

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/storage"
)

// removedSuffix ends the name of the folder of the parts while it is removed.
const removedSuffix = ".removed"

// alreadyMerged returns the finished sets at out, if the folder of the parts holds nothing that they lack: a merge was killed while it
// removed the parts.
func alreadyMerged(out string) (sums []Summary) {
	sets, err := shard.FindSets(out)
	if err != nil {
		return nil
	}
	place, err := partsPlace(out)
	if err != nil {
		return nil
	}
	files, err := storage.At(place)
	if err != nil {
		return nil
	}
	names, err := files.Names("")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, name := range names {
		if strings.HasPrefix(name, ".") || !holdPart(sets, storage.Join(place, name)) { // A part that is being built is hidden.
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
	if len(found.Damaged) > 0 || errors.Is(err, shard.ErrNotSet) { // Without a manifest it is no part. A bucket's is not finished.
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
		if err != nil || setOrigin(a) != setOrigin(set.Manifest()) || !strings.HasPrefix(a.Built[builtListing], fmt.Sprintf(listingKeys, keys)) {
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

// removeParts removes all parts of the set at out. In a folder they lose their name first, so that a part is whole or gone. A bucket takes a
// request for each file.
func removeParts(out string) error {
	place, err := partsPlace(out)
	if err != nil {
		return err
	}
	if !storage.IsRemote(place) {
		removed := place + removedSuffix
		if err = os.RemoveAll(removed); err == nil {
			err = os.Rename(place, removed)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return os.RemoveAll(removed)
	}
	files, err := storage.WriterAt(place)
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

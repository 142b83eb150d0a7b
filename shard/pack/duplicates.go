package pack

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/shard"
)

// duplicatesShownMax is how many images that occur again are named.
const duplicatesShownMax = 3

// fileSum is what files are compared by: half of their SHA-256.
type fileSum [16]byte

func sumOf(data []byte) fileSum {
	sum := sha256.Sum256(data)
	return fileSum(sum[:len(fileSum{})])
}

// packedSum is the sum of the image at an index of the set.
type packedSum struct {
	sum   fileSum
	index uint32
}

// packedSums are those of all images of a set, 20 bytes each: in order of their sums, and then of their indices, once they are complete.
type packedSums []packedSum

func (p packedSums) sort() {
	slices.SortFunc(p, func(a, b packedSum) int {
		return cmp.Or(bytes.Compare(a.sum[:], b.sum[:]), cmp.Compare(a.index, b.index))
	})
}

// sameImage is an image of a set, and the first one with the same bytes in it, or noIndex.
type sameImage struct{ index, as uint32 }

const noIndex = ^uint32(0)

// has says that an image of these bytes is there.
func (p packedSums) has(sum fileSum) bool {
	_, ok := slices.BinarySearchFunc(p, sum, func(a packedSum, sum fileSum) int { return bytes.Compare(a.sum[:], sum[:]) })
	return ok
}

// notes says what images of a finished set occur in it again, and in train, the set for training that was built before it, if that is not nil.
func (p packedSums) notes(dir string, train packedSums) (notes []string, err error) {
	var again, leaked []sameImage
	first := 0 // of those that are the same
	for i := range p {
		if p[i].sum != p[first].sum {
			first = i
		} else if i > first {
			again = append(again, sameImage{p[i].index, p[first].index})
		}
		if train != nil && train.has(p[i].sum) {
			leaked = append(leaked, sameImage{p[i].index, noIndex})
		}
	}
	if len(again)+len(leaked) == 0 {
		return nil, nil
	}
	set, err := shard.OpenSet(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, set.Close()) }()
	if len(again) > 0 {
		otherLabel := 0
		for _, a := range again {
			one, err1 := set.Label(int(a.index))
			two, err2 := set.Label(int(a.as))
			if err := errors.Join(err1, err2); err != nil {
				return nil, err
			}
			if one != two {
				otherLabel++
			}
		}
		shown, err := someKeys(set, again)
		if err != nil {
			return nil, err
		}
		notes = append(notes, fmt.Sprintf("%s the same bytes as another (%s), %s of them with another label than it; --dedupe leaves them out",
			bytesize.Counted(len(again), "image has", "images have"), shown, bytesize.Grouped(otherLabel)))
	}
	if len(leaked) > 0 {
		shown, err := someKeys(set, leaked)
		if err != nil {
			return nil, err
		}
		notes = append(notes, fmt.Sprintf("%s in train too, byte for byte (%s); --dedupe leaves them out there", bytesize.Counted(len(leaked), "image is", "images are"), shown))
	}
	return notes, nil
}

// someKeys names the first few images, and what each is the same as.
func someKeys(set *shard.Set, of []sameImage) (string, error) {
	slices.SortFunc(of, func(a, b sameImage) int { return cmp.Compare(a.index, b.index) })
	var shown []string
	for _, a := range of[:min(len(of), duplicatesShownMax)] {
		key, err := set.Key(int(a.index))
		if err != nil {
			return "", err
		}
		if a.as != noIndex {
			same, err := set.Key(int(a.as))
			if err != nil {
				return "", err
			}
			key += " as " + same
		}
		shown = append(shown, key)
	}
	if len(of) > len(shown) {
		shown = append(shown, "…")
	}
	return strings.Join(shown, ", "), nil
}

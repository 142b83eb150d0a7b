package pack

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/source"
)

// Duplicate is an image that was left out, and the one with the same bytes that was not.
type Duplicate struct {
	Key    string `json:"key"`
	SameAs string `json:"same_as"`
	Split  string `json:"split"` // of the other
}

// trainSplit is the split that loses images which another split has too.
const trainSplit = "train"

// A fileSum is half of a file's SHA-256, by which files are compared.
type fileSum [16]byte

func sumOf(data []byte) fileSum {
	sum := sha256.Sum256(data)
	return fileSum(sum[:len(fileSum{})])
}

// keyedSum is an image of a split that is being compared.
type keyedSum struct {
	sum fileSum
	key string
}

// findDuplicates compares the images of all splits before any is packed, and returns for each split the images to leave out. The rules depend on
// neither the order of files nor the seed. Of images of a split with the same bytes, the one with the first key in byte order stays. An image of the
// training split goes if another split has it, so that everybody evaluates on the same images.
func findDuplicates(ctx context.Context, tasks []Task, o *Options) ([]map[string]Duplicate, error) {
	names, sums := make([]string, len(tasks)), make([][]keyedSum, len(tasks))
	for i, t := range tasks {
		var err error
		if sums[i], err = sumSplit(ctx, t.Split, o); err != nil {
			return nil, err
		}
		names[i] = t.Split.Name
	}
	return chooseDuplicates(names, sums), nil
}

// chooseDuplicates is findDuplicates for the images of splits with these names, sorted.
func chooseDuplicates(names []string, sums [][]keyedSum) []map[string]Duplicate {
	left := make([]map[string]Duplicate, len(names))
	for i, name := range names {
		left[i] = make(map[string]Duplicate)
		first := 0
		for k := range sums[i] {
			if sums[i][k].sum != sums[i][first].sum || k == 0 {
				first = k
				continue
			}
			left[i][sums[i][k].key] = Duplicate{sums[i][k].key, sums[i][first].key, name}
		}
	}
	for i, name := range names {
		if name != trainSplit {
			continue
		}
		for _, s := range sums[i] {
			for j, other := range names {
				at, ok := slices.BinarySearchFunc(sums[j], s.sum, func(a keyedSum, sum fileSum) int { return bytes.Compare(a.sum[:], sum[:]) })
				if ok && j != i {
					left[i][s.key] = Duplicate{s.key, sums[j][at].key, other}
					break
				}
			}
		}
	}
	return left
}

// sumSplit reads all images of a split, and returns their sums in order, and of the same sum in the order of their keys.
func sumSplit(ctx context.Context, split *source.Split, o *Options) ([]keyedSum, error) {
	again := split.Again()
	var sums []keyedSum
	var buf []byte
	report := func(images int) {
		if o.Progress != nil {
			o.Progress(Progress{Split: split.Name, Stage: StageCompare, Images: images})
		}
	}
	err := again.Walk(ctx, func(it source.Item) error {
		if it.Reason != "" {
			return nil
		}
		if it.Data != nil {
			if int64(cap(buf)) < it.Size {
				buf = make([]byte, it.Size+it.Size/4)
			}
			buf = buf[:it.Size]
			if _, err := io.ReadFull(it.Data, buf); err != nil {
				return err
			}
			if imagefile.Sniff(buf) == imagefile.Unknown {
				return nil
			}
			sums = append(sums, keyedSum{sumOf(buf), strings.Clone(it.Key)})
			report(len(sums))
			return nil
		}
		sums = append(sums, keyedSum{key: it.Key})
		return nil
	})
	if err == nil && !again.Streamed() {
		sums, err = sumFiles(ctx, again, sums, o.Jobs, report)
	}
	sortSums(sums)
	return sums, err
}

func sortSums(sums []keyedSum) {
	slices.SortFunc(sums, func(a, b keyedSum) int { return cmp.Or(bytes.Compare(a.sum[:], b.sum[:]), cmp.Compare(a.key, b.key)) })
}

// sumFiles reads the files of a split that lie in folders; those that are no images are left out.
func sumFiles(ctx context.Context, split *source.Split, sums []keyedSum, jobs int, report func(int)) ([]keyedSum, error) {
	const batch = 256
	isImage := make([]bool, len(sums))
	for at := 0; at < len(sums); at += batch * jobs {
		g, ctx := errgroup.WithContext(ctx)
		for from := at; from < min(at+batch*jobs, len(sums)); from += batch {
			g.Go(func() error {
				var buf []byte
				for i := from; i < min(from+batch, len(sums)); i++ {
					data, err := split.Read(sums[i].key, buf)
					var reject *source.RejectError
					if errors.As(err, &reject) {
						continue
					}
					if err := errors.Join(err, ctx.Err()); err != nil {
						return err
					}
					buf = data[:0]
					isImage[i] = imagefile.Sniff(data) != imagefile.Unknown
					sums[i].sum = sumOf(data)
				}
				return nil
			})
		}
		if err := g.Wait(); err != nil {
			return nil, err
		}
		report(min(at+batch*jobs, len(sums)))
	}
	n := 0
	for i, s := range sums {
		if isImage[i] {
			sums[n] = s
			n++
		}
	}
	return sums[:n], nil
}

// duplicatesShownMax is how many images that occur again are named.
const duplicatesShownMax = 3

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

// notes reports the images of a finished set that occur in it again, or in train, the training set built before it, if that is not nil.
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
		notes = append(notes, fmt.Sprintf("%s the same bytes as another (%s), %s of them another label; --dedupe leaves them out",
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

// someKeys names the first few images, and the image that each equals.
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

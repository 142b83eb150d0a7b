package pack

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/shard/source"
)

// DuplicatesName is the file in a set that lists the images that were left out since others have the same bytes, one JSON object a line.
const DuplicatesName = "duplicates.jsonl"

// Duplicate is an image that was left out, and the one with the same bytes that was not.
type Duplicate struct {
	Key    string `json:"key"`
	SameAs string `json:"same_as"`
	Split  string `json:"split"` // of the other
}

// trainSplit is the split that images of others are to be missing in.
const trainSplit = "train"

// keyedSum is an image of a split that is being compared.
type keyedSum struct {
	sum fileSum
	key string
}

// findDuplicates compares the images of all splits, before any is packed, and says for each split which images are to be left out. The rule
// does not depend on the order of files or on the seed: of the images of a split that have the same bytes the one stays whose key is the first
// in the order of bytes; and of the split for training none stays that is in another split, so that what models are evaluated on is what others
// are evaluated on.
func findDuplicates(ctx context.Context, tasks []Task, o *Options) ([]map[string]Duplicate, error) {
	left := make([]map[string]Duplicate, len(tasks))
	sums := make([][]keyedSum, len(tasks))
	for i, t := range tasks {
		var err error
		if sums[i], err = sumSplit(ctx, t.Split, o); err != nil {
			return nil, err
		}
		left[i] = make(map[string]Duplicate)
		first := 0
		for k := range sums[i] {
			if sums[i][k].sum != sums[i][first].sum || k == 0 {
				first = k
				continue
			}
			left[i][sums[i][k].key] = Duplicate{sums[i][k].key, sums[i][first].key, t.Split.Name}
		}
	}
	for i, t := range tasks {
		if t.Split.Name != trainSplit {
			continue
		}
		for _, s := range sums[i] {
			for j, other := range tasks {
				at, ok := slices.BinarySearchFunc(sums[j], s.sum, func(a keyedSum, sum fileSum) int { return bytes.Compare(a.sum[:], sum[:]) })
				if ok && j != i {
					left[i][s.key] = Duplicate{s.key, sums[j][at].key, other.Split.Name}
					break
				}
			}
		}
	}
	return left, nil
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
	slices.SortFunc(sums, func(a, b keyedSum) int { return cmp.Or(bytes.Compare(a.sum[:], b.sum[:]), cmp.Compare(a.key, b.key)) })
	return sums, err
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

// Package capacity says what a machine needs to feed GPUs: it measures, for some seconds, how fast this machine serves a sample of a dataset in each
// encoding that could be packed, and how fast its disk reads; the rest is arithmetic.
//
//	Sample ──► Measure ──► Compute ──► Plan
//	some of    CPU time    what the    what to pack, how many cores,
//	the data   an image    GPUs want   which disk, which link, how much memory
//
// What is measured is CPU time, so that other work on the machine shows little: a core gives so many images in a second of its time, and cores
// add up.
package capacity

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/pack"
	"github.com/imgfeed/imgfeed/shard/source"
)

const (
	// sampleImages is how many images are measured: their pixels are more than caches hold, and what decoding takes is known to some percent.
	sampleImages = 512
	// sampleBytes bounds the files of the sample.
	sampleBytes = 256 << 20
	// countLimit is how long the images of a dataset that is not packed are counted.
	countLimit = 10 * time.Second
)

// A Sample is some of a dataset's images.
type Sample struct {
	Path    string // of the set, or of what would be packed
	Split   string
	Layout  string // what it is, in words
	Samples int    // of all; an estimate or too few unless Counted
	Counted bool
	Notes   []string

	set     *shard.Set  // what is packed already, else nil
	indices []int       // of the sample in it
	files   []pack.File // the images' files; nil when the set does not keep them
	small   bool        // the dataset's images are best packed in their own size
}

// Close closes the set.
func (s *Sample) Close() error {
	if s.set == nil {
		return nil
	}
	return s.set.Close()
}

// Images returns how many images the sample has.
func (s *Sample) Images() int { return max(len(s.indices), len(s.files)) }

// TakeSample takes a sample of the shard set at path, or of the dataset there that is not packed yet. split chooses where there are several; "" takes
// train, or the only one.
func TakeSample(ctx context.Context, path, split string) (*Sample, error) {
	if path == source.StandardInput {
		return nil, errors.New("standard input would be used up by looking at it: save it as a file")
	}
	found, err := shard.FindSets(path)
	if err == nil {
		dir, err := choose(path, split, slices.Sorted(maps.Keys(found)))
		if err != nil {
			return nil, err
		}
		return sampleSet(ctx, found[dir])
	}
	if !errors.Is(err, shard.ErrNotSet) && !errors.Is(err, syscall.ENOTDIR) && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	// What a build would refuse of classes and of ends of tars does not matter here, where labels are not looked at.
	splits, why := source.OpenAll([]string{path}, source.Options{ForceClasses: true, AllowTruncated: true})
	if why != nil {
		return nil, fmt.Errorf("%w; and no dataset to pack: %w", err, why)
	}
	names := make([]string, len(splits))
	for i, s := range splits {
		names[i] = s.Name
	}
	name, err := choose(path, split, names)
	if err != nil {
		return nil, err
	}
	return sampleSource(ctx, splits[slices.Index(names, name)])
}

// choose returns the split that is meant.
func choose(path, wanted string, names []string) (string, error) {
	switch {
	case wanted != "" && slices.Contains(names, wanted):
		return wanted, nil
	case wanted != "":
		return "", fmt.Errorf("%s has no split %q, only %s", path, wanted, strings.Join(names, ", "))
	case len(names) == 1:
		return names[0], nil
	case slices.Contains(names, "train"):
		return "train", nil
	}
	return "", fmt.Errorf("%s holds %d splits, %s: choose one by --split", path, len(names), strings.Join(names, ", "))
}

// diskFiles returns files to measure the disk with: those of the set's shards that are here, or those below the dataset's path.
func (s *Sample) diskFiles(ctx context.Context) ([]string, error) {
	const enough = 4096
	root := s.Path
	if s.set != nil {
		root = s.set.Dir()
	}
	var files []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return err
		case d.Type().IsRegular() && !strings.HasPrefix(d.Name(), ".") && filepath.Ext(d.Name()) != ".json":
			if files = append(files, path); len(files) == enough {
				return fs.SkipAll
			}
		}
		return nil
	})
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%s: %w", root, os.ErrNotExist)
	}
	return files, err
}

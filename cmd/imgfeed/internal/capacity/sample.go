// Package capacity computes what a machine needs to feed GPUs. For some seconds it measures how fast this machine serves a sample of a dataset in
// each possible encoding, and how fast its disk or its link to a store is; the rest is arithmetic.
//
//	Sample ──► Measure ──► Compute ──► Plan
//	some of    CPU time    what the    what to pack, how many cores,
//	the data   an image    GPUs want   which disk, which link, how much memory
//
// It measures CPU time, so that other work on the machine matters little: a core gives a number of images per second of its time, and cores
// add up.
package capacity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/imgfeed/imgfeed/cmd/internal/cliutil"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/encoding/registry"
	"github.com/imgfeed/imgfeed/shard/pack"
	"github.com/imgfeed/imgfeed/shard/source"
	"github.com/imgfeed/imgfeed/shard/storage"
)

const (
	// sampleImages is how many images are measured: their pixels are more than caches hold, and what decoding takes is known to some percent.
	sampleImages = 512
	// sampleBytes bounds the files of the sample.
	sampleBytes = 256 << 20
	// countLimit is how long the images of a dataset that is not packed are counted.
	countLimit = 10 * time.Second
)

// SetLayout begins the layout of a shard set.
const SetLayout = "a shard set"

// A Sample is some of a dataset's images.
type Sample struct {
	Path     string   `json:"path"` // of the set, or of what would be packed
	Split    string   `json:"split"`
	Layout   string   `json:"layout"`          // the kind of data, in words
	Samples  int      `json:"samples"`         // of all; an estimate or too few unless Counted
	Counted  bool     `json:"counted"`         // Samples is exact
	Measured int      `json:"measured"`        // how many images are measured
	Store    string   `json:"store,omitempty"` // URL of the place behind a network that the images come from
	Notes    []string `json:"notes"`

	set     *shard.Set  // the shard set, or nil for a dataset
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

// TakeSample takes a sample of the shard set at path, or of the dataset there that is not packed yet. split chooses where there are several; "" takes
// train, or the only one.
func TakeSample(ctx context.Context, path, split string) (*Sample, error) {
	// Classes and ends of tars that a build would refuse do not matter here, since labels are ignored.
	sets, splits, err := cliutil.FindData([]string{path}, source.Options{ForceClasses: true, AllowTruncated: true})
	if err != nil {
		return nil, err
	}
	if splits != nil && storage.IsRemote(path) {
		return nil, fmt.Errorf("%s is no set: index it (imgshard index %s -o INDEX), and plan with INDEX", path, path)
	}
	names := slices.Sorted(maps.Keys(sets))
	for _, s := range splits {
		names = append(names, s.Name)
	}
	if split, err = cliutil.ChooseSplit(path, split, names); err != nil {
		return nil, err
	}
	s := &Sample{Split: split, Path: sets[split]}
	if splits == nil {
		err = s.ofSet(ctx)
	} else {
		err = s.ofSource(ctx, splits[slices.Index(names, split)])
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	s.Measured = max(len(s.indices), len(s.files))
	return s, nil
}

// ofSet takes samples of a set, evenly spread: a set's order is a shuffle, so they are as good as drawn.
func (s *Sample) ofSet(ctx context.Context) (err error) {
	s.set, err = cliutil.Interruptible(ctx, func() (*shard.Set, error) { return shard.OpenSet(s.Path) })
	if err != nil {
		return err
	}
	stored, err := registry.Open(s.set.Manifest().Encoding)
	if err != nil {
		return fmt.Errorf("%s: %w", s.Path, err)
	}
	s.Store = s.set.Store()
	s.Samples, s.Counted, s.Layout = s.set.Len(), true, fmt.Sprintf("%s (%v)", SetLayout, stored)
	var here []int
	for i := range s.set.Len() {
		if s.set.Has(i % s.set.Partitions()) {
			here = append(here, i)
		}
	}
	n := min(sampleImages, len(here), max(1, int(sampleBytes/storedBytes(s.set.Manifest()))))
	images, errs := make([][]byte, n), make([]error, n)
	var readers errgroup.Group
	readers.SetLimit(storage.RequestsMax())
	for k := range n {
		readers.Go(func() error {
			if ctx.Err() == nil {
				record, _, err := s.set.Read(here[k*len(here)/n], nil)
				if images[k], errs[k] = record.Image, err; err == nil && stored.HoldsOriginals() {
					images[k], errs[k] = stored.File(&record)
				}
			}
			return ctx.Err()
		})
	}
	if err := readers.Wait(); err != nil {
		return err
	}
	for k, image := range images {
		i := here[k*len(here)/n]
		if errs[k] != nil {
			continue
		}
		s.indices = append(s.indices, i)
		if stored.HoldsOriginals() {
			s.files = append(s.files, pack.File{Key: fmt.Sprint(i), Data: image})
		}
	}
	unread := cmp.Or(errs...)
	if len(s.indices) == 0 {
		return cmp.Or(unread, fmt.Errorf("%s has no sample here to measure with", s.Path))
	}
	if unread != nil {
		s.note("some records cannot be read: %v", unread)
	}
	if !stored.HoldsOriginals() {
		s.note("the set keeps %v and no files, so that other encodings are not compared: plan with what it was made from", stored)
	}
	return nil
}

func (s *Sample) note(format string, args ...any) {
	s.Notes = append(s.Notes, fmt.Sprintf(format, args...))
}

// errCounted ends a walk that has taken long enough.
var errCounted = errors.New("counted for long enough")

// ofSource counts the images of a split within the time limit, and draws some of them.
func (s *Sample) ofSource(ctx context.Context, split *source.Split) error {
	s.Path, s.Layout, s.small = split.Path, split.Layout(), split.Decoded()
	d := drawing{random: rand.New(rand.NewPCG(1, 2))}
	until := time.Now().Add(countLimit)
	var walked int64
	err := split.Walk(ctx, func(it source.Item) error {
		if it.Reason != "" {
			return nil
		}
		s.Samples++
		walked += it.Size
		if err := d.offer(it); err != nil {
			return err
		}
		if time.Now().After(until) {
			return errCounted
		}
		return nil
	})
	if s.Counted = err == nil; err != nil && !errors.Is(err, errCounted) {
		return err
	}
	if !s.Counted && split.Streamed() && walked > 0 {
		s.Samples = max(s.Samples, int(float64(split.Bytes())/float64(walked)*float64(s.Samples)))
		s.note("the images are those at the beginning of the tars, and their number is a guess by the tars' size: --samples gives it")
	} else if !s.Counted {
		s.note("counting ended after %v: there are more images, and --samples gives their number", countLimit)
	}
	if s.files, err = d.read(ctx, split); err == nil && len(s.files) == 0 {
		err = fmt.Errorf("%s has no image to measure with", s.Path)
	}
	return err
}

// A drawing keeps sampleImages of the items that it is offered, each of them as likely as the others (Vitter's algorithm R).
type drawing struct {
	random *rand.Rand
	seen   int
	files  []pack.File
}

func (d *drawing) offer(it source.Item) error {
	d.seen++
	at := len(d.files)
	if at == sampleImages {
		if at = d.random.IntN(d.seen); at >= sampleImages {
			return nil
		}
	} else {
		d.files = append(d.files, pack.File{})
	}
	d.files[at] = pack.File{Key: it.Key}
	if it.Data == nil {
		return nil
	}
	var err error
	d.files[at].Data, err = io.ReadAll(it.Data)
	return err
}

// read reads the files that a walk gave only the names of, as many as sampleBytes hold.
func (d *drawing) read(ctx context.Context, split *source.Split) ([]pack.File, error) {
	bytes := 0
	files := d.files[:0]
	for _, f := range d.files {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if f.Data == nil {
			data, err := split.Read(f.Key, nil)
			if _, rejected := errors.AsType[*source.RejectError](err); rejected {
				continue
			} else if err != nil {
				return nil, err
			}
			f.Data = slices.Clip(data)
		}
		if bytes += len(f.Data); bytes > sampleBytes && len(files) > 0 {
			break
		}
		files = append(files, f)
	}
	return files, nil
}

package capacity

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/encoding/registry"
	"github.com/imgfeed/imgfeed/shard/pack"
	"github.com/imgfeed/imgfeed/shard/source"
)

// SetLayout begins the layout of what is packed already.
const SetLayout = "a shard set"

// sampleSet takes samples of a set, evenly spread: a set's order is a shuffle, so they are as good as drawn.
func sampleSet(ctx context.Context, dir string) (*Sample, error) {
	set, err := shard.OpenSet(dir)
	if err != nil {
		return nil, err
	}
	s := &Sample{Path: dir, Split: set.Manifest().Split, Samples: set.Len(), Counted: true, set: set}
	if err := s.readSet(ctx); err != nil {
		set.Close()
		return nil, err
	}
	return s, nil
}

func (s *Sample) readSet(ctx context.Context) error {
	stored, err := registry.Open(s.set.Manifest().Encoding)
	if err != nil {
		return fmt.Errorf("%s: %w", s.Path, err)
	}
	s.Layout = fmt.Sprintf("%s (%v)", SetLayout, stored)
	var here []int
	for i := range s.set.Len() {
		if s.set.Has(i % s.set.Partitions()) {
			here = append(here, i)
		}
	}
	n := min(sampleImages, len(here))
	bytes, damaged := 0, 0
	for k := range n {
		if err := ctx.Err(); err != nil {
			return err
		}
		i := here[k*len(here)/n]
		record, _, err := s.set.Read(i, nil)
		if err != nil {
			damaged++
			s.note(damaged, "records cannot be read: %v", err)
			continue
		}
		s.indices = append(s.indices, i)
		if stored.HoldsOriginals() {
			s.files = append(s.files, pack.File{Key: fmt.Sprint(i), Data: record.Image})
		}
		if bytes += len(record.Image); bytes > sampleBytes {
			break
		}
	}
	if len(s.indices) == 0 {
		return fmt.Errorf("%s has no sample here to measure with", s.Path)
	}
	if !stored.HoldsOriginals() {
		s.Notes = append(s.Notes, fmt.Sprintf("the set keeps %v and no files, so that other encodings are not compared: plan with what it was made from", stored))
	}
	return nil
}

// note notes the first of several mishaps.
func (s *Sample) note(nth int, format string, args ...any) {
	if nth == 1 {
		s.Notes = append(s.Notes, "some "+fmt.Sprintf(format, args...))
	}
}

// errCounted ends a walk that has taken long enough.
var errCounted = errors.New("counted for long enough")

// sampleSource counts the images of a split, as far as that goes in time, and draws some of them.
func sampleSource(ctx context.Context, split *source.Split) (*Sample, error) {
	s := &Sample{Path: split.Path, Split: split.Name, Layout: split.Layout(), small: split.Decoded()}
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
		return nil, err
	}
	if !s.Counted && split.Streamed() && walked > 0 {
		s.Samples = max(s.Samples, int(float64(split.Bytes())/float64(walked)*float64(s.Samples)))
		s.Notes = append(s.Notes, "the images are those at the beginning of the tars, and their number is a guess by the tars' size: --samples gives it")
	} else if !s.Counted {
		s.Notes = append(s.Notes, fmt.Sprintf("counting ended after %v: there are more images, and --samples gives their number", countLimit))
	}
	if s.files, err = d.read(ctx, split); err != nil {
		return nil, err
	}
	if len(s.files) == 0 {
		return nil, fmt.Errorf("%s has no image to measure with", s.Path)
	}
	return s, nil
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

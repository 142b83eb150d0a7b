package imgshard

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/encoding/registry"
	"github.com/imgfeed/imgfeed/shard/source"
	"github.com/imgfeed/imgfeed/transform"
)

// ofSet chooses samples of a set, which must stay open while they are read.
func (v *viewer) ofSet(ctx context.Context, set *shard.Set) (*viewSheet, error) {
	encoding, err := registry.Open(set.Manifest().Encoding)
	if err != nil {
		return nil, err
	}
	wanted := v.flags.indices
	if wanted == nil {
		if err := eachEntry(ctx, set, func(i int, e *shard.Entry) error {
			takes, err := v.takes(set, i, e)
			if takes {
				wanted = append(wanted, i)
			}
			return err
		}); err != nil {
			return nil, err
		}
	}
	sheet := &viewSheet{Title: set.Dir(), All: set.Len()}
	for _, i := range spread(wanted, v.flags.samples) {
		entry, err := set.Entry(i)
		if err != nil {
			return nil, err
		}
		line, err := describe(set, i, &entry)
		if err != nil {
			return nil, err
		}
		sheet.Samples = append(sheet.Samples, viewSample{lsLine: line, read: func(*lsLine) (transform.Source, error) {
			record, _, err := set.Read(i, nil)
			return transform.Source{Format: record.Format, Image: record.Image, Aux: record.Aux, Encoding: encoding}, err
		}})
	}
	return sheet, nil
}

// takes reports whether sample i matches --class and --find.
func (v *viewer) takes(set *shard.Set, i int, e *shard.Entry) (bool, error) {
	if v.flags.class != "" && set.Manifest().Class(e.Label) != v.flags.class {
		return false, nil
	}
	if v.flags.find == "" {
		return true, nil
	}
	key, err := set.Key(i)
	return err == nil && strings.Contains(key, v.flags.find), err
}

// spread returns n of the items, evenly spread.
func spread[T any](items []T, n int) []T {
	if len(items) <= n {
		return items
	}
	list := make([]T, n)
	for k := range list {
		list[k] = items[k*len(items)/n]
	}
	return list
}

// errSeenEnough ends a walk over a dataset.
var errSeenEnough = errors.New("enough samples")

// A foundItem is a sample of an unpacked dataset.
type foundItem struct {
	split    *source.Split
	key      string
	label    int32
	labelled bool
	data     []byte // the image, if the split streams its images, or nil
}

// ofDataset chooses samples of an unpacked dataset.
func (v *viewer) ofDataset(ctx context.Context, splits []*source.Split) (*viewSheet, error) {
	var found []foundItem
	var paths []string
	for _, split := range splits {
		items, err := v.walk(ctx, split.Reopen(), viewLimit/time.Duration(len(splits)))
		if err != nil {
			return nil, err
		}
		found = append(found, items...)
		if len(paths) == 0 || paths[len(paths)-1] != split.Path {
			paths = append(paths, split.Path)
		}
	}
	sheet := &viewSheet{Title: strings.Join(paths, ", ") + " (not packed)", All: len(found)}
	for _, item := range spread(found, v.flags.samples) {
		label, class := item.class()
		line := lsLine{Index: -1, Key: item.key, Label: label, Class: class, Shard: item.split.Path}
		sheet.Samples = append(sheet.Samples, viewSample{lsLine: line, read: item.read})
	}
	return sheet, nil
}

// walk collects the samples that match the flags, within a time limit.
func (v *viewer) walk(ctx context.Context, split *source.Split, limit time.Duration) ([]foundItem, error) {
	var found []foundItem
	until := time.Now().Add(limit)
	err := split.Walk(ctx, func(it source.Item) (err error) {
		item := foundItem{split: split, key: it.Key, label: it.Label, labelled: it.Labelled}
		if it.Reason != "" || v.flags.find != "" && !strings.Contains(it.Key, v.flags.find) {
			return nil
		}
		if it.Data != nil {
			if item.data, err = io.ReadAll(it.Data); err != nil {
				return err
			}
		}
		found = append(found, item)
		if time.Now().After(until) || split.Streamed() && v.flags.class == "" && len(found) >= v.flags.samples {
			return errSeenEnough
		}
		return nil
	})
	if err != nil && !errors.Is(err, errSeenEnough) {
		return nil, err
	}
	if v.flags.class == "" {
		return found, nil
	}
	return slices.DeleteFunc(found, func(item foundItem) bool {
		_, class := item.class()
		return class != v.flags.class
	}), nil
}

// class returns the label and the class's name, or -1 and the folder if the walk ended before all classes were known.
func (item *foundItem) class() (int32, string) {
	label, err := item.split.Label(item.key)
	if err != nil && item.labelled {
		label, err = item.label, nil
	}
	if classes := item.split.Classes(); err == nil && label >= 0 && int(label) < len(classes) {
		return label, classes[label]
	}
	folder, _, _ := strings.Cut(item.key, "/")
	return -1, folder
}

// read reads the image and its format.
func (item *foundItem) read(line *lsLine) (src transform.Source, err error) {
	src.Image = item.data
	if src.Image == nil {
		src.Image, err = item.split.Read(item.key, nil)
	}
	if err == nil {
		line.Bytes, line.Format = uint32(len(src.Image)), imagefile.Sniff(src.Image).String()
	}
	return src, err
}

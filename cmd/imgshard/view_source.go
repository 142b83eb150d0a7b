package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/shard/source"
	"github.com/imgfeed/imgfeed/transform"
)

// errSeenEnough ends a walk over a dataset.
var errSeenEnough = errors.New("enough was seen")

// A foundItem is a sample of a dataset that is not packed.
type foundItem struct {
	split    *source.Split
	key      string
	label    int32
	labelled bool
	data     []byte // of a split whose images come by themselves; else nil
}

// lookAtSource shows samples of a dataset before it is packed.
func (v *viewer) lookAtSource(ctx context.Context, splits []*source.Split) (*viewSheet, error) {
	sheet := &viewSheet{}
	var found []foundItem
	var paths []string
	for _, split := range splits {
		items, err := v.walk(ctx, split.Again(), viewLimit/time.Duration(len(splits)))
		if err != nil {
			return nil, err
		}
		found = append(found, items...)
		if len(paths) == 0 || paths[len(paths)-1] != split.Path {
			paths = append(paths, split.Path)
		}
	}
	sheet.Title, sheet.All = strings.Join(paths, ", ")+" (not packed)", len(found)
	for _, item := range spread(found, v.flags.samples) {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		sheet.Samples = append(sheet.Samples, v.drawItem(item))
	}
	return sheet, nil
}

// walk collects the samples that are met in time and that were asked for.
func (v *viewer) walk(ctx context.Context, split *source.Split, limit time.Duration) ([]foundItem, error) {
	var found []foundItem
	until := time.Now().Add(limit)
	err := split.Walk(ctx, func(it source.Item) error {
		item := foundItem{split: split, key: it.Key, label: it.Label, labelled: it.Labelled}
		switch {
		case it.Reason != "" || v.flags.find != "" && !strings.Contains(it.Key, v.flags.find):
			return nil
		case it.Data != nil:
			var err error
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
	kept := found[:0]
	for _, item := range found {
		if _, class := item.class(); class == v.flags.class {
			kept = append(kept, item)
		}
	}
	return kept, nil
}

// class returns the label and the class's name, as far as they are known: a walk that was cut short knows of folders only.
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

// drawItem makes the pictures of a sample.
func (v *viewer) drawItem(item foundItem) viewSample {
	sample := viewSample{Index: -1, Key: item.key, Where: item.split.Path}
	sample.Label, sample.Class = item.class()
	data, err := item.data, error(nil)
	if data == nil {
		data, err = item.split.Read(item.key, nil)
	}
	if err == nil {
		sample.Bytes, sample.Format = len(data), imagefile.Sniff(data).String()
		err = v.draw(&sample, transform.Source{Image: data})
	}
	if err != nil {
		sample.Error = err.Error()
	}
	return sample
}

package source

import (
	"cmp"
	"context"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/labelrule"
	"github.com/imgfeed/imgfeed/shard/source/targets"
	"github.com/imgfeed/imgfeed/shard/source/transport"
)

// splitOrder is the order of splits: classes of the first are those of the others.
var splitOrder = []string{"train", "trainval", "val", "test", ""}

// chosen are the splits of a source that the options choose: all, or one of several.
func chosen[T any](c *candidate, splits map[string]T) (map[string]T, error) {
	one, here := splits[c.opts.Split]
	switch {
	case c.opts.Split == "" || len(splits) < 2:
		return splits, nil
	case !here:
		return nil, transport.Refuse(c.path, "has no split %q, but %s", c.opts.Split, strings.Join(slices.Sorted(maps.Keys(splits)), ", "))
	}
	return map[string]T{c.opts.Split: one}, nil
}

// eachSplit opens each of some splits, of which the options may choose one. Test images are left out if their targets are not published,
// unless the options take them.
func (c *candidate) eachSplit(parts map[string]string, testLabelled bool, open func(c *candidate, split, part string) (*dataset.Split, error)) (
	splits []*dataset.Split, err error) {
	if parts, err = chosen(c, parts); err != nil {
		return nil, err
	}
	several := len(parts) > 1
	for _, split := range slices.SortedFunc(maps.Keys(parts), func(a, b string) int {
		return cmp.Compare(slices.Index(splitOrder, a), slices.Index(splitOrder, b))
	}) {
		if split == "test" && several && !testLabelled && !c.opts.Test {
			continue
		}
		q := *c
		if several {
			q = *c.one(split)
		}
		q.split = cmp.Or(split, c.split)
		s, err := open(&q, split, parts[split])
		if err != nil {
			return nil, err
		}
		splits = append(splits, s)
	}
	return splits, nil
}

// newTargets is the split of the images of a list below a folder, with what is taken of its targets.
func (c *candidate) newTargets(format string, t transport.Tree, images string, l *labelrule.Listed, v *targets.Values) *dataset.Split {
	objects, masks := v.Objects != nil, v.Masks != nil
	o := c.opts.Targets
	if c.opts.NoLabels {
		o.Take = dataset.TakeNone
	}
	if !o.Takes(shard.Objects, objects, masks) {
		v.Objects, v.IDs = nil, nil
	}
	if !o.Takes(shard.Mask, objects, masks) {
		v.Masks = nil
	}
	if v.Objects == nil && v.Masks == nil {
		v = nil
	}
	s := c.newSplit(format, &labelrule.Files{Transport: &transport.TreeFiles{FS: t, Root: images}, Rule: l.Rule}, v)
	s.Path = images
	return s
}

// folderSplits finds the folders of splits in a folder, by their names with or without a year. Without any, "" is the folder itself.
// others are the folders beside them.
func folderSplits(t transport.Tree, path string) (parts map[string]string, others []string, err error) {
	f, err := listFolder(t, path)
	if err != nil {
		return nil, nil, err
	}
	parts = make(map[string]string)
	for _, name := range f.folders {
		if split := transport.FolderSplit(strings.TrimRight(name, "0123456789")); split != "" {
			parts[split] = name
		} else {
			others = append(others, name)
		}
	}
	if len(parts) == 0 {
		return map[string]string{"": ""}, nil, nil
	}
	return parts, others, nil
}

// listImages lists the images below a folder by their keys.
func (c *candidate) listImages(root string) (keys []string, err error) {
	t := transport.TreeFiles{FS: c.tree, Root: root}
	err = t.Files(&transport.Walk{Ctx: context.Background()}, func(f *transport.Item) error {
		if !f.Folder && transport.NamedImage(f.Key) && filepath.Ext(f.Key) != "" {
			keys = append(keys, f.Key)
		}
		return nil
	})
	return keys, err
}

// classNames are the names of objects' or masks' labels: those of --classes, or of a file in one of the folders.
func (c *candidate) classNames(folders ...string) ([]string, error) {
	names, err := labelrule.FindClassNames(c.tree, folders, c.opts)
	return names.Names, err
}

// below is the transport of the files below a folder of the candidate.
func (c *candidate) below(folder string) *transport.TreeFiles {
	return &transport.TreeFiles{FS: c.tree, Root: filepath.Join(c.path, filepath.FromSlash(folder))}
}

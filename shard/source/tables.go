package source

import (
	"cmp"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/remedy"
	"github.com/imgfeed/imgfeed/shard/source/table"
	"github.com/imgfeed/imgfeed/shard/source/transport"
)

// parquetFiles is a dataset of Hugging Face's hub in parquet (https://parquet.apache.org/docs/file-format/): a row for each sample, a
// column with the image file's bytes and one with the label. The schema's metadata hold the class names under "huggingface":
//
//	data/train-00000-of-00294.parquet       image: struct<bytes: binary, path: string>, label: int64
//	data/validation-00000-of-00014.parquet
//
// A sample's key is its file's name, its row in it, and the path that the row gives: "train-00000-of-00294/00012-n01440764_10026.JPEG".
var parquetFiles = dataset.Kind{
	Name:   "Hugging Face parquet",
	Forms:  []string{"a folder with train-00000-of-00294.parquet and so on, or with data/ that has them", "one parquet file"},
	Labels: "the label column, or that of --label; the schema's class names, or those of --classes. Objects have a column objects",
	Takes:  []string{"--classes", "--label", "--no-labels"},
}

func openParquetFiles(c *candidate) ([]*dataset.Split, error) {
	if c.folder == nil {
		if transport.FileKind(c.path) != transport.ParquetExtension {
			return nil, nil
		}
		c.output = strings.TrimSuffix(c.path, filepath.Ext(c.path))
		s, err := newParquetSplit(c, []string{c.path})
		return []*dataset.Split{s}, err
	}
	names := c.parquets()
	if slices.ContainsFunc(names, c.besideImages) {
		return nil, nil
	}
	if len(names) == 0 && slices.Contains(c.folders, "data") {
		q, err := c.child("data", "")
		if err != nil {
			return nil, err
		}
		q.output = cmp.Or(c.output, c.path)
		c, names = q, q.parquets()
	}
	switch {
	case len(names) == 0:
		return nil, nil
	case c.tree != transport.Tree(transport.FileSystem{}):
		return nil, transport.RefuseEntry(c.path, names[0], "parquet in a zip is not read").Or(transport.Unpack(c.path)...)
	}
	return c.bySplit(names, func(c *candidate, files []string) (*dataset.Split, error) {
		var paths []string
		for _, f := range files {
			paths = append(paths, filepath.Join(c.path, f))
		}
		return newParquetSplit(c, paths)
	})
}

// parquets are the files of a folder with the extension .parquet.
func (f *folder) parquets() []string {
	return slices.DeleteFunc(slices.Clone(f.files), func(name string) bool {
		return transport.FileKind(name) != transport.ParquetExtension
	})
}

// newParquetSplit makes the split of some files.
func newParquetSplit(c *candidate, paths []string) (*dataset.Split, error) {
	l, err := table.NewParquet(paths, c.opts)
	if err != nil {
		return nil, err
	}
	s := c.newSplit(bytesize.Counted(len(paths), "parquet file", "parquet files"), l)
	if v := l.Targets(); v != nil {
		s.Targets = v
	}
	return s, nil
}

// lists is a file that names images and their labels, one in each line, as CSV, TSV or JSON lines:
//
//	path,label                   path	label     {"file_name": "a.jpg", "label": "cat"}     0	3.000000	train/a.jpg
//	"train/a, b.jpg",tabby cat   b.jpg	0         {"file_name": "b.jpg", "label": "dog"}     1	0.000000	train/b.jpg
//
// Paths begin at the list's own folder, or at that of --images, and are the samples' keys. Labels that all are whole numbers are labels;
// others are the names of classes, which stand in sorted order. A column "split" makes a split of each of its values.
var lists = dataset.Kind{
	Name: "list of images",
	Forms: []string{"a CSV or TSV file that begins with path,label", "JSON lines with the keys path and label",
		"a folder with metadata.csv or metadata.jsonl, which names images in it and below", "Tiny ImageNet's val/, with val_annotations.txt"},
	Labels: "the column of labels, or that of --label: whole numbers as they are, " +
		"names by their place in sorted order or in --classes FILE",
	Takes:        []string{"--classes", "--label", "--path", "--images", "--no-labels"},
	TestLabelled: true,
}

func openList(c *candidate) ([]*dataset.Split, error) {
	switch {
	case c.folder != nil && c.given && table.NamedList(c.files[0]):
		return nil, transport.RefuseEntry(c.path, c.files[0], "one of several lists: build them one at a time, the first "+
			"alone and the later ones with its labels, or join them in one list with a column split").Or(
			remedy.Folder.With("DIR", filepath.Join(c.path, c.files[0])))
	case c.folder != nil:
		return openListInFolder(c)
	case c.front != nil:
		return nil, nil
	}
	root := filepath.Dir(c.path)
	c.output = strings.TrimSuffix(c.path, filepath.Ext(c.path))
	if c.opts.Images != "" {
		var err error
		if root, err = transport.Absolute(c.opts.Images); err != nil {
			return nil, err
		}
		if info, err := (transport.FileSystem{}).Stat(root); err != nil || !info.IsDir() {
			return nil, transport.Refuse(root, "--images names no folder")
		}
	}
	return c.openListFile(table.Location{Tree: transport.FileSystem{}, File: c.path, Root: root})
}

// openListInFolder opens a folder of images with a list of their labels: the validation images of Tiny ImageNet, or Hugging Face's
// imagefolder (https://huggingface.co/docs/datasets/image_dataset). If its folders are of splits, they tell the splits of the list.
func openListInFolder(c *candidate) ([]*dataset.Split, error) {
	if slices.Contains(c.files, table.TinyAnnotations) && slices.Equal(c.folders, []string{"images"}) {
		return c.openListFile(table.Location{Tree: c.tree, File: filepath.Join(c.path, table.TinyAnnotations), Root: filepath.Join(c.path, "images")})
	}
	for _, name := range []string{"metadata.csv", "metadata.jsonl"} {
		if c.given || !slices.Contains(c.files, name) {
			continue
		}
		splits, err := c.findSplits()
		if err != nil {
			return nil, err
		}
		of := make(map[string]string)
		for split, folder := range splits {
			of[folder] = split
		}
		parts, err := c.openListFile(table.Location{Tree: c.tree, File: filepath.Join(c.path, name), Root: c.path, Whole: true, Folders: of})
		if errors.Is(err, table.ErrNoColumn) && len(c.folders) > 0 && len(c.opts.Fields) == 0 { // the folders are the classes
			continue
		}
		return parts, err
	}
	return nil, nil
}

// openListFile makes a split of a list, or one for each value of its column "split". It returns no splits if the file is not a list.
func (c *candidate) openListFile(p table.Location) ([]*dataset.Split, error) {
	parts, err := table.ReadLists(p, c.opts)
	var splits []*dataset.Split
	for _, l := range parts {
		s := c.one(l.Name()).newSplit("a list of images", l)
		if v := l.Targets(); v != nil {
			s.Targets = v
		}
		splits = append(splits, s)
	}
	return splits, err
}

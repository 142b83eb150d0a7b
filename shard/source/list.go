package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/shard"
)

// lists is a file that names images and their labels, one in each line, as CSV, TSV, JSON lines, or MXNet's im2rec:
//
//	path,label                   path	label     {"file_name": "a.jpg", "label": "cat"}     0	3.000000	train/a.jpg
//	"train/a, b.jpg",tabby cat   b.jpg	0         {"file_name": "b.jpg", "label": "dog"}     1	0.000000	train/b.jpg
//
// Paths begin at the list's own folder, or at that of --images, and are the samples' keys. Labels that all are whole numbers are labels; others
// are the names of classes, which stand in sorted order. A column "split" makes a split of each of its values.
var lists = Kind{
	Name: "list of images",
	Forms: []string{"a CSV or TSV file that begins with path,label", "JSON lines with the keys path and label", "MXNet's .lst",
		"a folder of images with metadata.csv or metadata.jsonl", "Tiny ImageNet's val/, with val_annotations.txt"},
	Labels:       "the column of labels, or that of --label: whole numbers as they are, names by their place in sorted order or in --classes FILE",
	open:         openList,
	takes:        []*option{optionClasses, optionLabel, optionImages, optionNoLabels},
	testLabelled: true,
}

// listRow is a line of a list.
type listRow struct {
	key   string
	line  int32
	label int32 // while the list is read a place in its values; noLabel in both
	split int8  // in listSplits
	cells int64 // where in the list's cells those of the row begin
}

// listSplits are the splits that a column may tell apart; the first is that of a list without one.
var listSplits = []string{"", "train", "val", "test"}

// list is a file that was read.
type list struct {
	path, root string // root is where the paths begin
	rows       []listRow
	values     labelValues
	// numbered says that the values are labels, which names name. Else they are the names, and classes their order.
	numbered bool
	names    classNames
	classes  []string
	notes    []string
	// Of the fields that are asked for: their columns, the cells of all rows, and what a cell is.
	fieldColumns []int
	cells        []byte
	cellType     shard.FieldType
}

// listSplit is a list, or those of its rows that are of one split.
type listSplit struct {
	treeFiles
	*list
	split  int8
	rows   []listRow // by key
	fields []Field
}

func openList(c *candidate) ([]*Split, error) {
	switch {
	case c.folder != nil && c.given:
		return openLists(c)
	case c.folder != nil:
		return openListInFolder(c)
	case !c.noTar:
		return nil, nil
	}
	root := filepath.Dir(c.path)
	if c.opts.Images != "" {
		var err error
		if root, err = absolute(c.opts.Images); err != nil {
			return nil, err
		}
		if info, err := (fileSystem{}).stat(root); err != nil || !info.IsDir() {
			return nil, &FormatError{Path: root, Msg: "--images names no folder"}
		}
	}
	return c.readList(c.path, root)
}

// readList opens the splits of a list; none: the file is no list.
func (c *candidate) readList(file, root string) ([]*Split, error) {
	l, err := readList(file, root, c.opts)
	if l == nil || err != nil {
		return nil, err
	}
	if err := l.resolve(c.opts); err != nil {
		return nil, err
	}
	return l.splits(c)
}

// openListInFolder opens a folder of images in which a list says their labels: the validation images of Tiny ImageNet, or what Hugging Face calls an
// imagefolder.
func openListInFolder(c *candidate) ([]*Split, error) {
	if slices.Contains(c.files, tinyAnnotations) && slices.Equal(c.folders, []string{"images"}) {
		return c.readList(filepath.Join(c.path, tinyAnnotations), filepath.Join(c.path, "images"))
	}
	if len(c.folders) == 0 && c.tree == fileTree(fileSystem{}) && slices.ContainsFunc(c.files, namedImage) {
		for _, name := range imagefolderLists {
			if slices.Contains(c.files, name) {
				return c.readList(filepath.Join(c.path, name), c.path)
			}
		}
	}
	return nil, nil
}

// imagefolderLists are what lists are called beside the images of one folder (https://huggingface.co/docs/datasets/image_dataset).
var imagefolderLists = []string{"metadata.csv", "metadata.jsonl"}

// openLists opens several lists, each of a split.
func openLists(c *candidate) ([]*Split, error) {
	if fileKind(c.files[0]) != "" {
		return nil, nil
	}
	var splits []*Split
	for _, file := range c.files {
		q, err := c.in(file, "")
		if err != nil {
			return nil, err
		}
		q.output, q.opts.Split = "", ""
		of, err := openList(q)
		q.close()
		if err != nil || of == nil {
			return nil, err
		}
		for _, s := range of {
			if at := slices.IndexFunc(splits, func(other *Split) bool { return other.Name == s.Name }); at >= 0 {
				return nil, &FormatError{Path: s.Path, Msg: fmt.Sprintf("two of the %d lists are of the split %s, as %s is: join them, or call them by their splits",
					len(c.files), s.Name, filepath.Base(splits[at].Path))}
			}
		}
		splits = append(splits, of...)
	}
	// Labels are those of the first, which should be that of training.
	slices.SortStableFunc(splits, func(a, b *Split) int {
		return cmp.Compare(slices.Index(listSplits, a.Name), slices.Index(listSplits, b.Name))
	})
	return c.chosen(splits)
}

// splits makes a split of the rows, or of those with each value of the column "split".
func (l *list) splits(c *candidate) ([]*Split, error) {
	parts := make([][]listRow, len(listSplits))
	for _, r := range l.rows {
		parts[r.split] = append(parts[r.split], r)
	}
	l.rows = nil
	base := strings.TrimSuffix(c.path, filepath.Ext(c.path))
	if c.folder != nil {
		base = cmp.Or(c.output, c.path)
	}
	var splits []*Split
	for i, rows := range parts {
		name := listSplits[i]
		if len(rows) == 0 || i > 0 && c.opts.Split != "" && c.opts.Split != name {
			continue
		}
		slices.SortFunc(rows, func(a, b listRow) int { return cmp.Or(strings.Compare(a.key, b.key), cmp.Compare(a.line, b.line)) })
		for i := 1; i < len(rows); i++ {
			if rows[i].key == rows[i-1].key {
				return nil, l.errorf(int(rows[i].line), "names the image of line %d again (%s): a set has each once, so remove one of the two", rows[i-1].line, rows[i].key)
			}
		}
		s := c.newSplit(&listSplit{treeFiles: treeFiles{root: l.root, fs: fileSystem{}}, list: l, split: int8(i), rows: rows})
		s.Output = base + "-shards"
		if i > 0 {
			s.Name, s.Output = name, base+"-"+name+"-shards"
		}
		s.notes = slices.Clone(l.notes)
		splits = append(splits, s)
	}
	if len(splits) == 0 {
		return nil, &FormatError{Path: l.path, Msg: fmt.Sprintf("no row is of the split %q by the column %q", c.opts.Split, listSplitColumn)}
	}
	return splits, nil
}

// resolve turns what the rows say into labels, once all are read.
func (l *list) resolve(opts Options) error {
	var err error
	if l.names, err = findClassNames([]string{filepath.Dir(l.path)}, opts); err != nil {
		return err
	}
	r, err := l.values.resolve(l.path, l.names, opts)
	if err != nil {
		return err
	}
	for i := range l.rows {
		if row := &l.rows[i]; row.label != noLabel {
			row.label = r.labels[row.label]
		}
	}
	l.rows = slices.DeleteFunc(l.rows, func(r listRow) bool { return r.label == leftOutLabel })
	l.numbered, l.classes, l.values = r.numbered, r.classes, labelValues{}
	if r.note != "" {
		l.notes = append(l.notes, r.note)
	}
	return nil
}

// errorf is about a line.
func (l *list) errorf(line int, format string, args ...any) error {
	return &FormatError{Path: l.path, Msg: fmt.Sprintf("line %d: ", line) + fmt.Sprintf(format, args...)}
}

func (l *listSplit) describe() string { return "a list of images" }

func (l *listSplit) walk(ctx context.Context, s *Split, fn func(Item) error) (labels, error) {
	if !l.numbered && l.names.names == nil && !s.opts.ForceClasses {
		if err := checkWnids(s, l.classes); err != nil {
			return labels{}, err
		}
	}
	n, unlabelled := 0, 0
	for _, r := range l.rows {
		if n = max(n, int(r.label)+1); r.label < 0 {
			unlabelled++
		}
	}
	if err := l.walkFiles(ctx, fn); err != nil {
		return labels{}, err
	}
	if unlabelled > 0 {
		s.note("%s no label: -1 stands for it", bytesize.Counted(unlabelled, "image has", "images have"))
	}
	out, err := labels{classes: l.classes, texts: l.names.names == nil}, error(nil)
	if l.numbered {
		out, err = l.names.labels(s, n)
	}
	out.of = l.label
	return out, err
}

// label finds the label of a key.
func (l *listSplit) label(key string) (int32, bool) {
	r, ok := l.row(key)
	return r.label, ok
}

// row finds the row of a key.
func (l *listSplit) row(key string) (listRow, bool) {
	i, ok := slices.BinarySearchFunc(l.rows, key, func(r listRow, key string) int { return strings.Compare(r.key, key) })
	if !ok {
		return listRow{}, false
	}
	return l.rows[i], true
}

// walkFiles gives the files of the rows, folder after folder: to list a folder takes less than to ask for each of its files.
func (l *listSplit) walkFiles(ctx context.Context, fn func(Item) error) error {
	rows := slices.Clone(l.rows)
	slices.SortStableFunc(rows, func(a, b listRow) int { return strings.Compare(path.Dir(a.key), path.Dir(b.key)) })
	var entries map[string]fs.DirEntry
	missing, first := 0, listRow{}
	for i, r := range rows {
		dir := path.Dir(r.key)
		if i == 0 || dir != path.Dir(rows[i-1].key) {
			var err error
			if entries, err = l.folder(dir); err != nil {
				return err
			}
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		e := entries[path.Base(r.key)]
		if e == nil {
			if missing++; missing == 1 || r.line < first.line {
				first = r
			}
			continue
		}
		reason, err := l.reason(e, r)
		if err != nil {
			return err
		}
		if err := fn(Item{Key: r.key, Reason: reason, Label: r.label, Labelled: true}); err != nil {
			return err
		}
	}
	if missing == 0 {
		return nil
	}
	hint := "complete the images, or remove its line"
	if missing == len(rows) {
		hint = "--images DIR names the folder where the paths begin"
	}
	return l.errorf(int(first.line), "there is no file %s%s: %s", filepath.Join(l.list.root, filepath.FromSlash(first.key)), andOthersMissing(missing-1), hint)
}

func andOthersMissing(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", nor the files of %s other lines", bytesize.Grouped(n))
}

// folder lists a folder by names; one that is not there is empty.
func (l *listSplit) folder(dir string) (map[string]fs.DirEntry, error) {
	listed, err := l.fs.list(filepath.Join(l.treeFiles.root, filepath.FromSlash(dir)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	entries := make(map[string]fs.DirEntry, len(listed))
	for _, e := range listed {
		entries[e.Name()] = e
	}
	return entries, nil
}

// reason says why a file that is there cannot be a sample; "" when it can.
func (l *listSplit) reason(e fs.DirEntry, r listRow) (string, error) {
	kind := e.Type()
	if kind&fs.ModeSymlink != 0 {
		info, err := l.fs.stat(filepath.Join(l.treeFiles.root, filepath.FromSlash(r.key)))
		if errors.Is(err, fs.ErrNotExist) {
			return reasonDangling, nil
		}
		if err != nil {
			return "", err
		}
		kind = info.Mode().Type()
	}
	switch {
	case kind.IsDir():
		return "", l.errorf(int(r.line), "%s is a folder: a line names an image", r.key)
	case !kind.IsRegular():
		return reasonNotRegular, nil
	}
	return nameReason(r.key), nil
}

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
	labels     resolvedLabels // of the values
	names      classNames
	notes      []string
	// Of the fields that are asked for: their columns, the cells of all rows, and what a cell is.
	fieldColumns []int
	cells        []byte
	cellType     shard.FieldType
}

// listSplit is a list, or those of its rows that are of one split.
type listSplit struct {
	treeFiles
	*list
	rows   []listRow // by key
	fields []Field
}

// readListSplits reads a list, and gives those of its splits that are wanted; none: the file is no list.
func readListSplits(file, root string, opts Options) ([]*listSplit, error) {
	l, err := readList(file, root, opts)
	if l == nil || err != nil {
		return nil, err
	}
	if err := l.resolve(opts); err != nil {
		return nil, err
	}
	parts := make([][]listRow, len(listSplits))
	for _, r := range l.rows {
		parts[r.split] = append(parts[r.split], r)
	}
	l.rows = nil
	var splits []*listSplit
	for i, rows := range parts {
		if len(rows) == 0 || i > 0 && opts.Split != "" && opts.Split != listSplits[i] {
			continue
		}
		slices.SortFunc(rows, func(a, b listRow) int { return cmp.Or(strings.Compare(a.key, b.key), cmp.Compare(a.line, b.line)) })
		for i := 1; i < len(rows); i++ {
			if rows[i].key == rows[i-1].key {
				return nil, l.errorf(int(rows[i].line), "names the image of line %d again (%s): a set has each once, so remove one of the two", rows[i-1].line, rows[i].key)
			}
		}
		splits = append(splits, &listSplit{treeFiles: treeFiles{root: l.root, fs: fileSystem{}}, list: l, rows: rows})
	}
	if len(splits) == 0 {
		return nil, refuse(l.path, "no row is of the split %q by the column %q", opts.Split, listSplitColumn)
	}
	return splits, nil
}

// name is what the column "split" says; "" if there is none.
func (l *listSplit) name() string { return listSplits[l.rows[0].split] }

// resolve turns what the rows say into labels, once all are read.
func (l *list) resolve(opts Options) error {
	var err error
	if l.names, err = findClassNames([]string{filepath.Dir(l.path)}, opts); err != nil {
		return err
	}
	if l.labels, err = l.values.resolve(l.path, l.names, opts); err != nil {
		return err
	}
	for i := range l.rows {
		if row := &l.rows[i]; row.label != noLabel {
			row.label = l.labels.labels[row.label]
		}
	}
	l.rows = slices.DeleteFunc(l.rows, func(r listRow) bool { return r.label == leftOutLabel })
	if l.values = (labelValues{}); l.labels.note != "" {
		l.notes = append(l.notes, l.labels.note)
	}
	return nil
}

// errorf is about a line.
func (l *list) errorf(line int, format string, args ...any) error {
	return refuse(l.path, "line %d: %s", line, fmt.Sprintf(format, args...))
}

func (l *listSplit) describe() string { return "a list of images" }

func (l *listSplit) walk(ctx context.Context, s *Split, fn func(Item) error) (labels, error) {
	all, err := l.labels.of(s, l.names, l.label, func(yield func(int32) bool) {
		for _, r := range l.rows {
			yield(r.label)
		}
	})
	if err != nil {
		return labels{}, err
	}
	return all, l.walkFiles(ctx, fn)
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

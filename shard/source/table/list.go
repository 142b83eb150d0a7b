// Package table reads tables: lists of images and labels as CSV or JSON lines, and parquet files that hold the images.
package table

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/labelrule"
	"github.com/imgfeed/imgfeed/shard/source/transport"
)

// listRow is a line of a list.
type listRow struct {
	key   string
	line  int32
	label int32 // while the list is read a place in its values; noLabel in both
	split int8  // index into ListSplits
	cells int64 // the row's cells begin here in listFile.cells
}

// ListSplits are the splits that a column may tell apart; the first is that of a list without one.
var ListSplits = []string{"", "train", "val", "test"}

// listFile is a file that was read.
type listFile struct {
	path, root string // root is where the paths begin
	rows       []listRow
	values     labelrule.Column
	labels     labelrule.Resolved // the labels of the values
	names      labelrule.ClassNames
	Notes      []string
	// For the fields of the options: their columns, the cells of all rows, and the type of a cell.
	fieldColumns []int
	cells        []byte
	cellType     shard.FieldType
}

// List is a list, or its rows of one split.
type List struct {
	transport.TreeFiles
	*listFile
	rows   []listRow // sorted by key
	fields []dataset.Field
}

// ReadLists reads a list and returns the splits that the options choose. It returns no splits if the file is not a list.
func ReadLists(file, root string, opts dataset.Options) ([]*List, error) {
	l, err := readList(file, root, opts)
	if l == nil || err != nil {
		return nil, err
	}
	if err := l.resolve(opts); err != nil {
		return nil, err
	}
	parts := make([][]listRow, len(ListSplits))
	for _, r := range l.rows {
		parts[r.split] = append(parts[r.split], r)
	}
	l.rows = nil
	var splits []*List
	for i, rows := range parts {
		if len(rows) == 0 || i > 0 && opts.Split != "" && opts.Split != ListSplits[i] {
			continue
		}
		slices.SortFunc(rows, func(a, b listRow) int { return cmp.Or(strings.Compare(a.key, b.key), cmp.Compare(a.line, b.line)) })
		for i := 1; i < len(rows); i++ {
			if rows[i].key == rows[i-1].key {
				return nil, l.errorf(int(rows[i].line), "names the image of line %d again (%s): a set has each once, "+
					"so remove one of the two", rows[i-1].line, rows[i].key)
			}
		}
		splits = append(splits, &List{TreeFiles: transport.TreeFiles{Root: l.root, FS: transport.FileSystem{}}, listFile: l, rows: rows})
	}
	if len(splits) == 0 {
		return nil, transport.Refuse(l.path, "no row is of the split %q by the column %q", opts.Split, listSplitColumn)
	}
	return splits, nil
}

// Name is the value of the column "split", or "" without that column.
func (l *List) Name() string { return ListSplits[l.rows[0].split] }

// resolve turns what the rows say into labels, once all are read.
func (l *listFile) resolve(opts dataset.Options) error {
	var err error
	if l.names, err = labelrule.FindClassNames([]string{filepath.Dir(l.path)}, opts); err != nil {
		return err
	}
	if l.labels, err = l.values.Resolve(l.path, l.names, opts); err != nil {
		return err
	}
	for i := range l.rows {
		if row := &l.rows[i]; row.label != labelrule.NoLabel {
			row.label = l.labels.Labels[row.label]
		}
	}
	l.rows = slices.DeleteFunc(l.rows, func(r listRow) bool { return r.label == labelrule.LeftOutLabel })
	if l.values = (labelrule.Column{}); l.labels.Note != "" {
		l.Notes = append(l.Notes, l.labels.Note)
	}
	return nil
}

// errorf is about a line.
func (l *listFile) errorf(line int, format string, args ...any) error {
	return transport.Refuse(l.path, "line %d: %s", line, fmt.Sprintf(format, args...))
}

func (l *List) Describe() string { return "a list of images" }

func (l *List) Walk(ctx context.Context, s *dataset.Split, fn func(dataset.Item) error) (dataset.Labels, error) {
	all, err := l.labels.SplitLabels(s, l.names, l.label, func(yield func(int32) bool) {
		for _, r := range l.rows {
			yield(r.label)
		}
	})
	if err != nil {
		return dataset.Labels{}, err
	}
	return all, l.walkFiles(ctx, fn)
}

// label finds the label of a key.
func (l *List) label(key string) (int32, bool) {
	r, ok := l.row(key)
	return r.label, ok
}

// row finds the row of a key.
func (l *List) row(key string) (listRow, bool) {
	i, ok := slices.BinarySearchFunc(l.rows, key, func(r listRow, key string) int { return strings.Compare(r.key, key) })
	if !ok {
		return listRow{}, false
	}
	return l.rows[i], true
}

// walkFiles gives the files of the rows, folder after folder: listing a folder is cheaper than a request for each of its files.
func (l *List) walkFiles(ctx context.Context, fn func(dataset.Item) error) error {
	rows := slices.Clone(l.rows)
	slices.SortStableFunc(rows, func(a, b listRow) int { return strings.Compare(path.Dir(a.key), path.Dir(b.key)) })
	folder, entries := "", make(map[string]fs.DirEntry)
	missing, first := 0, listRow{}
	for i, r := range rows {
		if dir := path.Dir(r.key); i == 0 || dir != path.Dir(rows[i-1].key) {
			folder = filepath.Join(l.TreeFiles.Root, filepath.FromSlash(dir))
			listed, err := l.FS.List(folder)
			if err != nil && !errors.Is(err, fs.ErrNotExist) { // the files of a missing folder are missing
				return err
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			clear(entries)
			for _, d := range listed {
				entries[d.Name()] = d
			}
		}
		d := entries[path.Base(r.key)]
		if d == nil {
			if missing++; missing == 1 || r.line < first.line {
				first = r
			}
			continue
		}
		e, err := transport.ReadEntry(l.FS, folder, d)
		if err != nil {
			return err
		}
		if e.Dir {
			return l.errorf(int(r.line), "%s is a folder: a line names an image", r.key)
		}
		reason := cmp.Or(e.Reason, transport.NameReason(r.key))
		if err := fn(dataset.Item{Key: r.key, Reason: reason, Label: r.label, Labelled: true}); err != nil {
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
	return l.errorf(int(first.line), "there is no file %s%s: %s", filepath.Join(l.listFile.root, filepath.FromSlash(first.key)),
		andOthersMissing(missing-1), hint)
}

func andOthersMissing(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", nor the files of %s other lines", bytesize.Grouped(n))
}

// findFieldColumns finds the columns of the fields.
func (l *listFile) findFieldColumns(names []string, fields []dataset.Field) error {
	for i := range fields {
		f := &fields[i]
		column := findColumn(names, f.Source)
		if column < 0 {
			return transport.Refuse(l.path, "%v", f.Errorf("there is no column %q among the %d (%s), which can be named by number too, "+
				"from 1 on",
				f.Source, len(names), transport.SomeNames(names)))
		}
		l.fieldColumns = append(l.fieldColumns, column)
	}
	return nil
}

// addCells keeps the cells of the last row that fields need, each behind its length.
func (l *listFile) addCells(row []string) {
	for _, column := range l.fieldColumns {
		l.cells = shard.AppendBytes(l.cells, []byte(row[column]))
	}
}

// addJSONCells does the same for a list of JSON objects. The values stay as they are written.
func (l *listFile) addJSONCells(object []byte, line int, fields []dataset.Field) error {
	for i := range fields {
		value, err := dataset.JSONAt(object, strings.TrimPrefix(fields[i].Source, dataset.JSONPrefix))
		if err != nil {
			return l.errorf(line, "%v", fields[i].Errorf("%v", err))
		}
		l.cells = shard.AppendBytes(l.cells, value)
	}
	return nil
}

// BindFields completes the types: a cell is text, and the value of a key JSON, unless told.
func (l *List) BindFields(fields []dataset.Field) error {
	l.fields = fields
	for i := range fields {
		if fields[i].Type == "" {
			fields[i].Type = l.cellType
		}
	}
	return nil
}

// AppendFields appends the values for an image.
func (l *List) AppendFields(dst []byte, key string) ([]byte, error) {
	r, ok := l.row(key)
	if !ok {
		return dst, l.errorf(0, "no row for %q", key)
	}
	cells := l.cells[r.cells:]
	for i := range l.fields {
		n := 4 + int(binary.LittleEndian.Uint32(cells))
		cell := cells[4:n]
		cells = cells[n:]
		var err error
		if l.cellType == shard.JSON {
			dst, err = l.fields[i].AppendJSON(dst, cell)
		} else {
			dst, err = l.fields[i].AppendText(dst, string(cell))
		}
		if err != nil {
			return dst, l.errorf(int(r.line), "%v", err)
		}
	}
	return dst, nil
}

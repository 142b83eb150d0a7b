// Package table reads tables: lists of images and labels as CSV or JSON lines, and parquet files that hold the images.
package table

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/labelrule"
	"github.com/imgfeed/imgfeed/shard/source/transport"
)

// listRow is a line of a list.
type listRow struct {
	key    string
	line   int32
	label  int32 // while the list is read a place in its values; noLabel in both
	split  int8  // index into listSplits
	fields int64 // the values of the fields, behind their length, begin here in listFile.encoded
}

// listSplits are the splits that a column may tell apart; the first is that of a list without one.
var listSplits = []string{"", "train", "val", "test"}

// listFile is a file that was read.
type listFile struct {
	path, root string // root is where the paths begin
	opts       dataset.Options
	rows       []listRow
	values     labelrule.Column
	labels     labelrule.Resolved // the labels of the values
	names      labelrule.ClassNames
	fields     []dataset.Field
	row        []byte // the fields of one row
	encoded    []byte // those of all
}

// List is a list, or its rows of one split.
type List struct {
	transport.TreeFiles
	*listFile
	rows []listRow // sorted by key
}

// ReadLists reads a list and returns the splits that the options choose. It returns no splits if the file is not a list.
func ReadLists(file, root string, opts dataset.Options) ([]*List, error) {
	if !NamedList(file) && filepath.Base(file) != TinyAnnotations {
		return nil, nil
	}
	l := &listFile{path: file, root: root, opts: opts, fields: slices.Clone(opts.Fields)}
	if err := l.read(); err != nil {
		return nil, err
	}
	if len(l.rows) == 0 {
		return nil, transport.Refuse(file, "names no images")
	}
	if err := l.resolve(); err != nil {
		return nil, err
	}
	parts := make([][]listRow, len(listSplits))
	for _, r := range l.rows {
		parts[r.split] = append(parts[r.split], r)
	}
	l.rows = nil
	var splits []*List
	for i, rows := range parts {
		if len(rows) == 0 || i > 0 && opts.Split != "" && opts.Split != listSplits[i] {
			continue
		}
		slices.SortFunc(rows, func(a, b listRow) int { return cmp.Or(strings.Compare(a.key, b.key), cmp.Compare(a.line, b.line)) })
		for i := 1; i < len(rows); i++ {
			if rows[i].key == rows[i-1].key {
				return nil, l.errorf(int(rows[i].line), "names the image of line %d again (%s): a set has each once, "+
					"so remove one of the two", rows[i-1].line, rows[i].key)
			}
		}
		splits = append(splits, &List{transport.TreeFiles{Root: root, FS: transport.FileSystem{}}, l, rows})
	}
	if len(splits) == 0 {
		return nil, transport.Refuse(l.path, "no row is of the split %q by the column %q", opts.Split, listSplitColumn)
	}
	return splits, nil
}

// Name is the value of the column "split", or "" without that column.
func (l *List) Name() string { return listSplits[l.rows[0].split] }

// resolve turns the texts in the rows into labels, once all are read.
func (l *listFile) resolve() error {
	var err error
	if l.names, err = labelrule.FindClassNames([]string{filepath.Dir(l.path)}, l.opts); err != nil {
		return err
	}
	if l.labels, err = l.values.Resolve(l.path, l.names, l.opts); err != nil {
		return err
	}
	for i := range l.rows {
		if row := &l.rows[i]; row.label != labelrule.NoLabel {
			row.label = l.labels.Labels[row.label]
		}
	}
	l.rows = slices.DeleteFunc(l.rows, func(r listRow) bool { return r.label == labelrule.LeftOutLabel })
	l.values = labelrule.Column{}
	return nil
}

// errorf is about a line.
func (l *listFile) errorf(line int, format string, args ...any) error {
	return transport.Refuse(l.path, "line %d: %s", line, fmt.Sprintf(format, args...))
}

func (l *List) Walk(w *transport.Walk, s *dataset.Split, fn func(transport.Item) error) (dataset.Labels, error) {
	if err := l.walkFiles(w, fn); err != nil {
		return dataset.Labels{}, err
	}
	if l.labels.Note != "" {
		s.Note("%s", l.labels.Note)
	}
	return l.labels.SplitLabels(s, l.names, nil)
}

// find returns the place of a key's row, or of the first row behind it.
func (l *List) find(key string) (int, bool) {
	return slices.BinarySearchFunc(l.rows, key, func(r listRow, key string) int { return strings.Compare(r.key, key) })
}

// walkFiles gives the files of the rows. It lists the folders that hold them: that is cheaper than a request for each file.
func (l *List) walkFiles(w *transport.Walk, fn func(transport.Item) error) error {
	found := make([]bool, len(l.rows))
	err := l.Files(w, func(f *transport.Item) error {
		i, listed := l.find(f.Key)
		switch {
		case f.Folder && listed:
			return l.errorf(int(l.rows[i].line), "%s is a folder: a line names an image", f.Key)
		case f.Folder:
			if i, _ = l.find(f.Key + "/"); i == len(l.rows) || !strings.HasPrefix(l.rows[i].key, f.Key+"/") {
				return fs.SkipDir
			}
			return nil
		case !listed:
			return nil
		}
		found[i] = true
		f.Label, f.Labelled = l.rows[i].label, true
		return fn(*f)
	})
	if err != nil {
		return err
	}
	missing, first := 0, listRow{}
	for i, r := range l.rows {
		if !found[i] {
			if missing++; missing == 1 || r.line < first.line {
				first = r
			}
		}
	}
	if missing == 0 {
		return nil
	}
	hint := "complete the images, or remove such lines; hidden files are not read"
	if missing == len(l.rows) {
		hint = "--images DIR names the folder where the paths begin"
	}
	return l.errorf(int(first.line), "there is no file %s (%s): %s", filepath.Join(l.root, filepath.FromSlash(first.key)),
		bytesize.Counted(missing, "line names no file", "lines name no file"), hint)
}

// BindFields completes the types: a cell is text, and the value of a key JSON, unless the option says another.
func (l *List) BindFields(fields []dataset.Field) error {
	copy(fields, l.fields)
	return nil
}

// AppendFields appends the values for an image.
func (l *List) AppendFields(dst []byte, key string) ([]byte, error) {
	i, ok := l.find(key)
	if !ok {
		return dst, transport.Refuse(l.path, "no row for %q", key)
	}
	values := l.encoded[l.rows[i].fields:]
	return append(dst, values[4:][:binary.LittleEndian.Uint32(values)]...), nil
}

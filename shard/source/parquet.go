package source

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/imgfeed/imgfeed/internal/bytesize"
)

// parquetFiles is datasets of Hugging Face as their hub has them, in parquet (https://parquet.apache.org/docs/file-format/): a row for each sample, a
// column with the image file's bytes and one with the label, whose class names stand in the schema's metadata under "huggingface":
//
//	data/train-00000-of-00294.parquet       image: struct<bytes: binary, path: string>, label: int64
//	data/validation-00000-of-00014.parquet
//
// A sample's key is its file's name, its row in it, and the path that the row gives: "train-00000-of-00294/00012-n01440764_10026.JPEG".
var parquetFiles = Kind{
	Name:   "Hugging Face parquet",
	Forms:  []string{"a folder with train-00000-of-00294.parquet and so on, or with data/ that has them", "one parquet file"},
	Labels: "the label column, or that of --label; the schema's class names, or those of --classes",
	open:   openParquetFiles,
	takes:  []*option{optionClasses, optionLabel, optionNoLabels},
}

const (
	parquetExtension = ".parquet"
	// parquetBatch is how many values are taken of a page at a time.
	parquetBatch = 64
)

func openParquetFiles(c *candidate) ([]*Split, error) {
	if c.folder == nil {
		if !strings.EqualFold(filepath.Ext(c.path), parquetExtension) {
			return nil, nil
		}
		s, err := newParquet(c, []string{c.path})
		if s != nil {
			s.Output = strings.TrimSuffix(c.path, filepath.Ext(c.path)) + "-shards"
		}
		return []*Split{s}, err
	}
	names := c.parquets()
	switch zipped := c.tree != fileTree(fileSystem{}); {
	case slices.ContainsFunc(names, c.besideImages), zipped && len(names) == 0:
		return nil, nil
	case zipped:
		return nil, &FormatError{Path: c.path, Entry: names[0], Msg: "parquet in a zip is not read: unpack the zip"}
	}
	if len(names) == 0 && slices.Contains(c.folders, "data") {
		q, err := c.in("data", "")
		if err != nil {
			return nil, err
		}
		q.output = c.path
		c, names = q, q.parquets()
	}
	if len(names) == 0 {
		return nil, nil
	}
	return c.bySplit(names, func(_ string, files []string) (*Split, error) {
		var paths []string
		for _, f := range files {
			paths = append(paths, filepath.Join(c.path, f))
		}
		return newParquet(c, paths)
	})
}

// parquets are the files of a folder that are called parquet.
func (f *folder) parquets() []string {
	return slices.DeleteFunc(slices.Clone(f.files), func(name string) bool { return !strings.EqualFold(filepath.Ext(name), parquetExtension) })
}

// parquetSplit is the files of one split.
type parquetSplit struct {
	paths  []string
	size   int64
	names  classNames
	opts   Options
	labels map[string][]int32 // of each row of a file, by its name without the extension
	texts  labelValues        // of a column of text, and then labels are places in it
	fields []Field
}

func newParquet(c *candidate, paths []string) (*Split, error) {
	names, err := findClassNames([]string{filepath.Dir(paths[0])}, c.opts)
	if err != nil {
		return nil, err
	}
	l := &parquetSplit{paths: paths, names: names, opts: c.opts}
	var first *parquetFile
	for _, file := range paths {
		f, err := openParquet(file, l.opts)
		if err != nil {
			return nil, err
		}
		f.Close() // its schema stays in memory
		first = cmp.Or(first, f)
		if err := f.checkLabels(file, first, paths[0]); err != nil {
			return nil, err
		}
		l.size += f.Size()
	}
	if len(l.names.names) == 0 && len(first.classes) > 0 {
		l.names = classNames{names: first.classes, from: "the schema of " + paths[0]}
	}
	s := c.newSplit(l)
	return s, l.checkCount(s)
}

// checkCount compares the number of files with what their names say: train-00000-of-00294.parquet is one of 294.
func (l *parquetSplit) checkCount(s *Split) error {
	stem := strings.TrimSuffix(filepath.Base(l.paths[0]), filepath.Ext(l.paths[0]))
	at := strings.LastIndex(stem, "-of-")
	if at < 0 {
		return nil
	}
	want, err := strconv.Atoi(strings.TrimLeft(stem[at+len("-of-"):], "0"))
	if err != nil || want == len(l.paths) {
		return nil
	}
	msg := fmt.Sprintf("is one of %d files by its name, and %d are here", want, len(l.paths))
	if s.opts.AllowTruncated {
		s.note("%s %s", l.paths[0], msg)
		return nil
	}
	return &FormatError{Path: l.paths[0], Msg: msg + ": get the others, or take what is here with --allow-truncated"}
}

func (l *parquetSplit) describe() string {
	if len(l.paths) == 1 {
		return "a parquet file"
	}
	return fmt.Sprintf("%d parquet files", len(l.paths))
}

func (l *parquetSplit) streamed() bool { return true }
func (l *parquetSplit) bytes() int64   { return l.size }

func (l *parquetSplit) read(key string, _ []byte) ([]byte, error) {
	return nil, fmt.Errorf("source: %q lies in a parquet file and cannot be read by its key", key)
}

// unlabelled says that the first label is -1, as those of test images are.
func (l *parquetSplit) unlabelled() bool {
	none := false
	l.file(context.Background(), l.paths[0], func(_ int, r *parquetRow) error {
		none = r.label < 0
		return errEnough
	})
	return none
}

func (l *parquetSplit) walk(ctx context.Context, s *Split, fn func(Item) error) (labels, error) {
	l.labels, l.texts = make(map[string][]int32), labelValues{}
	n, unlabelled, leftOut, wanted := 0, 0, 0, classIndex(l.names.names)
	for _, file := range l.paths {
		stem := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
		err := l.file(ctx, file, func(row int, r *parquetRow) error {
			label, err := l.rowLabel(r, func(format string, args ...any) error {
				return &FormatError{Path: file, Entry: fmt.Sprintf("row %d", row), Msg: fmt.Sprintf(format, args...)}
			})
			if err != nil {
				return err
			}
			l.labels[stem] = append(l.labels[stem], label)
			_, _, number := wholeNumber(r.text)
			if _, ok := wanted[r.text]; r.text != "" && len(wanted) > 0 && !ok && !number {
				leftOut++
				return nil
			}
			if n = max(n, int(label)+1); label < 0 {
				unlabelled++
			}
			key := fmt.Sprintf("%s/%05d", stem, row)
			if r.path != "" {
				key += "-" + path.Base(r.path)
			}
			it := Item{Key: key, Reason: cmp.Or(nameReason(key), r.reason), Label: label, Labelled: r.text == ""}
			if it.Reason == "" {
				it.Size, it.Data, it.Fields = int64(len(r.image)), bytes.NewReader(r.image), r.fields
			}
			return fn(it)
		})
		if err != nil {
			return labels{}, err
		}
	}
	if unlabelled > 0 {
		s.note("%s no label: -1 stands for it", bytesize.Counted(unlabelled, "row has", "rows have"))
	}
	if leftOut > 0 {
		s.note("%s left out, of other classes than those of %s", bytesize.Counted(leftOut, "row is", "rows are"), l.names.from)
	}
	return l.resolve(s, n)
}

// rowLabel is the label that a row has, or the place of its text among the texts.
func (l *parquetSplit) rowLabel(r *parquetRow, at place) (int32, error) {
	switch {
	case r.text != "":
		return l.texts.add(r.text, at)
	case r.fraction:
		return 0, at("the label is no whole number: name another column by --label")
	case r.label < noLabel || r.label >= numberedClassesMax:
		return 0, at("the label %d is not from 0 to %d", r.label, numberedClassesMax-1)
	}
	return int32(r.label), nil
}

// resolve turns what the rows say into labels, once all are read.
func (l *parquetSplit) resolve(s *Split, n int) (labels, error) {
	if l.texts.values == nil {
		out, err := l.names.labels(s, n)
		out.of = l.label
		return out, err
	}
	r, err := l.texts.resolve(s.Path, l.names, l.opts)
	if err != nil {
		return labels{}, err
	}
	for _, of := range l.labels {
		for i, label := range of {
			if label >= 0 {
				of[i] = r.labels[label]
			}
		}
	}
	out := labels{classes: r.classes, texts: l.names.names == nil}
	if r.numbered {
		if out, err = l.names.labels(s, 1+int(slices.Max(r.labels))); err != nil {
			return labels{}, err
		}
	} else if err := checkWnids(s, r.classes); l.names.names == nil && !l.opts.ForceClasses && err != nil {
		return labels{}, err
	}
	out.of = l.label
	return out, nil
}

// label finds the label of a key by its file and row.
func (l *parquetSplit) label(key string) (int32, bool) {
	stem, rest, _ := strings.Cut(key, "/")
	digits, _, _ := strings.Cut(rest, "-")
	row, err := strconv.Atoi(digits)
	if of := l.labels[stem]; err == nil && row >= 0 && row < len(of) {
		return of[row], true
	}
	return 0, false
}

// parquetRow is what is read of a row. The image is valid until the next one.
type parquetRow struct {
	image  []byte
	path   string
	reason string
	label  int64
	text   string // in place of the label
	// fraction says that the label is a number, and no whole one.
	fraction bool
	fields   []byte
}

// parquetFile is one open file.
type parquetFile struct {
	*parquet.File
	file                    *os.File
	image, imagePath, label int // columns; -1: there is none
	classes                 []string
	fields                  []parquetColumn
}

func (f *parquetFile) Close() error { return f.file.Close() }

// file calls fn for every row of a file.
func (l *parquetSplit) file(ctx context.Context, name string, fn func(row int, r *parquetRow) error) (err error) {
	f, err := openParquet(name, l.opts)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.bindFields(name, slices.Clone(l.fields)); err != nil {
		return err
	}
	row := 0
	defer func() { // the reader takes what the file says at its word in places
		if r := recover(); r != nil {
			err = &FormatError{Path: name, Entry: fmt.Sprintf("row %d", row), Msg: fmt.Sprintf("cannot be read as parquet: %v", r)}
		}
	}()
	for i, group := range f.RowGroups() {
		if err := f.checkGroup(i); err != nil {
			return &FormatError{Path: name, Entry: fmt.Sprintf("row %d", row), Msg: "cannot be read as parquet", Err: err}
		}
		err := f.group(group, func(r *parquetRow, err error) error {
			if wrong, ok := errors.AsType[*fieldError](err); ok {
				return &FormatError{Path: name, Entry: fmt.Sprintf("row %d", row), Msg: wrong.Error()}
			}
			if err != nil {
				return &FormatError{Path: name, Entry: fmt.Sprintf("row %d", row), Msg: "cannot be read as parquet", Err: err}
			}
			if err := errors.Join(ctx.Err(), fn(row, r)); err != nil {
				return err
			}
			row++
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// group calls fn for every row of a row group, or with the error that ends it.
func (f *parquetFile) group(group parquet.RowGroup, fn func(*parquetRow, error) error) error {
	columns := group.ColumnChunks()
	image := newParquetCursor(columns[f.image])
	defer image.close()
	var paths, label *parquetCursor
	if f.imagePath >= 0 {
		paths = newParquetCursor(columns[f.imagePath])
		defer paths.close()
	}
	if f.label >= 0 {
		label = newParquetCursor(columns[f.label])
		defer label.close()
	}
	fields := f.newFieldCursors(group)
	defer fields.close()
	for range group.NumRows() {
		r, err := readParquetRow(image, paths, label)
		if err == nil {
			r.fields, err = fields.next()
		}
		if _, wrong := errors.AsType[*fieldError](err); wrong && r.reason != "" {
			err = nil // the row is left out
		}
		if err := fn(r, err); err != nil {
			return err
		}
	}
	return nil
}

// readParquetRow takes the next value of each column.
func readParquetRow(image, paths, label *parquetCursor) (*parquetRow, error) {
	r := &parquetRow{label: -1}
	v, err := image.next()
	switch {
	case err != nil:
		return nil, err
	case v.IsNull():
		r.reason = "the row has no bytes of an image (a path is not followed)"
	case len(v.ByteArray()) > ImageBytesMax:
		r.reason = reasonTooLarge(int64(len(v.ByteArray())))
	default:
		r.image = v.ByteArray()
	}
	if label != nil {
		if v, err = label.next(); err != nil {
			return nil, err
		}
		r.setLabel(v)
	}
	if paths != nil {
		if v, err = paths.next(); err != nil {
			return nil, err
		}
		if !v.IsNull() {
			r.path = string(v.ByteArray())
		}
	}
	return r, nil
}

// setLabel takes the value of the column of labels; null is none.
func (r *parquetRow) setLabel(v parquet.Value) {
	var x float64
	switch v.Kind() {
	case parquet.Boolean:
		if r.label = 0; v.Boolean() {
			r.label = 1
		}
		return
	case parquet.Int32:
		r.label = int64(v.Int32())
		return
	case parquet.Int64:
		r.label = v.Int64()
		return
	case parquet.Float:
		x = float64(v.Float())
	case parquet.Double:
		x = v.Double()
	default:
		if !v.IsNull() {
			r.text = strings.TrimSpace(string(v.ByteArray()))
		}
		return
	}
	if r.fraction = x != math.Trunc(x) || math.Abs(x) > numberedClassesMax; !r.fraction {
		r.label = int64(x)
	}
}

// parquetCursor goes through the values of a column in a row group; it holds one page.
type parquetCursor struct {
	pages  parquet.Pages
	page   parquet.Page
	values parquet.ValueReader
	batch  [parquetBatch]parquet.Value
	at, n  int
}

func newParquetCursor(c parquet.ColumnChunk) *parquetCursor { return &parquetCursor{pages: c.Pages()} }

// next returns the value of the next row, which is valid until the one after.
func (c *parquetCursor) next() (parquet.Value, error) {
	v, err := c.peek()
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err == nil {
		c.at++
	}
	return v, err
}

// peek returns the next value and leaves it there; io.EOF says that there is none.
func (c *parquetCursor) peek() (parquet.Value, error) {
	for c.at == c.n {
		if c.page == nil {
			page, err := c.pages.ReadPage()
			if err != nil {
				return parquet.Value{}, err
			}
			c.page, c.values = page, page.Values()
		}
		n, err := c.values.ReadValues(c.batch[:])
		if err != nil && err != io.EOF {
			return parquet.Value{}, err
		}
		if c.at, c.n = 0, n; n == 0 {
			parquet.Release(c.page)
			c.page = nil
		}
	}
	return c.batch[c.at], nil
}

func (c *parquetCursor) close() {
	if c.page != nil {
		parquet.Release(c.page)
	}
	c.pages.Close()
}

// openParquet reads a file's schema and finds the columns in it.
func openParquet(name string, opts Options) (f *parquetFile, err error) {
	if err := noRemote(name, "parquet"); err != nil {
		return nil, err
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() {
		if r := recover(); r != nil {
			err = &FormatError{Path: name, Msg: fmt.Sprintf("cannot be read as parquet: %v", r)}
		}
		if err != nil {
			file.Close()
		}
	}()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if err := checkParquetFooter(file, info.Size()); err != nil {
		return nil, &FormatError{Path: name, Msg: err.Error()}
	}
	opened, err := parquet.OpenFile(file, info.Size(), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, &FormatError{Path: name, Msg: "cannot be read as parquet", Err: err}
	}
	f = &parquetFile{File: opened, file: file}
	return f, f.findColumns(name, opts)
}

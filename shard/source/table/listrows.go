package table

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/labelrule"
	"github.com/imgfeed/imgfeed/shard/source/transport"
)

const (
	// listLineBytesMax bounds what is read of a list before a line of it ends.
	listLineBytesMax = 1 << 20
	// listHeadBytes is the size of a file's beginning that tells whether it is a list.
	listHeadBytes   = 64 << 10
	listPathColumn  = "path"
	hubPathColumn   = "file_name" // in Hugging Face's imagefolder
	listLabelColumn = "label"
	listSplitColumn = "split" // train, val or test
	byteOrderMark   = "\ufeff"
)

// listExtensions are the extensions of lists. The last is MXNet's: im2rec writes a number, a label and a path between tabs, without a
// header.
var listExtensions = []string{".csv", ".tsv", ".jsonl", ".ndjson", mxnetExtension}

const (
	mxnetExtension = ".lst"
	// TinyAnnotations is the list of Tiny ImageNet's validation images: a name, a wnid and a box between tabs, without a header.
	TinyAnnotations = "val_annotations.txt"
)

// readList reads a list; nil if the file is not a list.
func readList(file, root string, opts dataset.Options) (*listFile, error) {
	if !NamedList(file) && filepath.Base(file) != TinyAnnotations {
		return nil, nil
	}
	f, err := transport.FileSystem{}.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	l := &listFile{path: file, root: root, cellType: shard.Text}
	buf := bufio.NewReaderSize(f, listHeadBytes)
	head, err := buf.Peek(listHeadBytes)
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if bytes.HasPrefix(head, []byte("\xff\xfe")) || bytes.HasPrefix(head, []byte("\xfe\xff")) {
		return nil, transport.Refuse(file, "is text in UTF-16: save it as UTF-8")
	}
	if bytes.HasPrefix(head, []byte(byteOrderMark)) {
		buf.Discard(len(byteOrderMark))
		head = head[len(byteOrderMark):]
	}
	switch text := bytes.TrimSpace(head); {
	case bytes.HasPrefix(text, []byte("{")):
		err = l.readJSON(buf, opts)
	case bytes.HasPrefix(text, []byte("[")):
		err = transport.Refuse(file, "holds one JSON array: write an object in each line, as jq -c '.[]' does")
	default:
		err = l.readTable(buf, head, opts)
	}
	if err == nil && len(l.rows) == 0 {
		err = transport.Refuse(file, "names no images")
	}
	return l, err
}

// NamedList says that a file is called as lists are.
func NamedList(file string) bool {
	return slices.Contains(listExtensions, strings.ToLower(filepath.Ext(file)))
}

// listColumns are the columns of a row; -1 if the table lacks one.
type listColumns struct{ path, label, split int }

// columnNames are those in the first row, or those of a format without a header.
func (l *listFile) columnNames(first []string) (names []string, header bool) {
	names = make([]string, len(first))
	mxnet := strings.EqualFold(filepath.Ext(l.path), mxnetExtension)
	switch {
	case mxnet:
		names[len(names)-1] = listPathColumn
		if len(names) == 3 { // else --label says which of several
			names[1] = listLabelColumn
		}
		return names, false
	case filepath.Base(l.path) == TinyAnnotations && len(first) > 1:
		names[0], names[1] = listPathColumn, listLabelColumn
		return names, false
	}
	for i, name := range first {
		names[i] = strings.TrimSpace(name)
	}
	return names, true
}

// readTable reads a list of rows of fields. head is how it begins: its first line tells whether tabs, commas or semicolons stand between
// fields.
func (l *listFile) readTable(r io.Reader, head []byte, opts dataset.Options) error {
	limit := &lineLimit{r, listLineBytesMax}
	table := csv.NewReader(limit)
	table.ReuseRecord = true
	line, _, _ := bytes.Cut(bytes.TrimLeft(head, "\r\n"), []byte("\n"))
	for _, delimiter := range "\t,;" {
		if bytes.ContainsRune(line, delimiter) {
			table.Comma = delimiter
			break
		}
	}
	var c listColumns
	last := 0 // line
	for rows := 0; ; rows++ {
		limit.left = listLineBytesMax
		fields, err := table.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return l.wrap(last+1, err)
		}
		last, _ = table.FieldPos(0)
		if rows == 0 {
			names, header := l.columnNames(fields)
			if c, err = l.findColumns(names, opts); err != nil {
				return err
			}
			if err := l.findFieldColumns(names, opts.Fields); err != nil {
				return err
			}
			if header {
				continue
			}
		}
		if err := l.add(fields, c, last, opts); err != nil {
			return err
		}
	}
}

// findColumns finds the columns of a table by their names.
func (l *listFile) findColumns(names []string, opts dataset.Options) (c listColumns, err error) {
	c = listColumns{path: slices.Index(names, listPathColumn), label: -1, split: slices.Index(names, listSplitColumn)}
	if c.path < 0 {
		c.path = slices.Index(names, hubPathColumn)
	}
	if c.path < 0 {
		return c, transport.Refuse(l.path, "has no column %q (%s): the first line names the columns, as path,label", listPathColumn,
			transport.SomeNames(names))
	}
	if label := cmp.Or(opts.Label, listLabelColumn); !opts.NoLabels {
		c.label = findColumn(names, label)
		if c.label < 0 && (opts.Label != "" || !opts.Test) {
			return c, transport.Refuse(l.path, "has no column %q of labels (%s): --label COLUMN names it, or its number from 1 on; "+
				"--no-labels takes the images without",
				label, transport.SomeNames(names))
		}
	}
	return c, nil
}

// findColumn returns the index of a column by its name, or by its number from 1 on; -1 if the table lacks it.
func findColumn(names []string, asked string) int {
	i := slices.Index(names, asked)
	if n, err := strconv.Atoi(asked); i < 0 && err == nil && n >= 1 && n <= len(names) {
		return n - 1
	}
	return i
}

// add takes a row.
func (l *listFile) add(fields []string, c listColumns, line int, opts dataset.Options) error {
	cell := func(column int) string {
		if column < 0 {
			return ""
		}
		return strings.TrimSpace(fields[column])
	}
	key, err := l.key(cell(c.path))
	if err != nil {
		return l.errorf(line, "%v", err)
	}
	if line > math.MaxInt32 {
		return l.errorf(line, "more lines than can be numbered: make several lists of it")
	}
	r := listRow{key: key, line: int32(line), label: labelrule.NoLabel, cells: int64(len(l.cells))}
	if split := strings.ToLower(cell(c.split)); split != "" {
		if r.split = int8(slices.Index(ListSplits, transport.NamedSplit(split))); r.split == 0 {
			return l.errorf(line, "the split %.40q is none of train, val and test", split)
		}
	}
	if label := cell(c.label); label != "" {
		at := func(format string, args ...any) error { return l.errorf(line, format, args...) }
		if r.label, err = l.values.Add(label, at); err != nil {
			return err
		}
	} else if !opts.Test && !opts.NoLabels {
		return l.errorf(line, "no label: add one, remove the line, or take images without labels by --test")
	}
	l.rows = append(l.rows, r)
	l.addCells(fields)
	return nil
}

// key is the path of an image below the list's root.
func (l *listFile) key(file string) (string, error) {
	switch {
	case file == "":
		return "", fmt.Errorf("no %s: each line names an image", listPathColumn)
	case strings.Contains(file, "://"):
		below, is := strings.CutPrefix(file, transport.ShownPath(l.root)+"/")
		if !is {
			return "", fmt.Errorf("%.200q does not lie in %s: --images URL names the place that holds all of them", file,
				transport.ShownPath(l.root))
		}
		return transport.EntryPath(below)
	case !utf8.ValidString(file):
		return "", errors.New("the path is not UTF-8")
	}
	if filepath.IsAbs(file) {
		below, err := filepath.Rel(l.root, file)
		if err != nil || below == ".." || strings.HasPrefix(below, "../") {
			return "", fmt.Errorf("%.200q does not lie in %s: --images DIR names the folder that holds all of them", file, l.root)
		}
		file = below
	}
	key, err := transport.EntryPath(file)
	if err != nil && strings.Contains(file, "..") {
		return "", fmt.Errorf("%.200q may not lie in %s: --images DIR names the folder where paths begin, without \"..\"", file, l.root)
	}
	if err == nil && key == "" {
		err = fmt.Errorf("%.80q is a folder", file)
	}
	return strings.Clone(key), err
}

// wrap says what is wrong with the form of a line.
func (l *listFile) wrap(line int, err error) error {
	if bad, ok := errors.AsType[*csv.ParseError](err); ok {
		return l.errorf(bad.Line, "%v: put a field with the delimiter or a quotation mark in quotes, and double each mark in it", bad.Err)
	}
	if errors.Is(err, errLongLine) {
		return l.errorf(line, "%v", err)
	}
	return fmt.Errorf("%s: %w", l.path, err)
}

// errLongLine ends the reading of a hostile list.
var errLongLine = fmt.Errorf("a line of more than %d bytes, or a quote that is not closed", listLineBytesMax)

// lineLimit bounds what is read for a line.
type lineLimit struct {
	r    io.Reader
	left int
}

func (l *lineLimit) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, errLongLine
	}
	n, err := l.r.Read(p)
	l.left -= n
	return n, err
}

// readJSON reads a list with an object in each line.
func (l *listFile) readJSON(r io.Reader, opts dataset.Options) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, listLineBytesMax)
	line := 0
	l.cellType = shard.JSON
	c := listColumns{path: 0, label: 1, split: 2}
	keys := []string{listPathColumn, cmp.Or(strings.TrimPrefix(opts.Label, dataset.JSONPrefix), listLabelColumn), listSplitColumn}
	if opts.NoLabels {
		keys[c.label] = ""
	}
	for lines.Scan() {
		line++
		text := bytes.TrimSpace(lines.Bytes())
		if len(text) == 0 {
			continue
		}
		var object map[string]json.RawMessage
		if err := json.Unmarshal(text, &object); err != nil {
			return l.errorf(line, "no JSON object: %v", err)
		}
		if object[listPathColumn] == nil {
			object[listPathColumn] = object[hubPathColumn]
		}
		fields := make([]string, len(keys))
		for i, key := range keys {
			var err error
			if fields[i], err = jsonScalar(object[key]); err != nil {
				return l.errorf(line, "%q: %v", key, err)
			}
		}
		if err := l.add(fields, c, line, opts); err != nil {
			return err
		}
		if err := l.addJSONCells(text, line, opts.Fields); err != nil {
			return err
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return l.errorf(line+1, "more than %d bytes", listLineBytesMax)
	}
	return lines.Err()
}

// jsonScalar is the text of a string or number; "" of null, or of nothing.
func jsonScalar(raw json.RawMessage) (string, error) {
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return "", nil
	case raw[0] == '"':
		var s string
		err := json.Unmarshal(raw, &s)
		return s, err
	case raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9':
		return string(raw), nil
	}
	return "", fmt.Errorf("is %.40s, no string or number", raw)
}

package source

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
)

const (
	// listLineBytesMax bounds what is read of a list before a line of it ends.
	listLineBytesMax = 1 << 20
	// listHeadBytes is how much of a file tells whether it is a list.
	listHeadBytes   = 64 << 10
	listPathColumn  = "path"
	hubPathColumn   = "file_name" // as Hugging Face's imagefolder calls it
	listLabelColumn = "label"
	listSplitColumn = "split" // train, val or test
	byteOrderMark   = "\ufeff"
)

// listExtensions are what lists are called. The last is MXNet's: im2rec writes a number, a label and a path between tabs, without a header.
var listExtensions = []string{".csv", ".tsv", ".jsonl", ".ndjson", mxnetExtension}

const (
	mxnetExtension = ".lst"
	// tinyAnnotations is the list beside the folder of Tiny ImageNet's validation images: a name, a wnid and a box between tabs, without a header.
	tinyAnnotations = "val_annotations.txt"
)

// readList reads a list; nil: the file is none.
func readList(file, root string, opts Options) (*list, error) {
	if !namedList(file) && filepath.Base(file) != tinyAnnotations {
		return nil, nil
	}
	f, err := fileSystem{}.open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	l := &list{path: file, root: root, cellType: shard.Text}
	buf := bufio.NewReaderSize(f, listHeadBytes)
	head, err := buf.Peek(listHeadBytes)
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if bytes.HasPrefix(head, []byte("\xff\xfe")) || bytes.HasPrefix(head, []byte("\xfe\xff")) {
		return nil, &FormatError{Path: file, Msg: "is text in UTF-16: save it as UTF-8"}
	}
	if bytes.HasPrefix(head, []byte(byteOrderMark)) {
		buf.Discard(len(byteOrderMark))
		head = head[len(byteOrderMark):]
	}
	switch text := bytes.TrimSpace(head); {
	case bytes.HasPrefix(text, []byte("{")):
		err = l.readJSON(buf, opts)
	case bytes.HasPrefix(text, []byte("[")):
		err = &FormatError{Path: file, Msg: "holds one JSON array: write an object in each line, as jq -c '.[]' does"}
	default:
		err = l.readTable(newTable(buf, head), opts)
	}
	if err == nil && len(l.rows) == 0 {
		err = &FormatError{Path: file, Msg: "names no images"}
	}
	return l, err
}

// namedList says that a file is called as lists are.
func namedList(file string) bool {
	return slices.Contains(listExtensions, strings.ToLower(filepath.Ext(file)))
}

// listColumns is where the fields of a row stand; -1: nowhere.
type listColumns struct{ path, label, split int }

// columnNames are those in the first row, or those of a format without a header.
func (l *list) columnNames(first []string) (names []string, header bool) {
	names = make([]string, len(first))
	mxnet := strings.EqualFold(filepath.Ext(l.path), mxnetExtension)
	switch {
	case mxnet:
		names[len(names)-1] = listPathColumn
		if len(names) == 3 { // else --label says which of several
			names[1] = listLabelColumn
		}
		return names, false
	case filepath.Base(l.path) == tinyAnnotations && len(first) > 1:
		names[0], names[1] = listPathColumn, listLabelColumn
		return names, false
	}
	for i, name := range first {
		names[i] = strings.TrimSpace(name)
	}
	return names, true
}

// readTable reads a list of rows of fields.
func (l *list) readTable(t *csvTable, opts Options) error {
	var c listColumns
	for rows := 0; ; rows++ {
		fields, line, err := t.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return l.wrap(line, err)
		}
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
		if err := l.addFields(fields, c, line, opts); err != nil {
			return err
		}
	}
}

// findColumns finds the columns of a table by their names.
func (l *list) findColumns(names []string, opts Options) (c listColumns, err error) {
	c = listColumns{path: slices.Index(names, listPathColumn), label: -1, split: slices.Index(names, listSplitColumn)}
	if c.path < 0 {
		c.path = slices.Index(names, hubPathColumn)
	}
	if c.path < 0 {
		return c, &FormatError{Path: l.path, Msg: fmt.Sprintf("has no column %q (%s): the first line names the columns, as path,label", listPathColumn, someNames(names))}
	}
	if label := cmp.Or(opts.Label, listLabelColumn); !opts.NoLabels {
		c.label = findColumn(names, label)
		if c.label < 0 && (opts.Label != "" || !opts.Test) {
			return c, &FormatError{Path: l.path, Msg: fmt.Sprintf("has no column %q of labels (%s): --label COLUMN names it, or its number from 1 on; --no-labels takes the images without",
				label, someNames(names))}
		}
	}
	return c, nil
}

// findColumn is the place of a column that was asked for by its name, or by its number from 1 on; -1: there is none.
func findColumn(names []string, asked string) int {
	i := slices.Index(names, asked)
	if n, err := strconv.Atoi(asked); i < 0 && err == nil && n >= 1 && n <= len(names) {
		return n - 1
	}
	return i
}

// addFields takes a row of a table.
func (l *list) addFields(fields []string, c listColumns, line int, opts Options) error {
	label, split := "", ""
	if c.label >= 0 {
		label = fields[c.label]
	}
	if c.split >= 0 {
		split = fields[c.split]
	}
	if err := l.add(fields[c.path], label, split, line, opts); err != nil {
		return err
	}
	l.addCells(fields)
	return nil
}

// add takes a row.
func (l *list) add(file, label, split string, line int, opts Options) error {
	key, err := l.key(file)
	if err != nil {
		return l.errorf(line, "%v", err)
	}
	if line > math.MaxInt32 {
		return l.errorf(line, "more lines than can be numbered: make several lists of it")
	}
	r := listRow{key: key, line: int32(line), label: noLabel, cells: int64(len(l.cells))}
	if split = strings.ToLower(strings.TrimSpace(split)); split != "" {
		if r.split = int8(slices.Index(listSplits, namedSplit(split))); r.split == 0 {
			return l.errorf(line, "the split %.40q is none of train, val and test", split)
		}
	}
	if label = strings.TrimSpace(label); label != "" {
		if r.label, err = l.values.add(label, func(format string, args ...any) error { return l.errorf(line, format, args...) }); err != nil {
			return err
		}
	} else if !opts.Test && !opts.NoLabels {
		return l.errorf(line, "no label: add one, remove the line, or take images without labels by --test")
	}
	l.rows = append(l.rows, r)
	return nil
}

// key is the path of an image below the list's root.
func (l *list) key(file string) (string, error) {
	file = strings.TrimSpace(file)
	switch {
	case file == "":
		return "", fmt.Errorf("no %s: each line names an image", listPathColumn)
	case strings.Contains(file, "://"):
		below, is := strings.CutPrefix(file, ShownPath(l.root)+"/")
		if !is {
			return "", fmt.Errorf("%.200q does not lie in %s: --images URL names the place that holds all of them", file, ShownPath(l.root))
		}
		return entryPath(below)
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
	key, err := entryPath(file)
	if err != nil && strings.Contains(file, "..") {
		return "", fmt.Errorf("%.200q may not lie in %s: --images DIR names the folder where paths begin, without \"..\"", file, l.root)
	}
	if err == nil && key == "" {
		err = fmt.Errorf("%.80q is a folder", file)
	}
	return strings.Clone(key), err
}

// wrap says what is wrong with the form of a line.
func (l *list) wrap(line int, err error) error {
	var bad *csv.ParseError
	if errors.As(err, &bad) {
		line, err = bad.Line, bad.Err
		switch {
		case errors.Is(err, csv.ErrFieldCount):
			err = errFields
		case errors.Is(err, csv.ErrBareQuote):
			err = errors.New(`a quotation mark in a field without quotes: put the field in quotes, and two marks for the one in it`)
		case errors.Is(err, csv.ErrQuote):
			err = errors.New(`text after the quotation mark that closes a field, or none that closes it: put two marks for one in a field`)
		}
	}
	if errors.Is(err, errLongLine) || errors.Is(err, errFields) || bad != nil {
		return l.errorf(line, "%v", err)
	}
	return fmt.Errorf("%s: %w", l.path, err)
}

var (
	// errLongLine ends the reading of a hostile list.
	errLongLine = fmt.Errorf("a line of more than %d bytes, or a quote that is not closed", listLineBytesMax)
	errFields   = errors.New("another number of fields than the lines before: put what has the delimiter in it in quotes")
)

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

// csvTable reads CSV and TSV.
type csvTable struct {
	limit *lineLimit
	csv   *csv.Reader
	last  int // the line of the last row
}

// newTable tells by the first line what stands between fields: tabs, semicolons or else commas.
func newTable(r io.Reader, head []byte) *csvTable {
	line, _, _ := bytes.Cut(bytes.TrimLeft(head, "\r\n"), []byte("\n"))
	t := &csvTable{limit: &lineLimit{r, listLineBytesMax}}
	t.csv = csv.NewReader(t.limit)
	t.csv.ReuseRecord = true
	for _, delimiter := range "\t,;" {
		if bytes.ContainsRune(line, delimiter) {
			t.csv.Comma = delimiter
			break
		}
	}
	return t
}

func (t *csvTable) next() ([]string, int, error) {
	t.limit.left = listLineBytesMax
	fields, err := t.csv.Read()
	if err != nil {
		return nil, t.last + 1, err
	}
	t.last, _ = t.csv.FieldPos(0)
	return fields, t.last, nil
}

// readJSON reads a list with an object in each line.
func (l *list) readJSON(r io.Reader, opts Options) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, listLineBytesMax)
	line := 0
	l.cellType = shard.JSON
	c := listColumns{path: 0, label: 1, split: 2}
	keys := []string{listPathColumn, cmp.Or(strings.TrimPrefix(opts.Label, jsonLabelPrefix), listLabelColumn), listSplitColumn}
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
		if err := l.addFields(fields, c, line, opts); err != nil {
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

package source

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/shard"
)

const (
	// listLineBytesMax bounds what is read of a list before a line of it ends.
	listLineBytesMax = 1 << 20
	// listHeadBytes is how much of a file tells whether it is a list.
	listHeadBytes = 64 << 10
	// listSplitColumn is what a column is called that says the split of each image.
	listSplitColumn = "split"
	byteOrderMark   = "\ufeff"
)

// listExtensions are what lists are called; other files are lists if their lines look like it.
var listExtensions = []string{".csv", ".tsv", ".jsonl", ".ndjson"}

// listPathColumns and listLabelColumns are what the columns are called, the likeliest first.
var (
	listPathColumns = []string{"path", "file", "filename", "file_name", "filepath", "file_path", "image", "image_path", "image_file", "img", "img_path",
		"image_name", "img_name", "relpath", "fname", "name"}
	listLabelColumns = append(slices.Clone(labelColumns), "class_name", "label_name", "category", "class_id", "label_id", "wnid", "synset")
)

// listSyntax is how the lines of a list are read: next returns the fields of the next line that is not empty, and its number.
type listSyntax interface {
	next() (fields []string, line int, err error)
}

// readList reads a list; nil: the file is none.
func readList(file, root string, opts Options) (*list, error) {
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
	called := slices.Contains(listExtensions, strings.ToLower(filepath.Ext(file)))
	if !called && !l.looksLikeList(head, opts.Test || opts.NoLabels) {
		return nil, nil
	}
	if bytes.HasPrefix(head, []byte("\xff\xfe")) || bytes.HasPrefix(head, []byte("\xfe\xff")) {
		return nil, &FormatError{Path: file, Msg: "is text in UTF-16: save it as UTF-8"}
	}
	if bytes.HasPrefix(head, []byte(byteOrderMark)) {
		buf.Discard(len(byteOrderMark))
		head = head[len(byteOrderMark):]
	}
	if text := bytes.TrimSpace(head); len(text) > 0 && text[0] == '{' {
		err = l.readJSON(buf, opts)
	} else if len(text) > 0 && text[0] == '[' {
		return nil, &FormatError{Path: file, Msg: "holds one JSON array: write an object in each line, as jq -c '.[]' does"}
	} else {
		err = l.readTable(newTable(buf, head), opts)
	}
	if err == nil && len(l.rows) == 0 {
		err = &FormatError{Path: file, Msg: "names no images"}
	}
	return l, err
}

// looksLikeList says of a file that is not called a list that its first line has the path of an image, and a label unless there are none.
func (l *list) looksLikeList(head []byte, unlabelled bool) bool {
	line, _, _ := bytes.Cut(bytes.TrimPrefix(head, []byte(byteOrderMark)), []byte("\n"))
	if !utf8.Valid(line) || bytes.ContainsRune(line, 0) {
		return false
	}
	fields, _, err := newTable(bytes.NewReader(line), line).next()
	return err == nil && (len(fields) > 1 || unlabelled) && slices.ContainsFunc(fields, l.isImage)
}

// isImage says that a field is the path of an image, by its extension.
func (l *list) isImage(field string) bool {
	extension := path.Ext(field)
	return extension != "" && imagefile.HasExtension(strings.ToLower(extension[1:]))
}

// isFile says that a field is the path of a file that is there.
func (l *list) isFile(field string) bool {
	key, err := l.key(field)
	if err != nil {
		return false
	}
	info, err := (fileSystem{}).stat(filepath.Join(l.root, filepath.FromSlash(key)))
	return err == nil && !info.IsDir()
}

// listColumns is where the fields of a row stand; -1: nowhere.
type listColumns struct{ path, label, split int }

// readTable reads a list of rows of fields. The first two tell whether the first names the columns.
func (l *list) readTable(t listSyntax, opts Options) error {
	first, line, err := t.next()
	if err == io.EOF {
		return nil
	}
	if err != nil {
		return l.wrap(line, err)
	}
	first = slices.Clone(first)
	second, line2, err := t.next()
	if err != nil && err != io.EOF {
		return l.wrap(line2, err)
	}
	c, header, err := l.findColumns(first, second, line, opts)
	if err != nil {
		return err
	}
	if !header {
		if err := l.addFields(first, c, line, opts); err != nil {
			return err
		}
	}
	for second != nil {
		if err := l.addFields(second, c, line2, opts); err != nil {
			return err
		}
		if second, line2, err = t.next(); err == io.EOF {
			return nil
		}
		if err != nil {
			return l.wrap(line2, err)
		}
	}
	return nil
}

// findColumns finds out what the fields are, and whether the first row is a header.
func (l *list) findColumns(first, second []string, line int, opts Options) (c listColumns, header bool, err error) {
	lower := make([]string, len(first))
	for i, name := range first {
		lower[i] = strings.ToLower(strings.TrimSpace(name))
	}
	c = listColumns{path: slices.IndexFunc(first, l.isImage), split: -1}
	if c.path < 0 {
		c.path = slices.IndexFunc(first, l.isFile)
	}
	if header = c.path < 0; header {
		if c.path = indexOfAny(lower, listPathColumns); c.path < 0 || len(second) > 0 && !l.isImage(second[c.path]) && slices.ContainsFunc(second, l.isImage) {
			c.path = slices.IndexFunc(second, l.isImage)
		}
		if c.path < 0 {
			c.path = slices.IndexFunc(second, l.isFile)
		}
		c.split = slices.Index(lower, listSplitColumn)
	}
	if c.path < 0 {
		return c, header, l.errorf(line, "no column has the paths of images: call it path in a header (%s)", someNames(first))
	}
	if err := l.findFieldColumns(first, header, opts.Fields); err != nil {
		return c, header, err
	}
	if c.label, err = l.labelColumn(first, lower, c, header, opts); err != nil {
		return c, header, err
	}
	name := func(i int) string {
		if header {
			return fmt.Sprintf("column %q", strings.TrimSpace(first[i]))
		}
		return fmt.Sprintf("column %d", i+1)
	}
	l.columns = "paths are " + name(c.path)
	if c.label >= 0 {
		l.columns += ", labels " + name(c.label)
	}
	return c, header, nil
}

// labelColumn is the column of labels: the one that was asked for, the likeliest by name, or the only one that is left; -1: there is none.
func (l *list) labelColumn(first, lower []string, c listColumns, header bool, opts Options) (int, error) {
	if opts.NoLabels {
		return -1, nil
	}
	if opts.Label != "" {
		i := slices.Index(first, opts.Label)
		if n, err := strconv.Atoi(opts.Label); i < 0 && err == nil && n >= 1 && n <= len(first) {
			i = n - 1
		} else if !header {
			i = -1
		}
		if i < 0 {
			return -1, &FormatError{Path: l.path, Msg: fmt.Sprintf("--label %s: there is no such column among the %d (%s), which can be named by number too, from 1 on",
				opts.Label, len(first), someNames(first))}
		}
		return i, nil
	}
	if header {
		if i := indexOfAny(lower, listLabelColumns); i >= 0 && i != c.path {
			return i, nil
		}
	}
	var others []int
	for i := range first {
		if i != c.path && i != c.split && !slices.Contains(l.fieldColumns, i) {
			others = append(others, i)
		}
	}
	switch {
	case len(others) == 1:
		return others[0], nil
	case len(others) == 0 && opts.Test:
		return -1, nil
	case len(others) == 0:
		return -1, &FormatError{Path: l.path, Msg: "has no column of labels: add one, or take the images without labels by --no-labels"}
	}
	return -1, &FormatError{Path: l.path, Msg: fmt.Sprintf("has %d columns that may be the labels (%s): say which by --label, with its name or its number from 1 on", len(others), someNames(first))}
}

// indexOfAny is the place of the first of the names.
func indexOfAny(in, names []string) int {
	for _, name := range names {
		if i := slices.Index(in, name); i >= 0 {
			return i
		}
	}
	return -1
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
		return "", errors.New("no path")
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

// newTable tells by the first line what stands between fields: tabs, commas, semicolons or else spaces.
func newTable(r io.Reader, head []byte) listSyntax {
	line, _, _ := bytes.Cut(bytes.TrimLeft(head, "\r\n"), []byte("\n"))
	for _, delimiter := range "\t,;" {
		if bytes.ContainsRune(line, delimiter) {
			limit := &lineLimit{r, listLineBytesMax}
			c := csv.NewReader(limit)
			c.Comma, c.ReuseRecord = delimiter, true
			return &csvTable{limit: limit, csv: c}
		}
	}
	return newWordTable(r)
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

// wordTable reads lines of a path, which may have spaces, and a label, which has none.
type wordTable struct {
	lines *bufio.Scanner
	line  int
	words int // in each line
}

func newWordTable(r io.Reader) *wordTable {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, listLineBytesMax)
	return &wordTable{lines: lines}
}

func (t *wordTable) next() ([]string, int, error) {
	for t.lines.Scan() {
		t.line++
		text := strings.TrimSpace(t.lines.Text())
		if text == "" {
			continue
		}
		fields := []string{text}
		if i := strings.LastIndexByte(text, ' '); i >= 0 {
			fields = []string{text[:i], text[i+1:]}
		}
		if t.words == 0 {
			t.words = len(fields)
		} else if t.words != len(fields) {
			return nil, t.line, errFields
		}
		return fields, t.line, nil
	}
	err := t.lines.Err()
	if errors.Is(err, bufio.ErrTooLong) {
		err = errLongLine
	}
	if err == nil {
		err = io.EOF
	}
	return nil, t.line + 1, err
}

// readJSON reads a list with an object in each line.
func (l *list) readJSON(r io.Reader, opts Options) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, listLineBytesMax)
	line := 0
	l.cellType = shard.JSON
	var pathKey, labelKey string
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
		if pathKey == "" {
			var err error
			if pathKey, labelKey, err = l.jsonKeys(object, line, opts); err != nil {
				return err
			}
		}
		var fields [3]string
		for i, key := range []string{pathKey, labelKey, listSplitColumn} {
			value, err := jsonScalar(object[key])
			if err != nil {
				return l.errorf(line, "%q: %v", key, err)
			}
			fields[i] = value
		}
		if err := l.add(fields[0], fields[1], fields[2], line, opts); err != nil {
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

// jsonKeys finds the keys of the path and of the label in the first object.
func (l *list) jsonKeys(object map[string]json.RawMessage, line int, opts Options) (pathKey, labelKey string, err error) {
	var keys []string
	for key := range object {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	i := indexOfAny(keys, listPathColumns)
	if i < 0 {
		return "", "", l.errorf(line, "no key is called as a path is (%s): call it path (%s)", someNames(listPathColumns), someNames(keys))
	}
	pathKey = keys[i]
	labelKey = strings.TrimPrefix(opts.Label, jsonLabelPrefix)
	if opts.NoLabels {
		labelKey = ""
	} else if labelKey == "" {
		if i = indexOfAny(keys, listLabelColumns); i >= 0 {
			labelKey = keys[i]
		} else if !opts.Test {
			return "", "", l.errorf(line, "no key is called as a label is (%s): say which by --label, or take the images without labels by --no-labels", someNames(keys))
		}
	}
	l.columns = fmt.Sprintf("paths are key %q", pathKey)
	if labelKey != "" {
		l.columns += fmt.Sprintf(", labels key %q", labelKey)
	}
	return pathKey, labelKey, nil
}

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

	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/labelrule"
	"github.com/imgfeed/imgfeed/shard/source/remedy"
	"github.com/imgfeed/imgfeed/shard/source/targets"
	"github.com/imgfeed/imgfeed/shard/source/transport"
)

const (
	listLineBytesMax = 1 << 20 // bounds a line of a list
	listPathColumn   = "path"
	hubPathColumn    = "file_name" // Hugging Face's imagefolder has it
	listLabelColumn  = "label"
	listSplitColumn  = "split" // train, val or test
	// tinyAnnotations is the list of Tiny ImageNet's validation images: a name, a wnid and a box between tabs, without a header.
	tinyAnnotations = "val_annotations.txt"
)

func namedList(file string) bool {
	return slices.Contains([]string{".csv", ".tsv", ".jsonl", ".ndjson"}, strings.ToLower(filepath.Ext(file)))
}

func (l *listFile) read() error {
	f, err := l.Tree.Open(l.File)
	if err != nil {
		return err
	}
	defer f.Close()
	buf := transport.TextReader(f)
	head, err := buf.Peek(buf.Size()) // It tells the form of the list.
	if err != nil && err != io.EOF {
		return fmt.Errorf("%s: %w", l.File, err)
	}
	switch head := bytes.TrimSpace(head); {
	case bytes.HasPrefix(head, []byte("{")):
		return l.readJSON(buf)
	case bytes.HasPrefix(head, []byte("[")) && strings.HasSuffix(strings.ToLower(strings.TrimSuffix(l.File, "l")), "json"):
		no := transport.Refuse(l.File, "begins with a list of JSON, and an object in each line is wanted")
		if jsonForms[0].begins.Match(head) {
			no.Or(remedy.JSONObjects.Of(l.File, strings.TrimSuffix(l.File, filepath.Ext(l.File))+"-list"))
		}
		return no
	}
	line, _, _ := bytes.Cut(bytes.TrimLeft(head, "\r\n"), []byte("\n"))
	return l.readTable(buf, line)
}

// setTypes completes the types of the fields.
func (l *listFile) setTypes(t shard.FieldType) {
	for i := range l.fields {
		l.fields[i].Type = cmp.Or(l.fields[i].Type, t)
	}
}

// readTable reads a list of rows of cells. Its first line tells whether tabs, commas or semicolons stand between cells.
func (l *listFile) readTable(r io.Reader, first []byte) (err error) {
	l.setTypes(shard.Text)
	limit := &io.LimitedReader{R: r}
	table := csv.NewReader(limit)
	table.ReuseRecord = true
	for _, delimiter := range "\t,;" {
		if bytes.ContainsRune(first, delimiter) {
			table.Comma = delimiter
			break
		}
	}
	var c *listColumns
	if filepath.Base(l.File) == tinyAnnotations {
		if c, err = l.findColumns([]string{listPathColumn, listLabelColumn}); err != nil {
			return err
		}
	}
	for line := 0; ; {
		limit.N = listLineBytesMax
		cells, err := table.Read()
		bad, malformed := errors.AsType[*csv.ParseError](err)
		switch {
		case limit.N == 0:
			return l.errorf(line+1, "a line of more than %d bytes, or a quote that is not closed", listLineBytesMax)
		case err == io.EOF:
			return nil
		case malformed:
			return l.errorf(bad.Line, "%v: put a field with the delimiter or a quotation mark in quotes, and double each mark in it",
				bad.Err)
		case err != nil:
			return fmt.Errorf("%s: %w", l.File, err)
		}
		line, _ = table.FieldPos(0)
		if c == nil {
			c, err = l.findColumns(cells)
		} else {
			err = l.addCells(cells, c, line)
		}
		if err != nil {
			return err
		}
	}
}

// listColumns are the positions of a table's columns; -1 stands for a column that it lacks.
type listColumns struct {
	path, label, split int
	fields             []int
	others             map[int]string // those that the list does not use, with their names
}

var errNoColumn = fmt.Errorf("no such column: %w", errors.ErrUnsupported) // a list lacks the paths or the labels

func (l *listFile) findColumns(names []string) (*listColumns, error) {
	names = slices.Clone(names)
	for i := range names {
		names[i] = strings.TrimSpace(names[i])
	}
	c := &listColumns{path: -1, label: -1, split: slices.Index(names, listSplitColumn), others: make(map[int]string)}
	if asked := l.opts.Path; asked != "" {
		c.path = findColumn(names, asked)
	} else {
		c.path = slices.IndexFunc(names, func(name string) bool { return name == listPathColumn || name == hubPathColumn })
	}
	if c.path < 0 {
		no := transport.Refuse(l.File, "has no column %q (%s): the first line names the columns in UTF-8, as path,label",
			cmp.Or(l.opts.Path, listPathColumn), transport.SomeNames(names)).Because(errNoColumn)
		if len(names) == 2 && transport.ImageExtension(names[0]) {
			return c, no.Or(remedy.Header.Of(l.File, strings.TrimSuffix(l.File, filepath.Ext(l.File))))
		}
		return c, no.Or(remedy.Path)
	}
	if label := cmp.Or(l.opts.Label, listLabelColumn); !l.opts.NoLabels {
		c.label = findColumn(names, label)
		if c.label < 0 && (l.opts.Label != "" || !l.opts.Test) {
			return c, transport.Refuse(l.File, "has no column %q of labels (%s), which can be named by number too, from 1 on", label,
				transport.SomeNames(names)).Or(remedy.Label, remedy.NoLabels).Because(errNoColumn)
		}
	}
	for i := range l.fields {
		column := findColumn(names, l.fields[i].Source)
		if column < 0 {
			return c, transport.Refuse(l.File, "%v", l.fields[i].Errorf("there is no column %q among the %d (%s), "+
				"which can be named by number too, from 1 on", l.fields[i].Source, len(names), transport.SomeNames(names)))
		}
		c.fields = append(c.fields, column)
	}
	for i, name := range names {
		switch used := i == c.path || i == c.label || i == c.split; {
		case !used:
			c.others[i] = name
		case slices.Contains(names[i+1:], name):
			return c, transport.Refuse(l.File, "has several columns called %q: give each a name of its own", name)
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

func (l *listFile) addCells(cells []string, c *listColumns, line int) (err error) {
	for i, column := range c.fields {
		if l.row, err = l.fields[i].AppendText(l.row, cells[column]); err != nil {
			return l.errorf(line, "%v", err)
		}
	}
	for column, name := range c.others {
		l.noteSplit(name, cells[column])
	}
	cell := func(column int) string {
		if column < 0 {
			return ""
		}
		return strings.TrimSpace(cells[column])
	}
	return l.add(cell(c.path), cell(c.label), cell(c.split), line)
}

// readJSON reads a list with an object in each line.
func (l *listFile) readJSON(r io.Reader) error {
	l.setTypes(shard.JSON)
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, listLineBytesMax)
	line := 0
	for lines.Scan() {
		line++
		if text := bytes.TrimSpace(lines.Bytes()); len(text) > 0 {
			if err := l.addObject(text, line); err != nil {
				return err
			}
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return l.errorf(line+1, "more than %d bytes", listLineBytesMax)
	}
	return lines.Err()
}

var errNull = errors.New("it is null")

func (l *listFile) addObject(text []byte, line int) error {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(text, &object); err != nil || object == nil {
		return l.errorf(line, "not a JSON object: %v", cmp.Or(err, errNull))
	}
	if l.opts.Path != "" {
		object[listPathColumn], _ = dataset.JSONAt(text, l.opts.Path)
	} else if object[listPathColumn] == nil {
		object[listPathColumn] = object[hubPathColumn]
	}
	label := cmp.Or(strings.TrimPrefix(l.opts.Label, dataset.JSONPrefix), listLabelColumn)
	for key, raw := range object {
		if key != label && key != listSplitColumn && len(raw) > 0 && raw[0] == '"' {
			l.noteSplit(key, strings.Trim(string(raw), `"`))
		}
	}
	if l.opts.NoLabels {
		label = ""
	}
	var cells [3]string
	for i, key := range []string{listPathColumn, label, listSplitColumn} {
		var err error
		if cells[i], err = jsonScalar(object[key]); err != nil {
			return l.errorf(line, "%q: %v", key, err)
		}
	}
	for i := range l.fields {
		f := &l.fields[i]
		value, err := dataset.JSONAt(text, strings.TrimPrefix(f.Source, dataset.JSONPrefix))
		if err != nil {
			err = f.Errorf("%v", err)
		} else {
			l.row, err = f.AppendJSON(l.row, value)
		}
		if err != nil {
			return l.errorf(line, "%v", err)
		}
	}
	if raw := object[targets.RecordsName]; raw != nil && !l.opts.NoLabels && l.opts.Targets.Takes(shard.Objects, true, false) {
		key, err := l.key(cells[0], line)
		if err != nil {
			return err
		}
		l.objects[key] = raw
	}
	return l.add(cells[0], cells[1], cells[2], line)
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
	return "", fmt.Errorf("is %.40s, not a string or number", raw)
}

// add takes a row with the fields in l.row.
func (l *listFile) add(file, label, split string, line int) error {
	key, err := l.key(file, line)
	if err != nil {
		return err
	}
	if line > math.MaxInt32 {
		return l.errorf(line, "more lines than can be numbered: make several lists of it")
	}
	r := listRow{key: key, line: int32(line), label: labelrule.NoLabel, fields: int64(len(l.encoded))}
	if first, _, _ := strings.Cut(key, "/"); split == "" {
		split = l.Folders[first]
	}
	if split != "" {
		if r.split = int8(slices.Index(listSplits, transport.NamedSplit(split))); r.split == 0 {
			return l.errorf(line, "the split %.40q is none of train, val and test", split)
		}
	}
	if label != "" {
		at := func(format string, args ...any) *transport.FormatError { return l.errorf(line, format, args...) }
		if r.label, err = l.values.Add(label, at); err != nil {
			return err
		}
	} else if !l.opts.Test && !l.opts.NoLabels && len(l.objects) == 0 {
		no := l.errorf(line, "no label: add one, or remove the line").Or(remedy.Unlabelled)
		if len(l.rows) == 0 { // JSON lines have no header
			no.Err = errNoColumn
		}
		return no
	}
	if len(l.fields) > 0 {
		l.encoded, l.row = shard.AppendBytes(l.encoded, l.row), l.row[:0]
	}
	l.rows = append(l.rows, r)
	return nil
}

// key is the path of an image below the list's root. A path that begins with a slash lies below the root that the options name.
func (l *listFile) key(file string, line int) (string, error) {
	root := transport.ShownPath(l.Root)
	below, inside := strings.CutPrefix(file, strings.TrimSuffix(root, "/")+"/")
	switch {
	case file == "":
		return "", l.errorf(line, "no %s: each line names an image", cmp.Or(l.opts.Path, listPathColumn)).Because(errNoColumn).Or(
			remedy.Path)
	case inside:
		file = below
	case strings.Contains(file, "://"):
		return "", l.errorf(line, "%.200q does not lie in %s", file, root).Or(remedy.Images)
	case filepath.IsAbs(file):
		if l.absoluteAt == 0 {
			l.absoluteAt, l.absolute = line, [2]string{file, file}
		}
		l.absolute[1] = transport.CommonPrefix([]string{l.absolute[1], file})
		file = strings.TrimLeft(file, "/")
	}
	key, err := transport.EntryPath(file)
	if err != nil {
		return "", l.errorf(line, "%.200q is a %v", file, err).Or(remedy.Images)
	}
	if key == "" {
		return "", l.errorf(line, "%.80q is a folder", file)
	}
	return strings.Clone(key), nil
}

// checkPaths refuses paths that begin with a slash, unless the options say where they begin.
func (l *listFile) checkPaths() error {
	first, way := l.absolute[0], remedy.Images
	if first == "" || l.opts.Images != "" {
		return nil
	}
	if _, err := l.Tree.Stat(filepath.Join(l.Root, first)); err == nil {
		way = way.With("DIR", l.Root)
	} else if _, err := l.Tree.Stat(first); err == nil {
		way = way.With("DIR", filepath.Dir(l.absolute[1]))
	}
	return l.errorf(l.absoluteAt, "%.200q does not lie in %s", first, transport.ShownPath(l.Root)).Or(way)
}

package source

import (
	"encoding/binary"
	"strings"

	"github.com/imgfeed/imgfeed/shard"
)

// findFieldColumns finds the columns of the fields that are asked for.
func (l *list) findFieldColumns(names []string, fields []Field) error {
	for i := range fields {
		f := &fields[i]
		column := findColumn(names, f.Source)
		if column < 0 {
			return refuse(l.path, "%v", f.errorf("there is no column %q among the %d (%s), which can be named by number too, from 1 on",
				f.Source, len(names), someNames(names)))
		}
		l.fieldColumns = append(l.fieldColumns, column)
	}
	return nil
}

// addCells keeps the cells of the last row that fields are made of, each behind its length.
func (l *list) addCells(row []string) {
	for _, column := range l.fieldColumns {
		l.cells = shard.AppendBytes(l.cells, []byte(row[column]))
	}
}

// addJSONCells does so of a list of JSON objects, whose values stay as they are written.
func (l *list) addJSONCells(object []byte, line int, fields []Field) error {
	for i := range fields {
		value, err := jsonAt(object, strings.TrimPrefix(fields[i].Source, jsonLabelPrefix))
		if err != nil {
			return l.errorf(line, "%v", fields[i].errorf("%v", err))
		}
		l.cells = shard.AppendBytes(l.cells, value)
	}
	return nil
}

// bindFields completes the types: a cell is text, and the value of a key JSON, unless told.
func (l *listSplit) bindFields(fields []Field) error {
	l.fields = fields
	for i := range fields {
		if fields[i].Type == "" {
			fields[i].Type = l.cellType
		}
	}
	return nil
}

// appendFields appends the values for an image.
func (l *listSplit) appendFields(dst []byte, key string) ([]byte, error) {
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
			dst, err = l.fields[i].appendJSON(dst, cell)
		} else {
			dst, err = l.fields[i].appendText(dst, string(cell))
		}
		if err != nil {
			return dst, l.errorf(int(r.line), "%v", err)
		}
	}
	return dst, nil
}

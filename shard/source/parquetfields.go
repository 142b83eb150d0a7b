package source

import (
	"encoding/json"
	"io"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/imgfeed/imgfeed/shard"
)

// parquetColumn is the column of a field.
type parquetColumn struct {
	*Field
	leaf int
	list bool // a row has any number of values
}

// bindFields completes the types of the fields by the schema of the first file.
func (l *parquetSplit) bindFields(fields []Field) error {
	f, err := openParquet(l.paths[0], l.opts)
	if err != nil {
		return err
	}
	defer f.Close()
	l.fields = fields
	return f.bindFields(l.paths[0], fields)
}

// bindFields finds the columns of fields, and sets the types that are not given.
func (f *parquetFile) bindFields(name string, fields []Field) error {
	f.fields = make([]parquetColumn, len(fields))
	for i := range fields {
		c := &f.fields[i]
		c.Field = &fields[i]
		var err error
		if c.leaf, err = f.fieldLeaf(c.Field); err != nil {
			return refuse(name, "%v", err)
		}
		found, _ := f.Schema().Lookup(f.Schema().Columns()[c.leaf]...)
		if c.list = found.MaxRepetitionLevel > 0; found.MaxRepetitionLevel > 1 {
			return refuse(name, "%v", c.errorf("the column %q has lists of lists", c.Source))
		}
		if logical[*format.DecimalType](found) {
			return refuse(name, "%v", c.errorf("the column %q has decimals: write them as doubles", c.Source))
		}
		if c.Type != "" {
			continue
		}
		if c.list {
			return refuse(name, "%v", c.errorf("the column %q has lists: --field %s=%s:TYPE needs a type such as float32[40], multihot[N] or json", c.Source, c.Name, c.Source))
		}
		c.Type = parquetFieldType(found.Node.Type())
	}
	return nil
}

// fieldLeaf finds the column of a field: that of this name, or the one with the elements of a list of this name.
func (f *parquetFile) fieldLeaf(field *Field) (int, error) {
	var below []string
	leaf := -1
	for i, column := range f.Schema().Columns() {
		switch name := strings.Join(column, "."); {
		case name == field.Source:
			return i, nil
		case strings.HasPrefix(name, field.Source+"."):
			below, leaf = append(below, name), i
		}
	}
	if len(below) == 1 {
		return leaf, nil
	}
	if len(below) > 1 {
		return -1, field.errorf("the column %q has several parts: name one (%s)", field.Source, someNames(below))
	}
	var columns []string
	for _, c := range f.Schema().Fields() {
		columns = append(columns, c.Name())
	}
	return -1, field.errorf("has no column %q: there are %s", field.Source, strings.Join(columns, ", "))
}

// parquetFieldType is what a field of a column's type is, unless told.
func parquetFieldType(t parquet.Type) shard.FieldType {
	switch t.Kind() {
	case parquet.Boolean, parquet.Int32, parquet.Int64:
		return shard.Int64
	case parquet.Float, parquet.Double:
		return shard.Float32
	}
	if logical := t.LogicalType(); logical != nil {
		switch logical.Value.(type) {
		case *format.StringType, *format.EnumType:
			return shard.Text
		case *format.JsonType:
			return shard.JSON
		}
	}
	return shard.Bytes
}

// fieldCursors go through the columns of the fields in a row group.
type fieldCursors struct {
	columns []parquetColumn
	cursors []*parquetCursor
	row     []parquet.Value
	values  []byte
}

func (f *parquetFile) newFieldCursors(group parquet.RowGroup) *fieldCursors {
	c := &fieldCursors{columns: f.fields}
	for i := range c.columns {
		c.cursors = append(c.cursors, newParquetCursor(group, c.columns[i].leaf))
	}
	return c
}

func (c *fieldCursors) close() {
	for _, cursor := range c.cursors {
		cursor.close()
	}
}

// next returns the values of the next row, which are valid until the one after.
func (c *fieldCursors) next() ([]byte, error) {
	c.values = c.values[:0]
	var wrong error
	for i, cursor := range c.cursors {
		column := &c.columns[i]
		v, err := cursor.next()
		if err != nil {
			return nil, err
		}
		c.row = c.row[:0]
		if !column.list || !v.IsNull() { // an empty list is one null
			c.row = append(c.row, v.Clone())
		}
		for column.list {
			more, err := cursor.peek()
			if err == io.EOF || err == nil && more.RepetitionLevel() == 0 {
				break
			}
			if err != nil {
				return nil, err
			}
			c.row = append(c.row, more.Clone())
			cursor.at++
		}
		if c.values, err = column.appendParquet(c.values, c.row); err != nil && wrong == nil {
			wrong = &fieldError{err}
		}
	}
	return c.values, wrong
}

// fieldError says that a row can be read, and that a field's value is none.
type fieldError struct{ error }

// appendParquet appends the value that a row has.
func (c *parquetColumn) appendParquet(dst []byte, row []parquet.Value) ([]byte, error) {
	for _, v := range row {
		if v.IsNull() {
			return dst, c.errorf("is null in the column %q, and every sample has a value of every field", c.Source)
		}
	}
	switch {
	case c.Numeric():
		w := c.begin(dst)
		for _, v := range row {
			if err := w.add(parquetScalar(v)); err != nil {
				return dst, err
			}
		}
		return w.end()
	case c.list && c.Type != shard.JSON:
		return dst, c.errorf("the column %q has lists, and %s is wanted", c.Source, c.want())
	case c.list:
		values := make([]any, len(row))
		for i, v := range row {
			values[i] = parquetScalar(v)
		}
		text, err := json.Marshal(values)
		if err != nil { // NaN
			return dst, c.errorf("%v", err)
		}
		return shard.AppendBytes(dst, text), nil
	case row[0].Kind() != parquet.ByteArray && row[0].Kind() != parquet.FixedLenByteArray:
		return c.appendText(dst, row[0].String()) // of a number
	case c.Type == shard.Bytes:
		return shard.AppendBytes(dst, row[0].ByteArray()), nil
	}
	return c.appendText(dst, string(row[0].ByteArray()))
}

package table

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/transport"
)

// hubFeature is the schema's description of a column: {"info": {"features": {"label": {"_type": "ClassLabel", "names": […]}}}}.
type hubFeature struct {
	Type  string          `json:"_type"`
	Names json.RawMessage `json:"names"`
}

// hubFeatures reads the descriptions and skips malformed ones.
func hubFeatures(f *parquet.File) map[string]hubFeature {
	text, _ := f.Lookup("huggingface")
	var meta struct {
		Info struct {
			Features map[string]json.RawMessage `json:"features"`
		} `json:"info"`
	}
	if json.Unmarshal([]byte(text), &meta) != nil {
		return nil
	}
	features := make(map[string]hubFeature)
	for name, raw := range meta.Info.Features {
		var one hubFeature
		if json.Unmarshal(raw, &one) == nil { // a list of features is skipped
			features[name] = one
		}
	}
	return features
}

// imageColumns and labelColumns are the usual names of columns without metadata, the likeliest first.
var (
	imageColumns = []string{"image", "img", "jpg", "jpeg", "png", "webp", "pixel_values"}
	labelColumns = []string{"label", "labels", "cls", "target", "class"}
)

// findColumns finds the columns of the images and of the labels.
func (f *parquetFile) findColumns(name string, opts dataset.Options) error {
	features := hubFeatures(f.File)
	var columns []string
	for _, field := range f.Schema().Fields() {
		columns = append(columns, field.Name())
	}
	image, err := pickColumn(columns, imageColumns, features, "Image", "")
	if err != nil {
		return transport.Refuse(name, "%v", err)
	}
	f.imagePath = -1
	leaf, ok := f.leaf(image, "bytes")
	if ok && f.kind(leaf) == parquet.ByteArray {
		if p, ok := f.leaf(image, "path"); ok && f.kind(p) == parquet.ByteArray {
			f.imagePath = p
		}
	} else if leaf, ok = f.leaf(image); !ok || f.kind(leaf) != parquet.ByteArray {
		return transport.Refuse(name, "the column %q holds no image files: wanted are bytes, or a struct with bytes in it", image)
	} else if found, _ := f.Schema().Lookup(image); logical[*format.StringType](found) {
		return transport.Refuse(name, "the column %q holds text and no image files: "+
			"write it as a CSV with the columns path,label if these are paths", image)
	}
	f.image, f.label = leaf, -1
	if opts.NoLabels {
		return nil
	}
	label, err := pickColumn(columns, labelColumns, features, "ClassLabel", opts.Label)
	if err != nil {
		return transport.Refuse(name, "%v: name that of the labels by --label, or take the images without labels by --no-labels", err)
	}
	if found, _ := f.Schema().Lookup(label); logical[*format.DecimalType](found) {
		return transport.Refuse(name, "the column %q of the labels has decimals: write it as int64", label)
	}
	if f.label, ok = f.leaf(label); !ok || label == image {
		return transport.Refuse(name, "the column %q has no label in each row: --label COLUMN names another (%s)", label,
			strings.Join(columns, ", "))
	}
	var names []string
	if json.Unmarshal(features[label].Names, &names) == nil {
		f.classes = names
	}
	index := dataset.ClassIndex(f.classes)
	for i, c := range f.classes {
		if reason := transport.NameReason(c); reason != "" || index[c] != int32(i) {
			return transport.Refuse(name, "the class name %.60q of the schema is none, or occurs twice", c)
		}
	}
	return nil
}

// checkLabels refuses a file if its labels mean something else than the first file's.
func (f *parquetFile) checkLabels(name string, first *parquetFile, firstName string) error {
	at := 0
	for at < min(len(f.classes), len(first.classes)) && f.classes[at] == first.classes[at] {
		at++
	}
	switch {
	case max(len(f.classes), len(first.classes)) > at:
		return transport.Refuse(name, "from label %d on its schema names the classes %s, and that of %s names %s: "+
			"write the files again with one list of names",
			at, cmp.Or(transport.SomeNames(f.classes[at:]), "(none)"), firstName, cmp.Or(transport.SomeNames(first.classes[at:]), "(none)"))
	case f.textLabels() != first.textLabels():
		return transport.Refuse(name, "its labels and those of %s are not both names or both numbers: write the files again with one type",
			firstName)
	}
	return nil
}

func (f *parquetFile) textLabels() bool { return f.label >= 0 && f.kind(f.label) == parquet.ByteArray }

// logical says that a column is one of values of the type.
func logical[T any](column parquet.LeafColumn) bool {
	if column.Node == nil || !column.Node.Leaf() || column.Node.Type().LogicalType() == nil {
		return false
	}
	_, is := column.Node.Type().LogicalType().Value.(T)
	return is
}

// kind is the type of a column.
func (f *parquetFile) kind(column int) parquet.Kind {
	l, _ := f.Schema().Lookup(f.Schema().Columns()[column]...)
	return l.Node.Type().Kind()
}

// leaf returns the index of a column with one value a row, text or a number.
func (f *parquetFile) leaf(path ...string) (int, bool) {
	l, ok := f.Schema().Lookup(path...)
	if !ok || l.MaxRepetitionLevel > 0 || l.Node == nil || !l.Node.Leaf() {
		return -1, false
	}
	kind := l.Node.Type().Kind()
	return int(l.ColumnIndex), kind != parquet.Int96 && kind != parquet.FixedLenByteArray
}

// pickColumn returns the column that the options name, or the only one of the feature's type, or the likeliest by name.
func pickColumn(columns, likely []string, features map[string]hubFeature, feature, asked string) (string, error) {
	if asked != "" {
		if !slices.Contains(columns, asked) {
			return "", fmt.Errorf("has no column %q: there are %s", asked, strings.Join(columns, ", "))
		}
		return asked, nil
	}
	var typed []string
	for _, c := range slices.Sorted(maps.Keys(features)) {
		if features[c].Type == feature && slices.Contains(columns, c) {
			typed = append(typed, c)
		}
	}
	if len(typed) == 1 {
		return typed[0], nil
	}
	for _, c := range likely {
		if slices.Contains(columns, c) && (len(typed) == 0 || slices.Contains(typed, c)) {
			return c, nil
		}
	}
	if len(typed) > 1 {
		return "", fmt.Errorf("has several columns of the type %s (%s)", feature, strings.Join(typed, ", "))
	}
	return "", fmt.Errorf("has no column that is known to be of the type %s (%s)", feature, strings.Join(columns, ", "))
}

// parquetColumn is the column of a field.
type parquetColumn struct {
	*dataset.Field
	leaf int
	list bool // a row has any number of values
}

// BindFields completes the types of the fields by the schema of the first file.
func (l *Parquet) BindFields(fields []dataset.Field) error {
	f, err := openParquet(l.paths[0], l.opts)
	if err != nil {
		return err
	}
	defer f.Close()
	l.fields = fields
	return f.bindFields(l.paths[0], fields)
}

// bindFields finds the columns of fields, and sets missing types.
func (f *parquetFile) bindFields(name string, fields []dataset.Field) error {
	f.fields = make([]parquetColumn, len(fields))
	for i := range fields {
		c := &f.fields[i]
		c.Field = &fields[i]
		var err error
		if c.leaf, err = f.fieldLeaf(c.Field); err != nil {
			return transport.Refuse(name, "%v", err)
		}
		found, _ := f.Schema().Lookup(f.Schema().Columns()[c.leaf]...)
		if c.list = found.MaxRepetitionLevel > 0; found.MaxRepetitionLevel > 1 {
			return transport.Refuse(name, "%v", c.Errorf("the column %q has lists of lists", c.Source))
		}
		if logical[*format.DecimalType](found) {
			return transport.Refuse(name, "%v", c.Errorf("the column %q has decimals: write them as doubles", c.Source))
		}
		if c.Type != "" {
			continue
		}
		if c.list {
			return transport.Refuse(name, "%v", c.Errorf("the column %q has lists: --field %s=%s:TYPE needs a type such as float32[40], "+
				"multihot[N] or json", c.Source, c.Name, c.Source))
		}
		c.Type = parquetFieldType(found.Node.Type())
	}
	return nil
}

// fieldLeaf finds the column of a field: that of this name, or the one with the elements of a list of this name.
func (f *parquetFile) fieldLeaf(field *dataset.Field) (int, error) {
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
		return -1, field.Errorf("the column %q has several parts: name one (%s)", field.Source, transport.SomeNames(below))
	}
	var columns []string
	for _, c := range f.Schema().Fields() {
		columns = append(columns, c.Name())
	}
	return -1, field.Errorf("has no column %q: there are %s", field.Source, strings.Join(columns, ", "))
}

// parquetFieldType is the default type of a field from a column's type.
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

// appendParquet appends the value that a row has.
func (c *parquetColumn) appendParquet(dst []byte, row []parquet.Value) ([]byte, error) {
	for _, v := range row {
		if v.IsNull() {
			return dst, c.Errorf("is null in the column %q, and every sample has a value of every field", c.Source)
		}
	}
	switch {
	case c.Numeric():
		w := c.Begin(dst)
		for _, v := range row {
			if err := w.Add(parquetScalar(v)); err != nil {
				return dst, err
			}
		}
		return w.End()
	case c.list && c.Type != shard.JSON:
		return dst, c.Errorf("the column %q has lists, and %s is wanted", c.Source, c.Want())
	case c.list:
		values := make([]any, len(row))
		for i, v := range row {
			values[i] = parquetScalar(v)
		}
		text, err := json.Marshal(values)
		if err != nil { // NaN
			return dst, c.Errorf("%v", err)
		}
		return shard.AppendBytes(dst, text), nil
	case row[0].Kind() != parquet.ByteArray && row[0].Kind() != parquet.FixedLenByteArray:
		return c.AppendText(dst, row[0].String()) // the text of a number
	case c.Type == shard.Bytes:
		return shard.AppendBytes(dst, row[0].ByteArray()), nil
	}
	return c.AppendText(dst, string(row[0].ByteArray()))
}

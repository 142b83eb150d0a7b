package source

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/remedy"
	"github.com/imgfeed/imgfeed/shard/source/targets"
	"github.com/imgfeed/imgfeed/shard/source/transport"
)

// hubFeatures are the schema's descriptions of columns: {"info": {"features": {"label": {"_type": "ClassLabel", "names": […]}}}}.
type hubFeatures map[string]json.RawMessage

type hubFeature struct {
	Type  string   `json:"_type"`
	Names []string `json:"names"`
}

func readHubFeatures(f *parquet.File) hubFeatures {
	text, _ := f.Lookup("huggingface")
	var meta struct {
		Info struct {
			Features hubFeatures `json:"features"`
		} `json:"info"`
	}
	if json.Unmarshal([]byte(text), &meta) != nil {
		return nil
	}
	return meta.Info.Features
}

// of is the description of a column; that of a list of columns, or a malformed one, is empty.
func (h hubFeatures) of(column string) (one hubFeature) {
	if json.Unmarshal(h[column], &one) != nil {
		return hubFeature{}
	}
	return one
}

// imageColumns and labelColumns are the usual names of columns without metadata, the likeliest first.
var (
	imageColumns = []string{"image", "img", "jpg", "jpeg", "png", "webp", "pixel_values"}
	labelColumns = []string{"label", "labels", "cls", "target", "class"}
)

// findColumns finds the columns of the images and of the labels.
func (f *parquetFile) findColumns(name string, opts dataset.Options) error {
	features := readHubFeatures(f.File)
	var columns []string
	for _, field := range f.Schema().Fields() {
		columns = append(columns, field.Name())
	}
	image, err := pickColumn(columns, imageColumns, features, "Image")
	if err != nil {
		return transport.Refuse(name, "%v", err)
	}
	bytes, ok := f.column(image, "bytes")
	if !ok {
		bytes, ok = f.column(image)
	}
	if !ok || bytes.Node.Type().Kind() != parquet.ByteArray || hasLogical[*format.StringType](bytes) {
		return transport.Refuse(name, "the column %q holds no image files, as bytes or as a struct with bytes in it: "+
			"if these are paths, write a CSV with the columns path,label", image)
	}
	f.image, f.imagePath, f.label = bytes.ColumnIndex, -1, -1
	if path, ok := f.column(image, "path"); ok && path.Node.Type().Kind() == parquet.ByteArray {
		f.imagePath = path.ColumnIndex
	}
	if opts.NoLabels {
		return nil
	}
	f.objects, f.hasObjects = f.findObjects(opts, features)
	label := opts.Label
	if label == "" {
		if label, err = pickColumn(columns, labelColumns, features, "ClassLabel"); err != nil && f.hasObjects {
			return nil // The objects have labels.
		} else if err != nil {
			return transport.Refuse(name, "%v", err).Or(remedy.Label, remedy.NoLabels)
		}
	}
	found, ok := f.column(label)
	if !ok || label == image {
		return transport.Refuse(name, "has no column %q with a number or a text for label in each row (%s)",
			label, strings.Join(columns, ", ")).Or(remedy.Label, remedy.NoLabels)
	}
	f.label, f.named = found.ColumnIndex, found.Node.Type().Kind() == parquet.ByteArray
	f.classes = features.of(label).Names
	index := dataset.ClassIndex(f.classes)
	for i, c := range f.classes {
		if reason := transport.NameReason(c); reason != "" || index[c] != int32(i) {
			return transport.Refuse(name, "the class name %.60q of the schema is invalid or occurs twice", c)
		}
	}
	return nil
}

// checkLabels refuses a file if its labels mean something else than the first file's.
func (f *parquetFile) checkLabels(name string, first *parquetFile, firstName string) error {
	switch {
	case !slices.Equal(f.classes, first.classes):
		return transport.Refuse(name, "its schema names the classes %s, and that of %s others, in number or order: "+
			"write the files again with one list of names", cmp.Or(transport.SomeNames(f.classes), "(none)"), firstName)
	case f.named != first.named:
		return transport.Refuse(name, "its labels and those of %s are not both names or both numbers: write the files again with one type",
			firstName)
	}
	return nil
}

// hasLogical says that a column's values are of a logical type.
func hasLogical[T any](column parquet.LeafColumn) bool {
	t := column.Node.Type().LogicalType()
	if t == nil {
		return false
	}
	_, is := t.Value.(T)
	return is
}

// column finds a column with one value a row, text or a number.
func (f *parquetFile) column(path ...string) (parquet.LeafColumn, bool) {
	l, ok := f.Schema().Lookup(path...)
	if !ok || l.MaxRepetitionLevel > 0 || !l.Node.Leaf() {
		return l, false
	}
	kind := l.Node.Type().Kind()
	return l, kind != parquet.Int96 && kind != parquet.FixedLenByteArray && !hasLogical[*format.DecimalType](l)
}

// pickColumn returns the only column of the feature's type, or the likeliest by name.
func pickColumn(columns, likely []string, features hubFeatures, feature string) (string, error) {
	typed := slices.DeleteFunc(slices.Clone(columns), func(c string) bool { return features.of(c).Type != feature })
	if len(typed) == 1 {
		return typed[0], nil
	}
	for _, c := range likely {
		if slices.Contains(columns, c) && (len(typed) == 0 || slices.Contains(typed, c)) {
			return c, nil
		}
	}
	return "", fmt.Errorf("has no column, or several, of the type %s (%s)", feature, strings.Join(columns, ", "))
}

type parquetColumn struct {
	*dataset.Field
	leaf int
	list bool // a row has any number of values
}

// BindFields completes the types of the fields by the schema of the first file.
func (l *parquetLayout) BindFields(fields []dataset.Field) error {
	l.fields = fields
	return l.first.bindFields(l.paths[0], fields)
}

// bindFields finds the columns of fields, and sets missing types.
func (f *parquetFile) bindFields(name string, fields []dataset.Field) error {
	f.fields = make([]parquetColumn, len(fields))
	for i := range fields {
		c := &f.fields[i]
		c.Field = &fields[i]
		column, err := f.fieldColumn(c.Field)
		switch list := column.MaxRepetitionLevel; {
		case err != nil:
		case list > 1:
			err = c.Errorf("the column %q has lists of lists", c.Source)
		case hasLogical[*format.DecimalType](column):
			err = c.Errorf("the column %q has decimals: write them as doubles", c.Source)
		case c.Type == "" && list > 0:
			return transport.Refuse(name, "%v", c.Errorf("the column %q has lists, which need a type such as float32[40], "+
				"multihot[N] or json", c.Source)).Or(remedy.FieldType.With("NAME", c.Name).With("SOURCE", c.Source))
		case c.Type == "":
			c.Type = parquetFieldType(column)
		}
		if err != nil {
			return transport.Refuse(name, "%v", err)
		}
		c.leaf, c.list = column.ColumnIndex, column.MaxRepetitionLevel > 0
	}
	return nil
}

// fieldColumn finds the column of a field: that of this name, or the one with the elements of a list of this name.
func (f *parquetFile) fieldColumn(field *dataset.Field) (parquet.LeafColumn, error) {
	var names, below, path []string
	for _, column := range f.Schema().Columns() {
		name := strings.Join(column, ".")
		if names = append(names, name); name == field.Source || strings.HasPrefix(name, field.Source+".") {
			below, path = append(below, name), column
		}
	}
	if len(below) == 1 {
		column, _ := f.Schema().Lookup(path...)
		return column, nil
	}
	if len(below) > 1 {
		names = below
	}
	return parquet.LeafColumn{}, field.Errorf("there is no single column %q: name one (%s)", field.Source, transport.SomeNames(names))
}

// parquetFieldType is the default type of a field from a column's type.
func parquetFieldType(column parquet.LeafColumn) shard.FieldType {
	switch column.Node.Type().Kind() {
	case parquet.Boolean, parquet.Int32, parquet.Int64:
		return shard.Int64
	case parquet.Float, parquet.Double:
		return shard.Float32
	}
	switch {
	case hasLogical[*format.StringType](column), hasLogical[*format.EnumType](column):
		return shard.Text
	case hasLogical[*format.JsonType](column):
		return shard.JSON
	}
	return shard.Bytes
}

func (c *parquetColumn) appendParquet(dst []byte, row []parquet.Value) ([]byte, error) {
	switch {
	case slices.ContainsFunc(row, parquet.Value.IsNull):
		return dst, c.Errorf("is null in the column %q, and every sample has a value of every field", c.Source)
	case c.Numeric() && (c.Size > 0 || !c.list):
		texts := make([]string, len(row))
		for i, v := range row {
			switch number := parquetScalar(v).(type) {
			case string:
				return dst, c.Errorf("the column %q has no numbers, and %s is wanted", c.Source, c.Want())
			case float32:
				texts[i] = fmt.Sprint(float64(number)) // prints all of its digits
			default:
				texts[i] = fmt.Sprint(number)
			}
		}
		return c.AppendText(dst, strings.Join(texts, " "))
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

const imageIDColumn = "image_id"

// objectColumns are the columns of objects in a parquet file; -1 where the file lacks one. Both layouts, a struct of lists and a list of
// structs, have their values one after the other: four numbers of boxes for each category.
type objectColumns struct {
	box, category, area, crowd, id int
	classes                        []string
}

// findObjects finds the columns of objects. ok is false if there are none, or if the options leave them out.
func (f *parquetFile) findObjects(opts dataset.Options, features hubFeatures) (c objectColumns, ok bool) {
	c = objectColumns{-1, -1, -1, -1, -1, nil}
	if opts.NoLabels || !opts.Targets.Takes(shard.Objects, true, false) {
		return c, false
	}
	for _, path := range f.Schema().Columns() {
		leaf, _ := f.Schema().Lookup(path...)
		kind := leaf.Node.Type().Kind()
		number := kind != parquet.ByteArray && kind != parquet.FixedLenByteArray && kind != parquet.Int96
		if len(path) == 1 && path[0] == imageIDColumn && (kind == parquet.Int32 || kind == parquet.Int64) {
			c.id = leaf.ColumnIndex
		}
		if path[0] != targets.RecordsName || leaf.MaxRepetitionLevel == 0 {
			continue
		}
		of := func(keys []string) bool {
			return slices.ContainsFunc(path[1:], func(part string) bool { return slices.Contains(keys, part) })
		}
		switch {
		case of(targets.BoxKeys) && number && leaf.MaxRepetitionLevel == 2:
			c.box = leaf.ColumnIndex
		case of(targets.CategoryKeys) && (number || kind == parquet.ByteArray) && c.category < 0:
			c.category = leaf.ColumnIndex
		case of(targets.AreaKeys) && number:
			c.area = leaf.ColumnIndex
		case of(targets.CrowdKeys) && number:
			c.crowd = leaf.ColumnIndex
		}
	}
	c.classes = objectClasses(features[targets.RecordsName])
	return c, c.box >= 0 && c.category >= 0
}

// objectClasses are the names of the categories that a column's description has.
func objectClasses(description json.RawMessage) []string {
	var find func(raw json.RawMessage) []string
	find = func(raw json.RawMessage) []string {
		var one hubFeature
		if json.Unmarshal(raw, &one) == nil && one.Type == "ClassLabel" {
			return one.Names
		}
		var below map[string]json.RawMessage
		var list []json.RawMessage
		json.Unmarshal(raw, &list)
		json.Unmarshal(raw, &below)
		for _, key := range slices.Sorted(maps.Keys(below)) {
			list = append(list, below[key])
		}
		for _, inner := range list {
			if names := find(inner); names != nil {
				return names
			}
		}
		return nil
	}
	return find(description)
}

// sampleOf reads the objects in a row's columns.
func (c *objectColumns) sampleOf(m *targets.Objects, byColumn map[int][]parquet.Value) (s targets.Sample, err error) {
	values := func(column int) []parquet.Value {
		all := byColumn[column]
		if len(all) == 1 && all[0].IsNull() { // an empty list
			return nil
		}
		return all
	}
	var categories []any
	for _, v := range values(c.category) {
		categories = append(categories, parquetScalar(v))
	}
	numbers := func(column int) (all []float64) {
		for _, v := range values(column) {
			switch x := parquetScalar(v).(type) {
			case bool:
				if all = append(all, 0); x {
					all[len(all)-1] = 1
				}
			case int64:
				all = append(all, float64(x))
			case float32:
				all = append(all, float64(x))
			case float64:
				all = append(all, x)
			default:
				all = append(all, math.NaN()) // one object of several lacks it
			}
		}
		return all
	}
	if ids := numbers(c.id); len(ids) > 0 {
		s.ID = byColumn[c.id][0].Int64()
	}
	s.Objects, err = m.Make(numbers(c.box), categories, numbers(c.area), numbers(c.crowd))
	return s, err
}

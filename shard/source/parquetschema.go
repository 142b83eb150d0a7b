package source

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// hubFeature is what the schema's metadata say of a column: {"info": {"features": {"label": {"_type": "ClassLabel", "names": […]}}}}.
type hubFeature struct {
	Type  string          `json:"_type"`
	Names json.RawMessage `json:"names"`
}

// hubFeatures reads them; what is malformed says nothing.
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
		if json.Unmarshal(raw, &one) == nil { // of a list of features it is none
			features[name] = one
		}
	}
	return features
}

// imageColumns and labelColumns are what the columns are called where the metadata do not tell, the likeliest first.
var (
	imageColumns = []string{"image", "img", "jpg", "jpeg", "png", "webp", "pixel_values"}
	labelColumns = []string{"label", "labels", "cls", "target", "class"}
)

// findColumns finds the columns of the images and of the labels.
func (f *parquetFile) findColumns(name string, opts Options) error {
	features := hubFeatures(f.File)
	var columns []string
	for _, field := range f.Schema().Fields() {
		columns = append(columns, field.Name())
	}
	image, err := pickColumn(columns, imageColumns, features, "Image", "")
	if err != nil {
		return refuse(name, "%v", err)
	}
	f.imagePath = -1
	leaf, ok := f.leaf(image, "bytes")
	if ok && f.kind(leaf) == parquet.ByteArray {
		if p, ok := f.leaf(image, "path"); ok && f.kind(p) == parquet.ByteArray {
			f.imagePath = p
		}
	} else if leaf, ok = f.leaf(image); !ok || f.kind(leaf) != parquet.ByteArray {
		return refuse(name, "the column %q holds no image files: wanted are bytes, or a struct with bytes in it", image)
	} else if found, _ := f.Schema().Lookup(image); logical[*format.StringType](found) {
		return refuse(name, "the column %q holds text and no image files: write it as a CSV with the columns path,label if these are paths", image)
	}
	f.image, f.label = leaf, -1
	if opts.NoLabels {
		return nil
	}
	label, err := pickColumn(columns, labelColumns, features, "ClassLabel", opts.Label)
	if err != nil {
		return refuse(name, "%v: name that of the labels by --label, or take the images without labels by --no-labels", err)
	}
	if found, _ := f.Schema().Lookup(label); logical[*format.DecimalType](found) {
		return refuse(name, "the column %q of the labels has decimals: write it as int64", label)
	}
	if f.label, ok = f.leaf(label); !ok || label == image {
		return refuse(name, "the column %q has no label in each row: --label COLUMN names another (%s)", label, strings.Join(columns, ", "))
	}
	var names []string
	if json.Unmarshal(features[label].Names, &names) == nil {
		f.classes = names
	}
	index := classIndex(f.classes)
	for i, c := range f.classes {
		if reason := nameReason(c); reason != "" || index[c] != int32(i) {
			return refuse(name, "the class name %.60q of the schema is none, or occurs twice", c)
		}
	}
	return nil
}

// checkLabels refuses a file whose labels mean something else than those of the first.
func (f *parquetFile) checkLabels(name string, first *parquetFile, firstName string) error {
	at := 0
	for at < min(len(f.classes), len(first.classes)) && f.classes[at] == first.classes[at] {
		at++
	}
	switch {
	case max(len(f.classes), len(first.classes)) > at:
		return refuse(name, "from label %d on its schema names the classes %s, and that of %s names %s: "+
			"write the files again with one list of names", at, cmp.Or(someNames(f.classes[at:]), "(none)"), firstName, cmp.Or(someNames(first.classes[at:]), "(none)"))
	case f.textLabels() != first.textLabels():
		return refuse(name, "its labels and those of %s are not both names or both numbers: write the files again with one type", firstName)
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

// leaf returns the index of a column that has one value a row, of a type that is text or a number.
func (f *parquetFile) leaf(path ...string) (int, bool) {
	l, ok := f.Schema().Lookup(path...)
	if !ok || l.MaxRepetitionLevel > 0 || l.Node == nil || !l.Node.Leaf() {
		return -1, false
	}
	kind := l.Node.Type().Kind()
	return int(l.ColumnIndex), kind != parquet.Int96 && kind != parquet.FixedLenByteArray
}

// pickColumn takes the column that was asked for, or the only one of the feature's type, or the likeliest by name.
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

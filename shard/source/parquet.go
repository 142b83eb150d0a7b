package source

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/labelrule"
	"github.com/imgfeed/imgfeed/shard/source/remedy"
	"github.com/imgfeed/imgfeed/shard/source/targets"
	"github.com/imgfeed/imgfeed/shard/source/transport"
)

// parquetFiles is a dataset of Hugging Face's hub in parquet (https://parquet.apache.org/docs/file-format/): a row for each sample, a
// column with the image file's bytes and one with the label. The schema's metadata hold the class names under "huggingface":
//
//	data/train-00000-of-00294.parquet       image: struct<bytes: binary, path: string>, label: int64
//	data/validation-00000-of-00014.parquet
//
// A sample's key is its file's name, its row in it, and the path that the row gives: "train-00000-of-00294/00012-n01440764_10026.JPEG".
var parquetFiles = dataset.Kind{
	Name:   "Hugging Face parquet",
	Forms:  []string{"a folder with train-00000-of-00294.parquet and so on, or with data/ that has them", "one parquet file"},
	Labels: "the label column, or that of --label; the schema's class names, or those of --classes. Objects have a column objects",
	Takes:  []string{"--classes", "--label", "--no-labels"},
}

func openParquetFiles(c *candidate) ([]*dataset.Split, error) {
	if c.form == aFile {
		if !namedParquet(c.path) {
			return nil, nil
		}
		c.output = strings.TrimSuffix(c.path, filepath.Ext(c.path))
		s, err := newParquetSplit(c, nil)
		return []*dataset.Split{s}, err
	}
	names, _ := c.filter(namedParquet)
	if slices.ContainsFunc(names, c.besideImages) {
		return nil, nil
	}
	if len(names) == 0 && slices.Contains(c.folders, "data") {
		q, err := c.child("data", "")
		if err != nil {
			return nil, err
		}
		q.output = cmp.Or(c.output, c.path)
		c = q
		names, _ = c.filter(namedParquet)
	}
	switch {
	case len(names) == 0:
		return nil, nil
	case c.tree != transport.Tree(transport.FileSystem{}):
		return nil, transport.RefuseEntry(c.path, names[0], "parquet in a zip is not read").Or(transport.Unpack(c.path)...)
	}
	return c.bySplit(names, newParquetSplit)
}

func namedParquet(name string) bool { return transport.FileKind(name) == transport.ParquetExtension }

// parquetLayout is the files of one split.
type parquetLayout struct {
	transport.Stream
	paths   []string
	first   *parquetFile // the first of them, closed; its schema stays in memory
	names   labelrule.ClassNames
	opts    dataset.Options
	fields  []dataset.Field
	targets *targets.Values // those of the rows; nil if they have none
}

// newParquetSplit makes the split of some files in a folder, or of the candidate itself, whose schemas it reads.
func newParquetSplit(c *candidate, files []string) (*dataset.Split, error) {
	paths := c.paths(files)
	names, err := labelrule.FindClassNames(transport.FileSystem{}, []string{filepath.Dir(paths[0])}, c.opts)
	if err != nil {
		return nil, err
	}
	_, total, _ := strings.Cut(fileStem(paths[0]), "-of-") // 294 in train-00000-of-00294.parquet
	if want, err := strconv.Atoi(total); err == nil && want != len(paths) && !c.opts.AllowTruncated {
		return nil, transport.Refuse(paths[0], "is one of %d files by its name, and %d are here: get the others",
			want, len(paths)).Or(remedy.Truncated)
	}
	l := &parquetLayout{paths: paths, names: names, opts: c.opts}
	for _, file := range paths {
		f, err := openParquet(file, l.opts)
		if err != nil {
			return nil, err
		}
		f.Close()
		l.first = cmp.Or(l.first, f)
		if err := f.checkLabels(file, l.first, paths[0]); err != nil {
			return nil, err
		}
		l.Size += f.Size()
	}
	if l.first.hasObjects {
		classes := l.first.objects.classes
		if l.first.label < 0 && len(names.Names) > 0 {
			classes = names.Names
		}
		l.targets = targets.NewRecords(classes, l.first.objects.id >= 0, l.opts.Targets)
	}
	if len(names.Names) == 0 && len(l.first.classes) > 0 {
		l.names = labelrule.ClassNames{Names: l.first.classes, From: "the schema of " + paths[0]}
	}
	return c.newSplit(bytesize.Counted(len(paths), "parquet file", "parquet files"), l, l.targets), nil
}

// fileStem is a file's name without folders and extension.
func fileStem(file string) string { return strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)) }

// Unlabelled says that the first label is -1, as those of test images are.
func (l *parquetLayout) Unlabelled() (is bool) {
	l.file(context.Background(), l.paths[0], func(_ int, r *parquetRow) error {
		n, whole, _ := labelrule.WholeNumber(r.label)
		is = r.label == "" || whole && n < 0
		return io.EOF
	})
	return is
}

func (l *parquetLayout) Walk(w *transport.Walk, s *dataset.Split, fn func(transport.Item) error) (dataset.Labels, error) {
	var texts labelrule.Column // if the labels are texts; until all rows are read, their labels are positions in it
	leftOut, wanted := 0, dataset.ClassIndex(l.names.Names)
	for _, file := range l.paths {
		stem := fileStem(file)
		err := l.file(w.Ctx, file, func(row int, r *parquetRow) (err error) {
			at := func(format string, args ...any) *transport.FormatError {
				return transport.RefuseEntry(file, fmt.Sprintf("row %d", row), format, args...)
			}
			label := int32(labelrule.NoLabel)
			if r.label != "" && l.first.named {
				label, err = texts.Add(r.label, at)
			} else if r.label != "" {
				label, err = labelrule.ParseLabel(r.label, at)
			}
			if err != nil {
				return err
			}
			_, _, number := labelrule.WholeNumber(r.label)
			if _, ok := wanted[r.label]; r.label != "" && len(wanted) > 0 && !ok && !number {
				leftOut++
				return nil
			}
			key := fmt.Sprintf("%s/%05d", stem, row)
			if r.path != "" {
				key += "-" + path.Base(r.path)
			}
			if l.targets != nil && r.reason == "" {
				err := l.addTargets(key, r)
				if errors.Is(err, dataset.ErrDropped) {
					return nil
				}
				if err != nil {
					return at("%v", err)
				}
			}
			return fn(transport.Item{Key: key, Reason: r.reason, Label: label, Labelled: !l.first.named || label == labelrule.NoLabel,
				Size: int64(len(r.image)), Data: bytes.NewReader(r.image), Fields: r.fields})
		})
		if err != nil {
			return dataset.Labels{}, err
		}
	}
	if leftOut > 0 {
		s.Note("%s left out, of other classes than those of %s", bytesize.Counted(leftOut, "row is", "rows are"), l.names.From)
	}
	r, err := texts.Resolve(s.Path, l.names, l.opts)
	if err != nil {
		return dataset.Labels{}, err
	}
	return r.SplitLabels(s, l.names, r.Labels)
}

// addTargets appends a row's targets to its fields.
func (l *parquetLayout) addTargets(key string, r *parquetRow) error {
	if r.objectsErr != nil {
		return r.objectsErr
	}
	values, err := l.targets.AppendSample(r.fields, key, r.image, r.objects)
	if rejected, is := errors.AsType[*transport.RejectError](err); is {
		r.reason, err = rejected.Reason, nil
	} else if _, _, unread := imagefile.Size(r.image); unread != nil {
		return nil // the packer says so
	}
	r.fields = values
	return err
}

// parquetRow is one row. The fields are valid until the next one is read.
type parquetRow struct {
	image   []byte
	path    string
	reason  string // why there is no image
	label   string // "": none
	fields  []byte
	invalid error // the error of a field whose value cannot be used
	// objects are those of the row, or the error why they cannot be read.
	objects    targets.Sample
	objectsErr error
}

func (l *parquetLayout) file(ctx context.Context, name string, fn func(row int, r *parquetRow) error) (err error) {
	f, err := openParquet(name, l.opts)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.bindFields(name, slices.Clone(l.fields)); err != nil {
		return err
	}
	if l.targets != nil {
		if !f.hasObjects {
			return transport.Refuse(name, "has no columns of objects, as %s has: write the files again with one schema", l.paths[0])
		}
		f.maker = l.targets.Objects
	}
	row := 0
	wrong := func(msg string, err error) error {
		return &transport.FormatError{Path: name, Entry: fmt.Sprintf("row %d", row), Msg: msg, Err: err}
	}
	defer func() { // parquet-go panics on some malformed files
		if r := recover(); r != nil {
			err = wrong(fmt.Sprintf("cannot be read as parquet: %v", r), nil)
		}
	}()
	for group := range f.RowGroups() {
		for r, err := range f.rows(group) {
			switch {
			case err != nil:
				return wrong("cannot be read as parquet", err)
			case r.invalid != nil && r.reason == "":
				return wrong(r.invalid.Error(), nil)
			}
			if err := errors.Join(ctx.Err(), fn(row, r)); err != nil {
				return err
			}
			row++
		}
	}
	return nil
}

// chosenColumns is a row group of which only some columns are read.
type chosenColumns struct {
	parquet.RowGroup
	chosen []parquet.ColumnChunk
}

func (c chosenColumns) ColumnChunks() []parquet.ColumnChunk { return c.chosen }

func (f *parquetFile) columns() []int {
	columns := []int{f.image, f.label, f.imagePath}
	if f.hasObjects {
		columns = append(columns, f.objects.box, f.objects.category, f.objects.area, f.objects.crowd, f.objects.id)
	}
	for _, c := range f.fields {
		columns = append(columns, c.leaf)
	}
	slices.Sort(columns)
	return slices.DeleteFunc(slices.Compact(columns), func(column int) bool { return column < 0 })
}

func (f *parquetFile) rows(group int) iter.Seq2[*parquetRow, error] {
	return func(yield func(*parquetRow, error) bool) {
		if err := f.checkGroup(group); err != nil {
			yield(nil, err)
			return
		}
		g := chosenColumns{RowGroup: f.RowGroups()[group]}
		for _, column := range f.columns() {
			g.chosen = append(g.chosen, g.RowGroup.ColumnChunks()[column])
		}
		rows := parquet.NewRowGroupRowReader(g)
		defer rows.Close()
		values := make([]parquet.Row, 1)
		for range g.NumRows() {
			var r *parquetRow
			_, err := rows.ReadRows(values)
			if err == nil || err == io.EOF { // io.EOF comes with the last row
				r, err = f.row(values[0], len(g.chosen))
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// row takes a row of some columns apart.
func (f *parquetFile) row(row parquet.Row, columns int) (*parquetRow, error) {
	byColumn := make(map[int][]parquet.Value, 4)
	for start, end := 0, 0; start < len(row); start = end {
		column := row[start].Column()
		for end < len(row) && row[end].Column() == column {
			end++
		}
		byColumn[column] = row[start:end]
	}
	if len(byColumn) < columns {
		return nil, io.ErrUnexpectedEOF
	}
	one := func(column int) (v parquet.Value) {
		if column >= 0 {
			v = byColumn[column][0]
		}
		return v
	}
	data, file, r := one(f.image), one(f.imagePath), new(parquetRow)
	switch n := len(data.ByteArray()); {
	case data.IsNull():
		r.reason = "the row has no bytes of an image (a path is not followed)"
	case n > transport.ImageBytesMax:
		r.reason = transport.ReasonTooLarge(int64(n))
	default:
		r.image = data.ByteArray()
	}
	switch x := parquetScalar(one(f.label)).(type) {
	case nil:
	case bool:
		r.label = map[bool]string{false: "0", true: "1"}[x]
	default:
		r.label = strings.TrimSpace(fmt.Sprint(x))
	}
	if !file.IsNull() {
		r.path = string(file.ByteArray())
	}
	f.encoded = f.encoded[:0]
	for i := range f.fields {
		c := &f.fields[i]
		values := byColumn[c.leaf]
		if c.list && values[0].IsNull() { // an empty list is one null
			values = nil
		}
		var err error
		if f.encoded, err = c.appendParquet(f.encoded, values); err != nil {
			r.invalid = cmp.Or(r.invalid, err)
		}
	}
	r.fields = f.encoded
	if f.maker != nil {
		r.objects, r.objectsErr = f.objects.sampleOf(f.maker, byColumn)
	}
	return r, nil
}

// parquetScalar is a value as nil, bool, int64, float32, float64 or string.
func parquetScalar(v parquet.Value) any {
	switch {
	case v.IsNull():
		return nil
	case v.Kind() == parquet.Boolean:
		return v.Boolean()
	case v.Kind() == parquet.Int32:
		return int64(v.Int32()) // Int64 would lose the sign
	case v.Kind() == parquet.Int64:
		return v.Int64()
	case v.Kind() == parquet.Float:
		return v.Float()
	case v.Kind() == parquet.Double:
		return v.Double()
	}
	return string(v.ByteArray())
}

type parquetFile struct {
	*parquet.File
	file                    *os.File
	image, imagePath, label int  // columns; -1 if the file lacks one
	named                   bool // the labels are text
	classes                 []string
	fields                  []parquetColumn
	encoded                 []byte // the fields of the last row
	objects                 objectColumns
	hasObjects              bool
	maker                   *targets.Objects // makes the objects of rows; nil: they are not read
}

func (f *parquetFile) Close() error { return f.file.Close() }

// openParquet reads a file's schema and finds the columns in it.
func openParquet(name string, opts dataset.Options) (f *parquetFile, err error) {
	file, size, err := transport.OpenLocal(name, "parquet")
	if err != nil {
		return nil, err
	}
	defer func() {
		if r := recover(); r != nil {
			err = transport.Refuse(name, "cannot be read as parquet: %v", r)
		}
		if err != nil {
			file.Close()
		}
	}()
	if err := checkParquetFooter(file, size); err != nil {
		return nil, transport.Refuse(name, "%v", err)
	}
	opened, err := parquet.OpenFile(file, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, transport.Refuse(name, "cannot be read as parquet").Because(err)
	}
	f = &parquetFile{File: opened, file: file}
	return f, f.findColumns(name, opts)
}

package source

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/labelrule"
	"github.com/imgfeed/imgfeed/shard/source/remedy"
	"github.com/imgfeed/imgfeed/shard/source/targets"
	"github.com/imgfeed/imgfeed/shard/source/transport"
)

// lists is a file that names images and their labels, one in each line, as CSV, TSV or JSON lines:
//
//	path,label                   path	label     {"file_name": "a.jpg", "label": "cat"}     0	3.000000	train/a.jpg
//	"train/a, b.jpg",tabby cat   b.jpg	0         {"file_name": "b.jpg", "label": "dog"}     1	0.000000	train/b.jpg
//
// Paths begin at the list's own folder, or at that of --images, and are the samples' keys. Labels that all are whole numbers are labels;
// others are the names of classes, which stand in sorted order. A column "split" makes a split of each of its values.
var lists = dataset.Kind{
	Name: "list of images",
	Forms: []string{"a CSV or TSV file that begins with path,label", "JSON lines with the keys path and label",
		"a folder with metadata.csv or metadata.jsonl, which names images in it and below",
		"Tiny ImageNet's val/, with val_annotations.txt"},
	Labels: "the column of labels, or that of --label: whole numbers as they are, " +
		"names by their index in sorted order or in --classes FILE",
	Takes:        []string{"--classes", "--label", "--path", "--images", "--no-labels"},
	TestLabelled: true,
}

func openList(c *candidate) ([]*dataset.Split, error) {
	switch {
	case c.form == someFiles && namedList(c.files[0]):
		return nil, transport.RefuseEntry(c.path, c.files[0], "one of several lists: build them one at a time, the first "+
			"alone and the later ones with its labels, or join them in one list with a column split").Or(
			remedy.Folder.With("DIR", filepath.Join(c.path, c.files[0])))
	case c.listed():
		return openListInFolder(c)
	case !namedList(c.path):
		return nil, nil
	}
	root := filepath.Dir(c.path)
	c.output = strings.TrimSuffix(c.path, filepath.Ext(c.path))
	if c.opts.Images != "" {
		var err error
		if root, err = transport.Absolute(c.opts.Images); err != nil {
			return nil, err
		}
		if info, err := (transport.FileSystem{}).Stat(root); err != nil || !info.IsDir() {
			return nil, transport.Refuse(root, "--images names no folder")
		}
	}
	return c.openListFile(listLocation{Tree: transport.FileSystem{}, File: c.path, Root: root})
}

// openListInFolder opens a folder of images with a list of their labels: the validation images of Tiny ImageNet, or Hugging Face's
// imagefolder (https://huggingface.co/docs/datasets/image_dataset). If its folders are of splits, they tell the splits of the list.
func openListInFolder(c *candidate) ([]*dataset.Split, error) {
	if slices.Contains(c.files, tinyAnnotations) && slices.Equal(c.folders, []string{"images"}) {
		return c.openListFile(listLocation{Tree: c.tree, File: filepath.Join(c.path, tinyAnnotations),
			Root: filepath.Join(c.path, "images"), Whole: true})
	}
	missing := func(name string) bool { return !slices.Contains(c.files, name) }
	if c.form == aFolder && !slices.ContainsFunc(labelrule.MetadataFiles, missing) {
		return nil, transport.Refuse(c.path, "holds %s, and one of them is wanted: move the others",
			strings.Join(labelrule.MetadataFiles, " and "))
	}
	for _, name := range labelrule.MetadataFiles {
		if c.form == someFiles || !slices.Contains(c.files, name) {
			continue
		}
		splits, err := c.findSplits()
		if err != nil {
			return nil, err
		}
		of := make(map[string]string)
		for split, folder := range splits {
			of[folder] = split
		}
		parts, err := c.openListFile(listLocation{Tree: c.tree, File: filepath.Join(c.path, name), Root: c.path, Whole: true, Folders: of})
		if errors.Is(err, errNoColumn) && len(c.folders) > 0 && len(c.opts.Fields) == 0 { // the folders are the classes
			continue
		}
		return parts, err
	}
	return nil, nil
}

type listRow struct {
	key    string
	line   int32
	label  int32 // while the list is read a position in its values; noLabel in both
	split  int8  // index into listSplits
	fields int64 // the values of the fields, behind their length, begin here in listFile.encoded
}

// listSplits are the splits that a column may tell apart; the first is that of a list without one.
var listSplits = []string{"", "train", "val", "test"}

// A listLocation is where a list lies, and what lies around it.
type listLocation struct {
	Tree       transport.Tree
	File, Root string            // Root is where the paths begin
	Whole      bool              // the list is of all images below Root: those that it does not name are noted
	Folders    map[string]string // the splits that folders in Root hold, by their names
}

type listFile struct {
	listLocation
	opts       dataset.Options
	parts      []*listLayout
	absolute   [2]string // the first path that does not lie below the root, and how all such begin
	absoluteAt int       // its line
	rows       []listRow
	values     labelrule.Column
	labels     labelrule.Resolved // the labels of the values
	names      labelrule.ClassNames
	fields     []dataset.Field
	row        []byte                     // the fields of one row
	encoded    []byte                     // those of all
	splits     map[string]map[string]bool // the splits in other columns than "split"; nil where a cell is of none
	objects    map[string]json.RawMessage // the objects of JSON lines, by image; the options may leave them out
}

// listLayout is a list, or its rows of one split.
type listLayout struct {
	transport.TreeFiles
	*listFile
	rows []listRow // sorted by key
}

// openListFile reads a list, and makes a split of it, or one for each value of its column "split".
func (c *candidate) openListFile(p listLocation) (splits []*dataset.Split, err error) {
	l := &listFile{listLocation: p, opts: c.opts, fields: slices.Clone(c.opts.Fields),
		splits: make(map[string]map[string]bool), objects: make(map[string]json.RawMessage)}
	for _, step := range []func() error{l.read, l.checkPaths, l.checkSplits, l.resolve} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	parts := make([][]listRow, len(listSplits))
	for _, r := range l.rows {
		parts[r.split] = append(parts[r.split], r)
	}
	named := len(parts[0]) < len(l.rows)
	if blank := parts[0]; named && len(blank) > 0 && c.opts.Split == "" {
		first := slices.IndexFunc(l.rows, func(r listRow) bool { return r.split != 0 })
		return nil, l.errorf(int(blank[0].line), "no %s, and other lines have one: write it in %s", listSplitColumn,
			bytesize.Counted(len(blank), "line", "lines")).Or(remedy.OneSplit.With("NAME", listSplits[l.rows[first].split]))
	}
	l.rows = nil
	for name, rows := range parts {
		if len(rows) == 0 {
			continue
		}
		slices.SortFunc(rows, func(a, b listRow) int { return cmp.Or(strings.Compare(a.key, b.key), cmp.Compare(a.line, b.line)) })
		for i := 1; i < len(rows); i++ {
			if rows[i].key == rows[i-1].key {
				return nil, l.errorf(int(rows[i].line), "names the image of line %d again (%s): a set has each once, "+
					"so remove one of the two", rows[i-1].line, rows[i].key)
			}
		}
		part := &listLayout{transport.TreeFiles{Root: p.Root, FS: p.Tree}, l, rows}
		l.parts = append(l.parts, part)
		if !named || c.opts.Split == "" || c.opts.Split == listSplits[name] {
			splits = append(splits, c.one(listSplits[name]).newSplit("a list of images", part, part.newTargets()))
		}
	}
	if len(splits) == 0 {
		return nil, transport.Refuse(l.File, "no row is of the split %q by the column %q", c.opts.Split, listSplitColumn)
	}
	return splits, nil
}

// noteSplit notes a cell of a column that the list does not use, which may tell splits apart.
func (l *listFile) noteSplit(column, cell string) {
	seen, ok := l.splits[column]
	split := transport.FolderSplit(strings.TrimSpace(cell))
	switch {
	case ok && seen == nil:
	case split == "":
		l.splits[column] = nil
	case !ok:
		l.splits[column] = map[string]bool{split: true}
	default:
		seen[split] = true
	}
}

// checkSplits refuses to join the splits that a column under another name tells apart.
func (l *listFile) checkSplits() error {
	if l.opts.ForceClasses || slices.ContainsFunc(l.rows, func(r listRow) bool { return r.split != 0 }) {
		return nil
	}
	for _, column := range slices.Sorted(maps.Keys(l.splits)) {
		if splits := slices.Sorted(maps.Keys(l.splits[column])); len(splits) > 1 {
			return transport.Refuse(l.File, "the column %q tells splits apart (%s), and this would join them: call it %s", column,
				strings.Join(splits, ", "), listSplitColumn).Or(remedy.ForceClasses)
		}
	}
	return nil
}

// resolve turns the texts in the rows into labels, once all are read.
func (l *listFile) resolve() (err error) {
	if len(l.rows) == 0 {
		return transport.Refuse(l.File, "names no images")
	}
	if l.names, err = labelrule.FindClassNames(l.Tree, []string{filepath.Dir(l.File)}, l.opts); err != nil {
		return err
	}
	if l.labels, err = l.values.Resolve(l.File, l.names, l.opts); err != nil {
		return err
	}
	for i := range l.rows {
		if row := &l.rows[i]; row.label != labelrule.NoLabel {
			row.label = l.labels.Labels[row.label]
		}
	}
	l.rows = slices.DeleteFunc(l.rows, func(r listRow) bool { return r.label == labelrule.LeftOutLabel })
	l.values = labelrule.Column{}
	return nil
}

func (l *listFile) errorf(line int, format string, args ...any) *transport.FormatError {
	return transport.Refuse(l.File, "line %d: %s", line, fmt.Sprintf(format, args...))
}

func (l *listLayout) Walk(w *transport.Walk, s *dataset.Split, fn func(transport.Item) error) (dataset.Labels, error) {
	unnamed, err := l.walkFiles(w, fn)
	if err != nil {
		return dataset.Labels{}, err
	}
	s.NoteLeftOut(unnamed, "image that "+filepath.Base(l.File)+" does not name is",
		"images that "+filepath.Base(l.File)+" does not name are")
	if l.labels.Note != "" {
		s.Note("%s", l.labels.Note)
	}
	return l.labels.SplitLabels(s, l.names, nil)
}

// find returns the position of a key's row, or of the first row behind it.
func (l *listLayout) find(key string) (int, bool) {
	return slices.BinarySearchFunc(l.rows, key, func(r listRow, key string) int { return strings.Compare(r.key, key) })
}

// row returns the row of a file: that of its key, or of its key without the extension of an image.
func (l *listLayout) row(key string) (i int, listed, bare bool) {
	if i, listed = l.find(key); listed || !transport.ImageExtension(key) {
		return i, listed, false
	}
	i, listed = l.find(strings.TrimSuffix(key, path.Ext(key)))
	return i, listed, true
}

// walkFiles gives the files of the rows, and returns the images that no split of the list names, if it is of all. It lists the folders
// that hold them: that is cheaper than a request for each file.
func (l *listLayout) walkFiles(w *transport.Walk, fn func(transport.Item) error) (unnamed []string, err error) {
	found := make([]string, len(l.rows)) // the file of each row
	err = l.Files(w, func(f *transport.Item) error {
		i, listed, bare := l.row(f.Key)
		switch {
		case f.Folder && listed:
			return l.errorf(int(l.rows[i].line), "%s is a folder: a line names an image", f.Key)
		case f.Folder:
			if i, _ = l.find(f.Key + "/"); !l.Whole && (i == len(l.rows) || !strings.HasPrefix(l.rows[i].key, f.Key+"/")) {
				return fs.SkipDir
			}
			return nil
		case listed && bare && found[i] == l.rows[i].key: // the row is of a file without an extension
		case listed && bare && found[i] != "":
			return l.errorf(int(l.rows[i].line), "%s may be %s or %s: write the extension", l.rows[i].key, found[i], f.Key)
		case listed:
			found[i] = f.Key
			f.Label, f.Labelled = l.rows[i].label, true
			return fn(*f)
		case l.Whole && transport.ImageExtension(f.Key) && !slices.ContainsFunc(l.parts, func(other *listLayout) bool {
			_, listed, _ := other.row(f.Key)
			return listed
		}):
			unnamed = append(unnamed, f.Key)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	missing, first := 0, listRow{}
	for i, r := range l.rows {
		if found[i] == "" {
			if missing++; missing == 1 || r.line < first.line {
				first = r
			}
		}
	}
	if missing == 0 {
		return unnamed, nil
	}
	no := l.errorf(int(first.line), "there is no file %s (%s)", filepath.Join(l.Root, filepath.FromSlash(first.key)),
		bytesize.Counted(missing, "line names no file", "lines name no file"))
	if missing == len(l.rows) {
		return nil, no.Or(remedy.Images, remedy.Path)
	}
	no.Msg += ": complete the images, or remove such lines; hidden files are not read"
	return nil, no
}

// BindFields completes the types: a cell is text, and the value of a key JSON, unless the option says another.
func (l *listLayout) BindFields(fields []dataset.Field) error {
	copy(fields, l.fields)
	return nil
}

// AppendFields appends the values for an image.
func (l *listLayout) AppendFields(dst []byte, key string) ([]byte, error) {
	i, ok, _ := l.row(key)
	if !ok {
		return dst, transport.Refuse(l.File, "no row for %q", key)
	}
	values := l.encoded[l.rows[i].fields:]
	return append(dst, values[4:][:binary.LittleEndian.Uint32(values)]...), nil
}

// newTargets are the objects in the lines of JSON; nil if they have none, or if the options leave them out.
func (l *listLayout) newTargets() *targets.Values {
	if len(l.objects) == 0 {
		return nil
	}
	names := make(map[string]bool)
	for _, raw := range l.objects {
		for _, name := range targets.CategoriesOf(raw) {
			names[name] = true
		}
	}
	classes := l.names.Names
	if len(classes) == 0 {
		classes = slices.Sorted(maps.Keys(names))
	}
	v := targets.NewRecords(classes, false, l.opts.Targets)
	v.Objects.Scanned = len(l.names.Names) == 0 && len(names) > 0
	v.Read = func(key string, _, _ int) ([]targets.Object, error) {
		raw := l.objects[key]
		if raw == nil {
			return nil, nil
		}
		objects, err := v.Objects.FromJSON(raw)
		if err != nil {
			i, _ := l.find(key)
			return nil, l.errorf(int(l.rows[i].line), "%v", err)
		}
		return objects, nil
	}
	return v
}

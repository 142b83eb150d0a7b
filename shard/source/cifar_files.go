package source

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/imgfeed/imgfeed/shard/source/pickle"
)

const (
	// cifarFileBytesMax bounds what is read of one file; the largest is of 156 MB.
	cifarFileBytesMax = 256 << 20
)

// cifarFormat is one version of the files.
type cifarFormat struct {
	set          string // "CIFAR-10"
	name         string
	folder       string // that the archive unpacks to
	archive      string
	batches      []string // the files of images; the last is for testing
	metas        []string // the file of class names; if two, of the fine ones and of the coarse ones
	plain        bool     // names such as train may be those of any files
	fine, coarse int      // classes
	batch        func(f *cifarFormat, data []byte) (cifarBatch, error)
	meta         func(f *cifarFormat, data []byte) (cifarNames, error)
}

// files are the names of all files.
func (f *cifarFormat) files() []string { return slices.Concat(f.batches, f.metas) }

var cifarPython = cifarFormat{
	set: "CIFAR-10", name: "Python", folder: "cifar-10-batches-py", archive: "cifar-10-python.tar.gz",
	batches: []string{"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch"}, metas: []string{"batches.meta"},
	fine: 10, batch: parsePickledBatch, meta: parsePickledMeta,
}

var cifarBinary = cifarFormat{
	set: "CIFAR-10", name: "binary", folder: "cifar-10-batches-bin", archive: "cifar-10-binary.tar.gz",
	batches: []string{"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"}, metas: []string{"batches.meta.txt"},
	fine: 10, batch: parseBinaryBatch, meta: parseTextMeta,
}

var cifar100Python = cifarFormat{
	set: "CIFAR-100", name: "Python", folder: "cifar-100-python", archive: "cifar-100-python.tar.gz", plain: true,
	batches: []string{"train", "test"}, metas: []string{"meta"},
	fine: 100, coarse: 20, batch: parsePickledBatch, meta: parsePickledMeta,
}

var cifar100Binary = cifarFormat{
	set: "CIFAR-100", name: "binary", folder: "cifar-100-binary", archive: "cifar-100-binary.tar.gz", plain: true,
	batches: []string{"train.bin", "test.bin"}, metas: []string{"fine_label_names.txt", "coarse_label_names.txt"},
	fine: 100, coarse: 20, batch: parseBinaryBatch, meta: parseTextMeta,
}

// cifarFormats are the versions; where a folder holds both, the first is taken.
var cifarFormats = []*cifarFormat{&cifarPython, &cifarBinary, &cifar100Python, &cifar100Binary}

// cifarFormatOf says to which version a file of an archive belongs, by its name and its folder's; nil: to none.
func cifarFormatOf(folder, name string) *cifarFormat {
	for _, k := range cifarFormats {
		if slices.Contains(k.files(), name) && (!k.plain || path.Base(folder) == k.folder) {
			return k
		}
	}
	return nil
}

// findCIFAR says whether a place is CIFAR-10 unpacked or one of the archives, or a folder that holds one of these; nil: neither.
func findCIFAR(p *place) (*cifarFiles, error) {
	if !p.folder {
		return sniffCIFAR(p)
	}
	for _, k := range cifarFormats {
		n := 0
		for _, f := range p.files {
			if slices.Contains(k.files(), f) {
				n++
			}
		}
		if k.plain && (n == len(k.files()) || n > 1 && filepath.Base(p.path) == k.folder) || !k.plain && (n > 1 || n == 1 && len(p.folders) == 0) {
			return &cifarFiles{path: p.path, format: k}, nil
		}
	}
	if len(p.folders) == 0 {
		if err := refuseRelatives(p.path, filepath.Base(p.path)); err != nil {
			return nil, err
		}
		tars, _ := p.tars()
		k, err := oneOfCIFAR(p.path, tars, func(k *cifarFormat) string { return k.archive })
		if k == nil || err != nil {
			return nil, err
		}
		archive, err := p.in(k.archive, "")
		if err != nil {
			return nil, err
		}
		defer archive.close()
		return sniffCIFAR(archive)
	}
	k, err := oneOfCIFAR(p.path, p.folders, func(k *cifarFormat) string { return k.folder })
	if k == nil || err != nil {
		return nil, err
	}
	return &cifarFiles{path: filepath.Join(p.path, k.folder), format: k}, nil
}

// oneOfCIFAR returns the first of the versions whose own name is among the names; nil: none. There must be nothing else: it would be left out, or
// the whole taken for a folder of classes.
func oneOfCIFAR(path string, names []string, own func(*cifarFormat) string) (*cifarFormat, error) {
	var found *cifarFormat
	others := slices.Clone(names)
	for _, k := range cifarFormats {
		if found != nil && k.set != found.set {
			continue
		}
		n := len(others)
		others = slices.DeleteFunc(others, func(name string) bool { return name == own(k) })
		if len(others) < n && found == nil {
			found = k
		}
	}
	if found != nil && len(others) > 0 {
		return nil, &FormatError{Path: path, Entry: own(found), Msg: fmt.Sprintf("%s beside other data (%s): build it by its own path, %s",
			found.set, someNames(others), filepath.Join(path, own(found)))}
	}
	return found, nil
}

// sniffCIFAR says whether a tar is an archive of CIFAR-10, by its first files; nil: it is none.
func sniffCIFAR(p *place) (*cifarFiles, error) {
	for i := range 100 { // members that say nothing: folders, readme.html
		m, err := p.member(i)
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		folder, base := path.Split(m.name)
		if m.kind != tar.TypeReg || base == "readme.html" || strings.HasSuffix(base, "~") {
			continue
		}
		if err := refuseRelatives(p.path, path.Clean(folder)); err != nil {
			return nil, err
		}
		if k := cifarFormatOf(path.Clean(folder), base); k != nil {
			return &cifarFiles{path: p.path, packed: true, tar: inTars{stdin: p.stdin}, format: k}, nil
		}
		break
	}
	return nil, nil
}

// refuseRelatives tells what else the makers of CIFAR-10 publish from folders and tars of images.
func refuseRelatives(p, folder string) error {
	switch folder {
	case "cifar-10-batches-mat":
		return &FormatError{Path: p, Err: errors.ErrUnsupported,
			Msg: "the MATLAB version of CIFAR-10 is not read: get " + cifarPython.archive + " or " + cifarBinary.archive + ", which hold the same images"}
	case "cifar-100-matlab":
		return &FormatError{Path: p, Err: errors.ErrUnsupported,
			Msg: "the MATLAB version of CIFAR-100 is not read: get " + cifar100Python.archive + " or " + cifar100Binary.archive + ", which hold the same images"}
	}
	return nil
}

// load reads all files, once.
func (c *cifarFiles) load(ctx context.Context) error {
	c.once.Do(func() {
		c.batches = make([]cifarBatch, len(c.format.batches))
		files := c.format.files()
		found := make([]bool, len(files))
		take := func(name string, read func() ([]byte, error)) error {
			i := slices.Index(files, name)
			if i < 0 {
				return nil
			}
			if found[i] {
				return &FormatError{Path: c.path, Entry: name, Msg: "occurs twice"}
			}
			found[i] = true
			data, err := read()
			if err != nil {
				return err
			}
			return c.parse(i, data)
		}
		if c.packed {
			c.err = c.loadTar(ctx, take)
		} else {
			c.err = c.loadFolder(ctx, take)
		}
		for i, ok := range found {
			if c.err == nil && !ok {
				c.err = &FormatError{Path: c.path, Entry: files[i], Msg: "is missing: the download or copy is incomplete"}
			}
		}
	})
	return c.err
}

func (c *cifarFiles) loadTar(ctx context.Context, take func(string, func() ([]byte, error)) error) error {
	t, err := c.tar.open(c.path)
	if err != nil {
		return err
	}
	defer t.Close()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		h, err := t.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		err = take(path.Base(h.Name), func() ([]byte, error) {
			if h.Size > cifarFileBytesMax {
				return nil, t.errorf(h.Name, "%d bytes, more than %d: not one of %s's files", h.Size, cifarFileBytesMax, c.format.set)
			}
			data := make([]byte, h.Size)
			if _, err := io.ReadFull(t.tar, data); err != nil {
				return nil, t.wrap(h.Name, err)
			}
			return data, nil
		})
		if err != nil {
			return err
		}
	}
}

func (c *cifarFiles) loadFolder(ctx context.Context, take func(string, func() ([]byte, error)) error) error {
	for _, name := range c.format.files() {
		if err := ctx.Err(); err != nil {
			return err
		}
		p := filepath.Join(c.path, name)
		info, err := os.Stat(p)
		if errors.Is(err, os.ErrNotExist) {
			continue // load says so
		}
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() || info.Size() > cifarFileBytesMax {
			return &FormatError{Path: p, Msg: fmt.Sprintf("no regular file of at most %d bytes: not one of %s's files", cifarFileBytesMax, c.format.set)}
		}
		if err := take(name, func() ([]byte, error) { return os.ReadFile(p) }); err != nil {
			return err
		}
	}
	return nil
}

// parse keeps what the i-th file says.
func (c *cifarFiles) parse(i int, data []byte) (err error) {
	file := c.format.files()[i]
	defer func() {
		if err != nil {
			err = &FormatError{Path: c.path, Entry: file, Msg: "cannot be read as " + c.format.set, Err: err}
		}
	}()
	if i < len(c.batches) {
		c.batches[i], err = c.format.batch(c.format, data)
		return err
	}
	names, err := c.format.meta(c.format, data)
	one, fine := len(c.format.metas) == 1, i == len(c.batches)
	if err == nil && (one || fine) {
		c.names.fine, err = names.fine, checkCIFARNames(names.fine, c.format.fine)
	}
	if err == nil && c.format.coarse > 0 && (one || !fine) {
		c.names.coarse, err = names.coarse, checkCIFARNames(names.coarse, c.format.coarse)
	}
	return err
}

// checkCIFARNames checks that there are n names, each of which can be a folder's.
func checkCIFARNames(names []string, n int) error {
	if len(names) != n {
		return fmt.Errorf("%d classes, not %d", len(names), n)
	}
	for k, name := range names {
		if clean, err := entryPath(name); err != nil || clean != name || strings.Contains(name, "/") || junk(name) || nameReason(name) != "" ||
			slices.Contains(names[:k], name) {
			return fmt.Errorf("the class name %.60q cannot be used", name)
		}
	}
	return nil
}

// parseBinaryBatch reads records of a label, or of the coarse and the fine one, and an image.
func parseBinaryBatch(f *cifarFormat, data []byte) (cifarBatch, error) {
	head := 1
	if f.coarse > 0 {
		head = 2
	}
	record := head + cifarImageBytes
	if len(data) == 0 || len(data)%record != 0 {
		return cifarBatch{}, fmt.Errorf("%d bytes are no whole number of records of %d", len(data), record)
	}
	column := func(at, classes int) (labels []uint8, err error) {
		for i := at; i < len(data); i += record {
			if int(data[i]) >= classes {
				return nil, fmt.Errorf("image %d has the label %d, the largest is %d", i/record, data[i], classes-1)
			}
			labels = append(labels, data[i])
		}
		return labels, nil
	}
	b := cifarBatch{pixels: data[head:], stride: record}
	var err error
	if b.labels, err = column(head-1, f.fine); err == nil && f.coarse > 0 {
		b.coarse, err = column(0, f.coarse)
	}
	return b, err
}

// parseTextMeta reads class names, one a line, and empty lines after them: fine ones or coarse ones.
func parseTextMeta(_ *cifarFormat, data []byte) (cifarNames, error) {
	var classes []string
	for line := range strings.Lines(string(data)) {
		if name := strings.TrimSpace(line); name != "" {
			classes = append(classes, name)
		}
	}
	return cifarNames{fine: classes, coarse: classes}, nil
}

// pickledDict reads a pickle that is a dictionary.
func pickledDict(data []byte) (pickle.Dict, error) {
	v, err := pickle.Read(data)
	if err != nil {
		return nil, err
	}
	dict, ok := v.(pickle.Dict)
	if !ok {
		return nil, fmt.Errorf("the pickle holds a %T, not a dictionary", v)
	}
	return dict, nil
}

// parsePickledBatch reads the dictionary of a batch.
func parsePickledBatch(f *cifarFormat, data []byte) (cifarBatch, error) {
	dict, err := pickledDict(data)
	if err != nil {
		return cifarBatch{}, err
	}
	pixels, rows, columns, err := pickle.Uint8(dict["data"])
	if err == nil && columns != cifarImageBytes {
		err = fmt.Errorf("it has rows of %d", columns)
	}
	if err != nil {
		return cifarBatch{}, fmt.Errorf("\"data\" is no array of images of %d numbers: %w", cifarImageBytes, err)
	}
	b := cifarBatch{pixels: pixels, stride: cifarImageBytes}
	if f.coarse == 0 {
		b.labels, err = pickledLabels(dict, "labels", rows, f.fine)
		return b, err
	}
	if b.labels, err = pickledLabels(dict, "fine_labels", rows, f.fine); err == nil {
		b.coarse, err = pickledLabels(dict, "coarse_labels", rows, f.coarse)
	}
	return b, err
}

// pickledLabels reads a list of labels.
func pickledLabels(dict pickle.Dict, key string, rows, classes int) ([]uint8, error) {
	list, ok := dict[key].(*pickle.List)
	if !ok || len(list.Items) != rows {
		return nil, fmt.Errorf("%q is no list of %d labels", key, rows)
	}
	labels := make([]uint8, rows)
	for i, item := range list.Items {
		label, ok := item.(int64)
		if !ok || label < 0 || label >= int64(classes) {
			return nil, fmt.Errorf("image %d has the label %d (%T), not a number from 0 to %d", i, label, item, classes-1)
		}
		labels[i] = uint8(label)
	}
	return labels, nil
}

// parsePickledMeta reads the dictionary of class names.
func parsePickledMeta(f *cifarFormat, data []byte) (names cifarNames, err error) {
	dict, err := pickledDict(data)
	if err != nil {
		return names, err
	}
	if f.coarse == 0 {
		names.fine, err = pickledNames(dict, "label_names")
		return names, err
	}
	if names.fine, err = pickledNames(dict, "fine_label_names"); err == nil {
		names.coarse, err = pickledNames(dict, "coarse_label_names")
	}
	return names, err
}

// pickledNames reads a list of names.
func pickledNames(dict pickle.Dict, key string) ([]string, error) {
	list, ok := dict[key].(*pickle.List)
	if !ok {
		return nil, fmt.Errorf("%q is no list", key)
	}
	var classes []string
	for _, item := range list.Items {
		name, ok := item.(pickle.String)
		if !ok {
			return nil, fmt.Errorf("%q holds what is no string", key)
		}
		classes = append(classes, string(name))
	}
	return classes, nil
}

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

	"github.com/imgfeed/imgfeed/internal/source/pickle"
)

const (
	// cifarFileBytesMax bounds what is read of one file; the largest is of 31 MB.
	cifarFileBytesMax = 64 << 20
	// cifarMeta is the place of the file of class names, after the batches.
	cifarMeta = cifarBatches
)

// cifarFormat is one version of the files.
type cifarFormat struct {
	name    string
	folder  string // that the archive unpacks to
	archive string
	files   [cifarBatches + 1]string
	batch   func(data []byte) (cifarBatch, error)
	meta    func(data []byte) ([]string, error)
}

var cifarPython = cifarFormat{
	name: "Python", folder: "cifar-10-batches-py", archive: "cifar-10-python.tar.gz",
	files: [...]string{"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch", "batches.meta"},
	batch: parsePickledBatch, meta: parsePickledMeta,
}

var cifarBinary = cifarFormat{
	name: "binary", folder: "cifar-10-batches-bin", archive: "cifar-10-binary.tar.gz",
	files: [...]string{"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin", "batches.meta.txt"},
	batch: parseBinaryBatch, meta: parseTextMeta,
}

// cifarFormats are the versions; where a folder holds both, the first is taken.
var cifarFormats = []*cifarFormat{&cifarPython, &cifarBinary}

// cifarFormatOf says to which version a file belongs, by its name; nil: to none.
func cifarFormatOf(name string) *cifarFormat {
	for _, k := range cifarFormats {
		if slices.Contains(k.files[:], name) {
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
			if slices.Contains(k.files[:], f) {
				n++
			}
		}
		if n > 1 || n == 1 && len(p.folders) == 0 {
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
		n := len(others)
		others = slices.DeleteFunc(others, func(name string) bool { return name == own(k) })
		if len(others) < n && found == nil {
			found = k
		}
	}
	if found != nil && len(others) > 0 {
		return nil, &FormatError{Path: path, Entry: own(found), Msg: fmt.Sprintf("CIFAR-10 beside other data (%s): build it by its own path, %s",
			someNames(others), filepath.Join(path, own(found)))}
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
		if m.kind != tar.TypeReg || base == "readme.html" {
			continue
		}
		if err := refuseRelatives(p.path, path.Clean(folder)); err != nil {
			return nil, err
		}
		if k := cifarFormatOf(base); k != nil {
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
	case "cifar-100-python", "cifar-100-binary", "cifar-100-matlab":
		return &FormatError{Path: p, Err: errors.ErrUnsupported, Msg: "CIFAR-100 is not read: write its images to class folders and build those"}
	}
	return nil
}

// load reads all files, once.
func (c *cifarFiles) load(ctx context.Context) error {
	c.once.Do(func() {
		var found [cifarBatches + 1]bool
		take := func(name string, read func() ([]byte, error)) error {
			i := slices.Index(c.format.files[:], name)
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
				c.err = &FormatError{Path: c.path, Entry: c.format.files[i], Msg: "is missing: the download or copy is incomplete"}
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
				return nil, t.errorf(h.Name, "%d bytes, more than %d: not one of CIFAR-10's files", h.Size, cifarFileBytesMax)
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
	for _, name := range c.format.files {
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
			return &FormatError{Path: p, Msg: fmt.Sprintf("no regular file of at most %d bytes: not one of CIFAR-10's files", cifarFileBytesMax)}
		}
		if err := take(name, func() ([]byte, error) { return os.ReadFile(p) }); err != nil {
			return err
		}
	}
	return nil
}

// parse keeps what the i-th file says.
func (c *cifarFiles) parse(i int, data []byte) (err error) {
	defer func() {
		if err != nil {
			err = &FormatError{Path: c.path, Entry: c.format.files[i], Msg: "cannot be read as CIFAR-10", Err: err}
		}
	}()
	if i < cifarMeta {
		c.batches[i], err = c.format.batch(data)
		return err
	}
	if c.classes, err = c.format.meta(data); err != nil {
		return err
	}
	if len(c.classes) != cifarClasses {
		return fmt.Errorf("%d classes, not %d", len(c.classes), cifarClasses)
	}
	for k, name := range c.classes {
		if clean, err := entryPath(name); err != nil || clean != name || strings.Contains(name, "/") || junk(name) || nameReason(name) != "" ||
			slices.Contains(c.classes[:k], name) {
			return fmt.Errorf("the class name %.60q cannot be used", name)
		}
	}
	return nil
}

// parseBinaryBatch reads records of a label and an image.
func parseBinaryBatch(data []byte) (cifarBatch, error) {
	const record = 1 + cifarImageBytes
	if len(data) == 0 || len(data)%record != 0 {
		return cifarBatch{}, fmt.Errorf("%d bytes are no whole number of records of %d", len(data), record)
	}
	b := cifarBatch{pixels: data[1:], stride: record, labels: make([]uint8, len(data)/record)}
	for i := range b.labels {
		if b.labels[i] = data[i*record]; b.labels[i] >= cifarClasses {
			return cifarBatch{}, fmt.Errorf("image %d has the label %d, the largest is %d", i, b.labels[i], cifarClasses-1)
		}
	}
	return b, nil
}

// parseTextMeta reads class names, one a line, and empty lines after them.
func parseTextMeta(data []byte) ([]string, error) {
	var classes []string
	for line := range strings.Lines(string(data)) {
		if name := strings.TrimSpace(line); name != "" {
			classes = append(classes, name)
		}
	}
	return classes, nil
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
func parsePickledBatch(data []byte) (cifarBatch, error) {
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
	list, ok := dict["labels"].(*pickle.List)
	if !ok || len(list.Items) != rows {
		return cifarBatch{}, fmt.Errorf("\"labels\" is no list of %d labels", rows)
	}
	b := cifarBatch{pixels: pixels, stride: cifarImageBytes, labels: make([]uint8, rows)}
	for i, item := range list.Items {
		label, ok := item.(int64)
		if !ok || label < 0 || label >= cifarClasses {
			return cifarBatch{}, fmt.Errorf("image %d has the label %d (%T), not a number from 0 to %d", i, label, item, cifarClasses-1)
		}
		b.labels[i] = uint8(label)
	}
	return b, nil
}

// parsePickledMeta reads the dictionary of class names.
func parsePickledMeta(data []byte) ([]string, error) {
	dict, err := pickledDict(data)
	if err != nil {
		return nil, err
	}
	list, ok := dict["label_names"].(*pickle.List)
	if !ok {
		return nil, errors.New("\"label_names\" is no list")
	}
	var classes []string
	for _, item := range list.Items {
		name, ok := item.(pickle.String)
		if !ok {
			return nil, errors.New("\"label_names\" holds what is no string")
		}
		classes = append(classes, string(name))
	}
	return classes, nil
}

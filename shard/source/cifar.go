package source

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/image/bmp"

	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/source/pickle"
)

// cifar is CIFAR-10 and CIFAR-100 (Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009;
// https://www.cs.toronto.edu/~kriz/cifar.html), each of 60,000 colour images of 32×32. There are two versions of the files for readers without
// MATLAB:
//
//	cifar-10-batches-py/   data_batch_1 … 5, test_batch            a pickled dictionary: "data" is an array (10000, 3072) of uint8, "labels" a list
//	                       batches.meta                            a pickled dictionary: "label_names" is the list of the classes
//	cifar-10-batches-bin/  data_batch_1.bin … 5.bin, test_batch.bin  10,000 records: a byte of label, then the pixels
//	                       batches.meta.txt                        the classes, one a line
//	cifar-100-python/      train, test                             as above, with "fine_labels" (100) and "coarse_labels" (20) for "labels"
//	                       meta                                    "fine_label_names" and "coarse_label_names"
//	cifar-100-binary/      train.bin, test.bin                     records with a byte of the coarse label before that of the fine one
//	                       fine_label_names.txt, coarse_label_names.txt
//
// The pixels of an image are three planes, red, green and blue, each from left to right and from top to bottom. Both versions hold the same
// images in the same order, and give the same samples here: image 29 of the training files, counted from 0 through all five as torchvision's
// CIFAR10 does, is "train/automobile/00029" if that is its class; those of test_batch are "test/cat/00000" and so on. CIFAR-100's keys have the
// fine class whichever labels are taken.
var cifar = Kind{
	Name:   "CIFAR",
	Forms:  []string{"cifar-10-python.tar.gz or cifar-100-python.tar.gz, which are read and not executed", "cifar-10-binary.tar.gz or cifar-100-binary.tar.gz", "what these unpack to"},
	Labels: "as torchvision has them, of CIFAR-100 the 100 fine ones, or with --label coarse the 20; the test images are val",
	open:   openCIFAR,
	takes:  []option{optionLabel},
}

const (
	cifarSide       = 32
	cifarPlane      = cifarSide * cifarSide
	cifarImageBytes = 3 * cifarPlane
	cifarBMPBytes   = 54 + cifarImageBytes
	// cifarFileBytesMax bounds what is read of one file; the largest is of 154 MB.
	cifarFileBytesMax = 256 << 20
)

// cifarFormat is one version of the files.
type cifarFormat struct {
	set, version    string // "CIFAR-10", "Python"
	folder, archive string
	train, test     []string // the files of images
	metas           []string // the files of class names; of two the second has the coarse ones
	plain           bool     // names such as train may be those of any files
	pickled         bool
	labels          []cifarLabel // the one in keys first
}

// cifarLabel is a label that every image has: how many classes it has, and what pickles call the labels and the classes' names.
type cifarLabel struct {
	classes     int
	list, names string
}

// cifarFormats are the versions; where a folder holds both, the first is taken.
var cifarFormats = []*cifarFormat{&cifarPython, &cifarBinary, &cifar100Python, &cifar100Binary}

var (
	cifarPython = cifarFormat{
		set: "CIFAR-10", version: "Python", folder: "cifar-10-batches-py", archive: "cifar-10-python.tar.gz", pickled: true,
		train: []string{"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5"}, test: []string{"test_batch"},
		metas: []string{"batches.meta"}, labels: []cifarLabel{{10, "labels", "label_names"}},
	}
	cifarBinary = cifarFormat{
		set: "CIFAR-10", version: "binary", folder: "cifar-10-batches-bin", archive: "cifar-10-binary.tar.gz",
		train: []string{"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"}, test: []string{"test_batch.bin"},
		metas: []string{"batches.meta.txt"}, labels: []cifarLabel{{classes: 10}},
	}
	cifar100Python = cifarFormat{
		set: "CIFAR-100", version: "Python", folder: "cifar-100-python", archive: "cifar-100-python.tar.gz", pickled: true, plain: true,
		train: []string{"train"}, test: []string{"test"},
		metas: []string{"meta"}, labels: []cifarLabel{{100, "fine_labels", "fine_label_names"}, {20, "coarse_labels", "coarse_label_names"}},
	}
	cifar100Binary = cifarFormat{
		set: "CIFAR-100", version: "binary", folder: "cifar-100-binary", archive: "cifar-100-binary.tar.gz", plain: true,
		train: []string{"train.bin"}, test: []string{"test.bin"},
		metas: []string{"fine_label_names.txt", "coarse_label_names.txt"}, labels: []cifarLabel{{classes: 100}, {classes: 20}},
	}
)

func (f *cifarFormat) files() []string { return slices.Concat(f.train, f.test, f.metas) }
func (f *cifarFormat) record() int     { return len(f.labels) + cifarImageBytes } // a byte for each label

// cifarFiles is what the two splits of one CIFAR share: all its files, as the binary version has them, 184 MB, which stay in memory from the first Walk on.
type cifarFiles struct {
	path    string // the archive or folder
	packed  bool
	tar     inTars // if packed
	format  *cifarFormat
	label   int // in format.labels, that is taken
	once    sync.Once
	err     error
	data    map[string][]byte
	classes [2][]string
}

// cifarSplit is the training or the test files as a split.
type cifarSplit struct {
	*cifarFiles
	prefix string // of the keys: "train" or "test"
	names  []string
	images int // as published
}

func openCIFAR(p *place) ([]*Split, error) {
	if p.part || p.given {
		return nil, nil
	}
	c, err := findCIFAR(p)
	if c == nil || err != nil {
		return nil, err
	}
	switch label := p.opts.Label; {
	case p.opts.Split != "":
		return nil, &FormatError{Path: c.path, Msg: fmt.Sprintf("holds two splits, train and val (the test images), which cannot both be called %q", p.opts.Split)}
	case label != "" && len(c.format.labels) == 1:
		return nil, &FormatError{Path: c.path, Msg: fmt.Sprintf("--label %s: %s has one label for each image", label, c.format.set)}
	case label == "coarse":
		c.label = 1
	case label != "" && label != "fine":
		return nil, &FormatError{Path: c.path, Msg: fmt.Sprintf("--label %s: %s has the labels fine and coarse", label, c.format.set)}
	}
	out := stem(c.path)
	return []*Split{
		{Name: "train", Path: c.path, Output: out + "-train-shards", decoded: true, layout: &cifarSplit{c, "train", c.format.train, 50_000}},
		{Name: "val", Path: c.path, Output: out + "-val-shards", decoded: true, layout: &cifarSplit{c, "test", c.format.test, 10_000}},
	}, nil
}

// findCIFAR says whether a place is a CIFAR unpacked or one of the archives, or a folder that holds one of these; nil: neither.
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
	if len(p.folders) > 0 {
		k, err := oneOfCIFAR(p.path, p.folders, func(k *cifarFormat) string { return k.folder })
		if k == nil || err != nil {
			return nil, err
		}
		return &cifarFiles{path: filepath.Join(p.path, k.folder), format: k}, nil
	}
	if err := refuseMATLAB(p.path, filepath.Base(p.path)); err != nil {
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

// oneOfCIFAR returns the first of the versions whose own name is among the names; nil: none. There must be nothing else but another version of the
// same: it would be left out, or the whole taken for a folder of classes.
func oneOfCIFAR(path string, names []string, own func(*cifarFormat) string) (*cifarFormat, error) {
	var found *cifarFormat
	others := slices.Clone(names)
	for _, k := range cifarFormats {
		if slices.Contains(names, own(k)) && (found == nil || k.set == found.set) {
			others = slices.DeleteFunc(others, func(name string) bool { return name == own(k) })
			if found == nil {
				found = k
			}
		}
	}
	if found != nil && len(others) > 0 {
		return nil, &FormatError{Path: path, Entry: own(found), Msg: fmt.Sprintf("%s beside other data (%s): build it by its own path, %s",
			found.set, someNames(others), filepath.Join(path, own(found)))}
	}
	return found, nil
}

// sniffCIFAR says whether a tar is an archive of CIFAR, by its first file that says something; nil: it is none.
func sniffCIFAR(p *place) (*cifarFiles, error) {
	for i := range 100 { // members that say nothing: folders, readme.html
		m, err := p.member(i)
		if err == io.EOF {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		folder, name := path.Split(m.name)
		if m.kind != tar.TypeReg || name == "readme.html" || strings.HasSuffix(name, "~") {
			continue
		}
		for _, k := range cifarFormats {
			if slices.Contains(k.files(), name) && (!k.plain || path.Base(folder) == k.folder) {
				return &cifarFiles{path: p.path, packed: true, tar: inTars{stdin: p.stdin}, format: k}, nil
			}
		}
		return nil, refuseMATLAB(p.path, path.Clean(folder))
	}
	return nil, nil
}

// refuseMATLAB tells the versions for MATLAB, which are not read, from folders and tars of images.
func refuseMATLAB(p, folder string) error {
	for name, formats := range map[string][2]*cifarFormat{"cifar-10-batches-mat": {&cifarPython, &cifarBinary}, "cifar-100-matlab": {&cifar100Python, &cifar100Binary}} {
		if folder == name {
			return &FormatError{Path: p, Err: errors.ErrUnsupported, Msg: fmt.Sprintf("the MATLAB version of %s is not read: get %s or %s, which hold the same images",
				formats[0].set, formats[0].archive, formats[1].archive)}
		}
	}
	return nil
}

// load reads all files, once.
func (c *cifarFiles) load(ctx context.Context) error {
	c.once.Do(func() {
		c.data = make(map[string][]byte)
		read := c.readFolder
		if c.packed {
			read = c.readTar
		}
		if c.err = read(ctx); c.err == nil {
			c.err = c.check()
		}
	})
	return c.err
}

func (c *cifarFiles) readTar(ctx context.Context) error {
	t, err := c.tar.open(c.path)
	if err != nil {
		return err
	}
	defer t.Close()
	for {
		h, err := t.next()
		if err == io.EOF {
			return nil
		}
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		if h.Typeflag == tar.TypeReg {
			err = c.take(path.Base(h.Name), h.Size, t.tar)
		}
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = t.wrap(h.Name, err)
		}
		if err != nil {
			return err
		}
	}
}

func (c *cifarFiles) readFolder(ctx context.Context) error {
	for _, name := range c.format.files() {
		f, err := os.Open(filepath.Join(c.path, name))
		if errors.Is(err, os.ErrNotExist) {
			continue // check says so
		}
		if err != nil {
			return err
		}
		info, err := f.Stat()
		if err == nil {
			err = errors.Join(ctx.Err(), c.take(name, info.Size(), f))
		}
		f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// take reads a file, if it is one of the format's.
func (c *cifarFiles) take(name string, size int64, r io.Reader) error {
	switch {
	case !slices.Contains(c.format.files(), name):
		return nil
	case c.data[name] != nil:
		return &FormatError{Path: c.path, Entry: name, Msg: "occurs twice"}
	case size > cifarFileBytesMax:
		return &FormatError{Path: c.path, Entry: name, Msg: fmt.Sprintf("%d bytes, more than %d: not one of %s's files", size, cifarFileBytesMax, c.format.set)}
	}
	c.data[name] = make([]byte, size)
	_, err := io.ReadFull(r, c.data[name])
	return err
}

// check checks that all files are there and well formed, and makes of pickles what the binary version has.
func (c *cifarFiles) check() error {
	for _, name := range c.format.files() {
		data, ok := c.data[name]
		if !ok {
			return &FormatError{Path: c.path, Entry: name, Msg: "is missing: the download or copy is incomplete"}
		}
		var err error
		switch i := slices.Index(c.format.metas, name); {
		case c.format.pickled:
			err = c.unpickle(name, i >= 0)
		case i >= 0:
			c.classes[i], err = cifarClasses(slices.Collect(strings.Lines(string(data))), c.format.labels[i].classes)
		default:
			err = c.checkRecords(data)
		}
		if err != nil {
			return &FormatError{Path: c.path, Entry: name, Msg: "cannot be read as " + c.format.set, Err: err}
		}
	}
	return nil
}

func (c *cifarFiles) checkRecords(data []byte) error {
	size, labels := c.format.record(), c.format.labels
	if len(data) == 0 || len(data)%size != 0 {
		return fmt.Errorf("%d bytes are no whole number of records of %d", len(data), size)
	}
	for i := 0; i < len(data); i += size {
		for k := range labels {
			if label, n := data[i+len(labels)-1-k], labels[k].classes; int(label) >= n {
				return fmt.Errorf("image %d has the label %d, the largest is %d", i/size, label, n-1)
			}
		}
	}
	return nil
}

// cifarClasses checks that lines are n class names, each of which can be a folder's. Empty lines count for nothing.
func cifarClasses(lines []string, n int) (names []string, err error) {
	for _, line := range lines {
		name := strings.TrimSpace(line)
		if name == "" {
			continue
		}
		if clean, err := entryPath(name); err != nil || clean != name || strings.Contains(name, "/") || junk(name) || nameReason(name) != "" || slices.Contains(names, name) {
			return nil, fmt.Errorf("the class name %.60q cannot be used", name)
		}
		names = append(names, name)
	}
	if len(names) != n {
		return nil, fmt.Errorf("%d classes, not %d", len(names), n)
	}
	return names, nil
}

// unpickle reads the dictionary of class names, or of a batch, which becomes records.
func (c *cifarFiles) unpickle(name string, meta bool) error {
	v, err := pickle.Read(c.data[name])
	if err != nil {
		return err
	}
	dict, ok := v.(pickle.Dict)
	if !ok {
		return fmt.Errorf("the pickle holds a %T, not a dictionary", v)
	}
	if !meta {
		c.data[name], err = c.format.unpickleBatch(dict)
		return err
	}
	for k, label := range c.format.labels {
		list, ok := dict[label.names].(*pickle.List)
		if !ok {
			return fmt.Errorf("%q is no list", label.names)
		}
		var names []string
		for _, item := range list.Items {
			name, ok := item.(pickle.String)
			if !ok {
				return fmt.Errorf("%q holds what is no string", label.names)
			}
			names = append(names, string(name))
		}
		if c.classes[k], err = cifarClasses(names, label.classes); err != nil {
			return err
		}
	}
	return nil
}

// unpickleBatch makes records of the array of images and the lists of labels.
func (f *cifarFormat) unpickleBatch(dict pickle.Dict) ([]byte, error) {
	pixels, rows, columns, err := pickle.Uint8(dict["data"])
	if err == nil && columns != cifarImageBytes {
		err = fmt.Errorf("it has rows of %d", columns)
	}
	if err != nil {
		return nil, fmt.Errorf("\"data\" is no array of images of %d numbers: %w", cifarImageBytes, err)
	}
	lists := make([]*pickle.List, len(f.labels))
	for k, label := range f.labels {
		list, ok := dict[label.list].(*pickle.List)
		if !ok || len(list.Items) != rows {
			return nil, fmt.Errorf("%q is no list of %d labels", label.list, rows)
		}
		lists[k] = list
	}
	records := make([]byte, 0, rows*f.record())
	for i := range rows {
		for k := len(lists) - 1; k >= 0; k-- {
			label, ok := lists[k].Items[i].(int64)
			if !ok || label < 0 || label >= int64(f.labels[k].classes) {
				return nil, fmt.Errorf("image %d has the label %v (%T), not a number from 0 to %d", i, lists[k].Items[i], lists[k].Items[i], f.labels[k].classes-1)
			}
			records = append(records, byte(label))
		}
		records = append(records, pixels[i*cifarImageBytes:][:cifarImageBytes]...)
	}
	return records, nil
}

func (c *cifarSplit) describe() string {
	what, place := map[string]string{"train": "training", "test": "test"}[c.prefix], "folder"
	if c.packed {
		place = "archive"
	}
	return fmt.Sprintf("the %s images of %s, the %s version's %s", what, c.format.set, c.format.version, place)
}

func (c *cifarSplit) streamed() bool { return false }
func (c *cifarSplit) bytes() int64   { return 0 }

// record returns the record at a place among all of the split, and its key; nil: there are fewer.
func (c *cifarSplit) record(place int) (record []byte, key string) {
	size, rest := c.format.record(), place
	for _, name := range c.names {
		if n := len(c.data[name]) / size; rest >= n {
			rest -= n
			continue
		}
		record = c.data[name][rest*size:][:size]
		return record, fmt.Sprintf("%s/%s/%05d", c.prefix, c.classes[0][record[len(c.format.labels)-1]], place)
	}
	return nil, ""
}

func (c *cifarSplit) walk(ctx context.Context, s *Split, fn func(Item) error) (labels, error) {
	if err := c.load(ctx); err != nil {
		return labels{}, err
	}
	l := newLabels(c.classes[c.label])
	if c.label > 0 {
		s.note("the labels are the %d coarse ones", len(l.classes))
	}
	l.byKey = make(map[string]int32)
	for {
		record, key := c.record(len(l.byKey))
		if record == nil {
			break
		}
		l.byKey[key] = int32(record[len(c.format.labels)-1-c.label])
		if err := ctx.Err(); err != nil {
			return labels{}, err
		}
		if err := fn(Item{Key: key}); err != nil {
			return labels{}, err
		}
	}
	if len(l.byKey) != c.images {
		s.note("%s has %d %s images, %s as published has %d", s.Path, len(l.byKey), c.prefix, c.format.set, c.images)
	}
	return l, nil
}

// read returns the image of a key as a file in the format BMP, which every reader of images knows, loses nothing and takes no time to make. At least
// shard.SlackBytes of capacity are left after it.
func (c *cifarSplit) read(key string, buf []byte) ([]byte, error) {
	place, err := strconv.Atoi(key[strings.LastIndexByte(key, '/')+1:])
	record, own := c.record(max(place, 0))
	if err != nil || place < 0 || own != key {
		return nil, fmt.Errorf("source: %s: no image %q", c.path, key)
	}
	planes := record[len(c.format.labels):]
	img := image.NewRGBA(image.Rect(0, 0, cifarSide, cifarSide))
	for i := range cifarPlane {
		copy(img.Pix[4*i:], []byte{planes[i], planes[cifarPlane+i], planes[2*cifarPlane+i], 0xff})
	}
	w := bytes.NewBuffer(slices.Grow(buf[:0], cifarBMPBytes+shard.SlackBytes))
	err = bmp.Encode(w, img)
	return w.Bytes(), err
}

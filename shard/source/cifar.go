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
	// cifarFileBytesMax bounds what is read of one file; the largest is of 156 MB.
	cifarFileBytesMax = 256 << 20
)

// cifarImages are how many images each split has as published, by the prefix of its keys.
var cifarImages = map[string]int{"train": 50_000, "test": 10_000}

// cifarFormat is one version of the files.
type cifarFormat struct {
	set          string // "CIFAR-10"
	name         string
	folder       string // that the archive unpacks to
	archive      string
	batches      []string // the files of images; the last is for testing
	metas        []string // the files of class names
	plain        bool     // names such as train may be those of any files
	fine, coarse int      // classes
	parse        func(f *cifarFormat, file string, data []byte) (cifarFile, error)
}

// files are the names of all files.
func (f *cifarFormat) files() []string { return slices.Concat(f.batches, f.metas) }

var (
	cifarPython = cifarFormat{
		set: "CIFAR-10", name: "Python", folder: "cifar-10-batches-py", archive: "cifar-10-python.tar.gz",
		batches: []string{"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch"}, metas: []string{"batches.meta"},
		fine: 10, parse: parsePickledCIFAR,
	}
	cifarBinary = cifarFormat{
		set: "CIFAR-10", name: "binary", folder: "cifar-10-batches-bin", archive: "cifar-10-binary.tar.gz",
		batches: []string{"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"}, metas: []string{"batches.meta.txt"},
		fine: 10, parse: parseBinaryCIFAR,
	}
	cifar100Python = cifarFormat{
		set: "CIFAR-100", name: "Python", folder: "cifar-100-python", archive: "cifar-100-python.tar.gz", plain: true,
		batches: []string{"train", "test"}, metas: []string{"meta"},
		fine: 100, coarse: 20, parse: parsePickledCIFAR,
	}
	cifar100Binary = cifarFormat{
		set: "CIFAR-100", name: "binary", folder: "cifar-100-binary", archive: "cifar-100-binary.tar.gz", plain: true,
		batches: []string{"train.bin", "test.bin"}, metas: []string{"fine_label_names.txt", "coarse_label_names.txt"},
		fine: 100, coarse: 20, parse: parseBinaryCIFAR,
	}
)

// cifarFormats are the versions; where a folder holds both, the first is taken.
var cifarFormats = []*cifarFormat{&cifarPython, &cifarBinary, &cifar100Python, &cifar100Binary}

// cifarFile is what one file says.
type cifarFile struct {
	pixels                 []byte // of image i from i*stride on
	stride                 int
	fine, coarse           []uint8 // labels; CIFAR-10 has no coarse ones
	fineNames, coarseNames []string
}

// cifarFiles is what the two splits of one CIFAR share: all its images, 184 MB, which stay in memory from the first Walk on.
type cifarFiles struct {
	path     string // the archive or folder
	packed   bool
	tar      inTars // if packed
	format   *cifarFormat
	byCoarse bool // the labels are the coarse ones

	once                   sync.Once
	err                    error
	batches                []cifarFile
	fineNames, coarseNames []string
}

// cifarSplit is the training or the test files as a split.
type cifarSplit struct {
	files   *cifarFiles
	prefix  string // of the keys: "train" or "test"
	batches []int  // which of the files
}

func openCIFAR(p *place) ([]*Split, error) {
	if p.part || p.given {
		return nil, nil
	}
	files, err := findCIFAR(p)
	if files == nil || err != nil {
		return nil, err
	}
	set, label := files.format.set, p.opts.Label
	files.byCoarse = label == "coarse"
	switch {
	case p.opts.Split != "":
		return nil, &FormatError{Path: files.path, Msg: fmt.Sprintf("holds two splits, train and val (the test images), which cannot both be called %q", p.opts.Split)}
	case label != "" && files.format.coarse == 0:
		return nil, &FormatError{Path: files.path, Msg: fmt.Sprintf("--label %s: %s has one label for each image", label, set)}
	case label != "" && label != "fine" && label != "coarse":
		return nil, &FormatError{Path: files.path, Msg: fmt.Sprintf("--label %s: %s has the labels fine and coarse", label, set)}
	}
	last := len(files.format.batches) - 1
	train, test := &cifarSplit{files: files, prefix: "train"}, &cifarSplit{files: files, prefix: "test", batches: []int{last}}
	for i := range last {
		train.batches = append(train.batches, i)
	}
	out := stem(files.path)
	return []*Split{
		{Name: "train", Path: files.path, Output: out + "-train-shards", decoded: true, layout: train},
		{Name: "val", Path: files.path, Output: out + "-val-shards", decoded: true, layout: test},
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
		c.batches = make([]cifarFile, len(c.format.batches))
		found := make(map[string]bool)
		take := func(name string, size int64, r io.Reader) error {
			switch {
			case !slices.Contains(c.format.files(), name):
				return nil
			case found[name]:
				return &FormatError{Path: c.path, Entry: name, Msg: "occurs twice"}
			case size > cifarFileBytesMax:
				return &FormatError{Path: c.path, Entry: name, Msg: fmt.Sprintf("%d bytes, more than %d: not one of %s's files", size, cifarFileBytesMax, c.format.set)}
			}
			found[name] = true
			data := make([]byte, size)
			if _, err := io.ReadFull(r, data); err != nil {
				return err
			}
			return errors.Join(ctx.Err(), c.take(name, data))
		}
		read := c.readFolder
		if c.packed {
			read = c.readTar
		}
		c.err = read(take)
		for _, name := range c.format.files() {
			if c.err == nil && !found[name] {
				c.err = &FormatError{Path: c.path, Entry: name, Msg: "is missing: the download or copy is incomplete"}
			}
		}
	})
	return c.err
}

func (c *cifarFiles) readTar(take func(name string, size int64, r io.Reader) error) error {
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
		if err == nil && h.Typeflag == tar.TypeReg {
			if err = take(path.Base(h.Name), h.Size, t.tar); errors.Is(err, io.ErrUnexpectedEOF) {
				err = t.wrap(h.Name, err)
			}
		}
		if err != nil {
			return err
		}
	}
}

func (c *cifarFiles) readFolder(take func(name string, size int64, r io.Reader) error) error {
	for _, name := range c.format.files() {
		p := filepath.Join(c.path, name)
		info, err := os.Stat(p)
		switch {
		case errors.Is(err, os.ErrNotExist):
			continue // load says so
		case err != nil:
			return err
		case !info.Mode().IsRegular():
			return &FormatError{Path: p, Msg: fmt.Sprintf("no regular file: not one of %s's files", c.format.set)}
		}
		f, err := os.Open(p)
		if err != nil {
			return err
		}
		err = take(name, info.Size(), f)
		f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// take keeps what a file says.
func (c *cifarFiles) take(name string, data []byte) (err error) {
	f, err := c.format.parse(c.format, name, data)
	if i := slices.Index(c.format.batches, name); i >= 0 {
		c.batches[i] = f
	} else {
		if err == nil && !strings.HasPrefix(name, "coarse") {
			c.fineNames, err = f.fineNames, checkCIFARNames(f.fineNames, c.format.fine)
		}
		if err == nil && c.format.coarse > 0 && !strings.HasPrefix(name, "fine") {
			c.coarseNames, err = f.coarseNames, checkCIFARNames(f.coarseNames, c.format.coarse)
		}
	}
	if err != nil {
		return &FormatError{Path: c.path, Entry: name, Msg: "cannot be read as " + c.format.set, Err: err}
	}
	return nil
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

// parseBinaryCIFAR reads records of a label, or of the coarse and the fine one, and an image; or class names, one a line, and empty lines after them.
func parseBinaryCIFAR(f *cifarFormat, file string, data []byte) (b cifarFile, err error) {
	if strings.HasSuffix(file, ".txt") {
		for line := range strings.Lines(string(data)) {
			if name := strings.TrimSpace(line); name != "" {
				b.fineNames = append(b.fineNames, name)
			}
		}
		b.coarseNames = b.fineNames
		return b, nil
	}
	head := 1
	if f.coarse > 0 {
		head = 2
	}
	record := head + cifarImageBytes
	if len(data) == 0 || len(data)%record != 0 {
		return b, fmt.Errorf("%d bytes are no whole number of records of %d", len(data), record)
	}
	b = cifarFile{pixels: data[head:], stride: record}
	for i := 0; i < len(data) && err == nil; i += record {
		b.fine = append(b.fine, data[i+head-1])
		if err = checkCIFARLabel(i/record, int64(data[i+head-1]), f.fine); err == nil && f.coarse > 0 {
			b.coarse = append(b.coarse, data[i])
			err = checkCIFARLabel(i/record, int64(data[i]), f.coarse)
		}
	}
	return b, err
}

func checkCIFARLabel(image int, label int64, classes int) error {
	if label < 0 || label >= int64(classes) {
		return fmt.Errorf("image %d has the label %d, the largest is %d", image, label, classes-1)
	}
	return nil
}

func (c *cifarSplit) describe() string {
	what, place := map[string]string{"train": "training", "test": "test"}[c.prefix], "folder"
	if c.files.packed {
		place = "archive"
	}
	return fmt.Sprintf("the %s images of %s, the %s version's %s", what, c.files.format.set, c.files.format.name, place)
}

func (c *cifarSplit) streamed() bool { return false }
func (c *cifarSplit) bytes() int64   { return 0 }

func (c *cifarSplit) walk(ctx context.Context, s *Split, fn func(Item) error) (labels, error) {
	if err := c.files.load(ctx); err != nil {
		return labels{}, err
	}
	l := newLabels(c.files.fineNames)
	if c.files.byCoarse {
		l = newLabels(c.files.coarseNames)
		s.note("the labels are the %d coarse ones", len(l.classes))
	}
	l.byKey = make(map[string]int32)
	for _, b := range c.batches {
		of := c.files.batches[b].fine
		if c.files.byCoarse {
			of = c.files.batches[b].coarse
		}
		for i, fine := range c.files.batches[b].fine {
			key := c.key(len(l.byKey), fine)
			l.byKey[key] = int32(of[i])
			if err := fn(Item{Key: key}); err != nil {
				return labels{}, err
			}
		}
		if err := ctx.Err(); err != nil {
			return labels{}, err
		}
	}
	if want := cifarImages[c.prefix]; len(l.byKey) != want {
		s.note("%s has %d %s images, %s as published has %d", s.Path, len(l.byKey), c.prefix, c.files.format.set, want)
	}
	return l, nil
}

// key names the image that stands at a place among all images of the split.
func (c *cifarSplit) key(place int, label uint8) string {
	return fmt.Sprintf("%s/%s/%05d", c.prefix, c.files.fineNames[label], place)
}

// read returns the image of a key as a file in the format BMP, which every reader of images knows, loses nothing and takes no time to make.
func (c *cifarSplit) read(key string, buf []byte) ([]byte, error) {
	place, err := strconv.Atoi(key[strings.LastIndexByte(key, '/')+1:])
	rest := place
	for _, b := range c.batches {
		batch := &c.files.batches[b]
		if err != nil || place < 0 || rest < len(batch.fine) && c.key(place, batch.fine[rest]) != key {
			break
		}
		if rest < len(batch.fine) {
			return appendBMP(buf[:0], batch.pixels[rest*batch.stride:][:cifarImageBytes])
		}
		rest -= len(batch.fine)
	}
	return nil, fmt.Errorf("source: %s: no image %q", c.files.path, key)
}

// appendBMP appends the BMP file of an image's planes. At least shard.SlackBytes of capacity are left after it.
func appendBMP(dst, planes []byte) ([]byte, error) {
	img := image.NewRGBA(image.Rect(0, 0, cifarSide, cifarSide))
	for i := range cifarPlane {
		copy(img.Pix[4*i:], []byte{planes[i], planes[cifarPlane+i], planes[2*cifarPlane+i], 0xff})
	}
	w := bytes.NewBuffer(slices.Grow(dst, cifarBMPBytes+shard.SlackBytes))
	err := bmp.Encode(w, img)
	return w.Bytes(), err
}

// parsePickledCIFAR reads the dictionary of a batch or of class names.
func parsePickledCIFAR(f *cifarFormat, file string, data []byte) (b cifarFile, err error) {
	v, err := pickle.Read(data)
	if err != nil {
		return b, err
	}
	dict, ok := v.(pickle.Dict)
	if !ok {
		return b, fmt.Errorf("the pickle holds a %T, not a dictionary", v)
	}
	fine, coarse := "labels", ""
	if f.coarse > 0 {
		fine, coarse = "fine_labels", "coarse_labels"
	}
	if slices.Contains(f.metas, file) {
		// "label_names", or "fine_label_names" and "coarse_label_names"
		if b.fineNames, err = pickledNames(dict, strings.TrimSuffix(fine, "s")+"_names"); err == nil && f.coarse > 0 {
			b.coarseNames, err = pickledNames(dict, "coarse_label_names")
		}
		return b, err
	}
	pixels, rows, columns, err := pickle.Uint8(dict["data"])
	if err == nil && columns != cifarImageBytes {
		err = fmt.Errorf("it has rows of %d", columns)
	}
	if err != nil {
		return b, fmt.Errorf("\"data\" is no array of images of %d numbers: %w", cifarImageBytes, err)
	}
	b = cifarFile{pixels: pixels, stride: cifarImageBytes}
	if b.fine, err = pickledLabels(dict, fine, rows, f.fine); err == nil && f.coarse > 0 {
		b.coarse, err = pickledLabels(dict, coarse, rows, f.coarse)
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
		if !ok {
			return nil, fmt.Errorf("image %d has the label %v (%T), which is no number", i, item, item)
		}
		if err := checkCIFARLabel(i, label, classes); err != nil {
			return nil, err
		}
		labels[i] = uint8(label)
	}
	return labels, nil
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

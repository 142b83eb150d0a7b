package source

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/image/bmp"

	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/transport"
)

// cifar is the binary version of CIFAR-10 and CIFAR-100 (Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009;
// https://www.cs.toronto.edu/~kriz/cifar.html). Each has 60,000 colour images of 32×32:
//
//	cifar-10-batches-bin/  data_batch_1.bin … 5.bin, test_batch.bin  10,000 records: a byte of label, then the pixels.
//	                       batches.meta.txt                        the classes, one a line.
//	cifar-100-binary/      train.bin, test.bin                     records with a byte of the coarse label before that of the fine one.
//	                       fine_label_names.txt, coarse_label_names.txt.
//
// The pixels of an image are three planes, red, green and blue, each from left to right and from top to bottom. Image 29 of the training
// files, counted from 0 through all five as in torchvision's CIFAR10, is "train/automobile/00029" if it is an automobile; those of
// test_batch are "test/cat/00000" and so on. CIFAR-100's keys have the fine class whichever labels are taken.
var cifar = dataset.Kind{
	Name:    "CIFAR",
	Forms:   []string{"cifar-10-binary.tar.gz or cifar-100-binary.tar.gz", "the folder that it unpacks to"},
	Labels:  "as in torchvision; for CIFAR-100 the 100 fine ones, or with --label coarse the 20 coarse ones. The test images are val",
	Takes:   []string{"--label"},
	Decoded: true,
}

const (
	cifarSide       = 32
	cifarPlane      = cifarSide * cifarSide
	cifarImageBytes = 3 * cifarPlane
	cifarBMPBytes   = 54 + cifarImageBytes
)

type cifarFormat struct {
	name, folder string
	train, test  []string // the files of images
	metas        []string // the files of class names: of those in keys, and of the coarse ones
	classes      [2]int   // number of classes in each of metas
}

var cifar10 = cifarFormat{
	name: "CIFAR-10", folder: "cifar-10-batches-bin",
	train: []string{"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"},
	test:  []string{"test_batch.bin"},
	metas: []string{"batches.meta.txt"}, classes: [2]int{10},
}

var cifar100 = cifarFormat{
	name: "CIFAR-100", folder: "cifar-100-binary",
	train: []string{"train.bin"}, test: []string{"test.bin"},
	metas: []string{"fine_label_names.txt", "coarse_label_names.txt"}, classes: [2]int{100, 20},
}

func (f *cifarFormat) files() []string { return slices.Concat(f.train, f.test, f.metas) }
func (f *cifarFormat) record() int     { return len(f.metas) + cifarImageBytes } // a byte for each label

// cifarFiles holds all files of one CIFAR for its two splits: 184 MB, in memory from the first Walk on.
type cifarFiles struct {
	path    string              // the archive or folder
	from    transport.Transport // the files
	format  *cifarFormat
	label   int // index into metas: 1 for coarse labels
	once    sync.Once
	err     error
	data    map[string][]byte
	classes [2][]string
}

// cifarSplit is the training or the test files as a split.
type cifarSplit struct {
	*cifarFiles
	prefix  string // begins the keys: "train" or "test"
	names   []string
	records [][]byte
}

func openCIFAR(from *candidate) ([]*dataset.Split, error) {
	if from.part {
		return nil, nil
	}
	format, err := sniffCIFAR(from)
	if format == nil || err != nil {
		return nil, err
	}
	c := &cifarFiles{path: from.path, format: format}
	switch label := from.opts.Label; {
	case from.opts.Split != "":
		return nil, transport.Refuse(c.path, "holds two splits, train and val (the test images), which cannot both be called %q",
			from.opts.Split)
	case label == "coarse" && format == &cifar100:
		c.label = 1
	case label != "" && (label != "fine" || format == &cifar10):
		return nil, transport.Refuse(c.path, "--label %s: CIFAR-100 has the labels fine and coarse, CIFAR-10 has one label", label)
	}
	if from.form == aFolder {
		c.from = &transport.TreeFiles{FS: from.tree, Root: c.path}
	} else if c.from, err = from.inTars(); err != nil {
		return nil, err
	}
	form := "folder"
	if c.from.Streamed() {
		form = "archive"
	}
	of := fmt.Sprintf("images of %s, the binary version's %s", format.name, form)
	return []*dataset.Split{
		from.one("train").newSplit("the training "+of, &cifarSplit{cifarFiles: c, prefix: "train", names: format.train}, nil),
		from.one("val").newSplit("the test "+of, &cifarSplit{cifarFiles: c, prefix: "test", names: format.test}, nil),
	}, nil
}

// sniffCIFAR recognises CIFAR by its files: those of a folder, or the first of an archive except readme.html. It returns nil for others.
func sniffCIFAR(c *candidate) (*cifarFormat, error) {
	if c.form == aFolder {
		for _, f := range []*cifarFormat{&cifar10, &cifar100} {
			n := len(slices.DeleteFunc(f.files(), func(name string) bool { return !slices.Contains(c.files, name) }))
			if n > 1 || n == 1 && f == &cifar10 && len(c.folders) == 0 { // a train.bin alone may be anything
				return f, nil
			}
		}
		return nil, nil
	}
	for i := 0; ; i++ {
		m, err := c.member(i)
		if err == io.EOF {
			return nil, nil
		}
		folder, name := path.Split(m.name)
		switch {
		case err != nil:
			return nil, err
		case m.kind == tar.TypeDir || name == "readme.html":
			continue
		case slices.Contains(cifar10.files(), name):
			return &cifar10, nil
		case slices.Contains(cifar100.files(), name) && path.Base(folder) == cifar100.folder:
			return &cifar100, nil
		}
		return nil, nil
	}
}

// load reads all files, once, and finds the records of the split.
func (c *cifarSplit) load(ctx context.Context) error {
	c.once.Do(func() {
		c.data = make(map[string][]byte)
		if c.err = c.from.Files(&transport.Walk{Ctx: ctx}, c.take); c.err == nil {
			c.err = c.check()
		}
	})
	if c.err == nil && c.records == nil {
		for _, name := range c.names {
			c.records = slices.AppendSeq(c.records, slices.Chunk(c.data[name], c.format.record()))
		}
	}
	return c.err
}

// take keeps the content of a file that belongs to the format.
func (c *cifarFiles) take(f *transport.Item) (err error) {
	name := path.Base(f.Name)
	switch {
	case f.Folder:
		return fs.SkipDir
	case !slices.Contains(c.format.files(), name):
		return nil
	case c.data[name] != nil:
		return f.Errorf("occurs twice")
	case f.Reason != "":
		return f.Errorf("not one of %s's files: %s", c.format.name, f.Reason)
	case f.Data != nil:
		c.data[name] = make([]byte, f.Size)
		_, err = io.ReadFull(f.Data, c.data[name])
		return err
	}
	if c.data[name], err = c.from.Read(f.Key, nil); err != nil {
		err = f.Errorf("%v", err)
	}
	return err
}

// check checks that all files are there and well formed.
func (c *cifarFiles) check() error {
	for _, name := range c.format.files() {
		data, ok := c.data[name]
		if !ok {
			return transport.RefuseEntry(c.path, name, "is missing: the download or copy is incomplete")
		}
		var err error
		if i := slices.Index(c.format.metas, name); i >= 0 {
			c.classes[i], err = cifarClasses(data, c.format.classes[i])
		} else {
			err = c.checkRecords(data)
		}
		if err != nil {
			return transport.RefuseEntry(c.path, name, "cannot be read as %s", c.format.name).Because(err)
		}
	}
	return nil
}

func (c *cifarFiles) checkRecords(data []byte) error {
	size, labels := c.format.record(), len(c.format.metas)
	if len(data) == 0 || len(data)%size != 0 {
		return fmt.Errorf("%d bytes are not a whole number of records of %d", len(data), size)
	}
	for i := 0; i < len(data); i += size {
		for k := range labels {
			if label, n := data[i+labels-1-k], c.format.classes[k]; int(label) >= n {
				return fmt.Errorf("image %d has the label %d, the largest is %d", i/size, label, n-1)
			}
		}
	}
	return nil
}

// cifarClasses reads n class names, one a line, that can name folders. Empty lines may follow.
func cifarClasses(data []byte, n int) (names []string, err error) {
	for line := range strings.Lines(string(data)) {
		name := strings.TrimSpace(line)
		if name == "" {
			continue
		}
		if clean, err := transport.EntryPath(name); err != nil || clean != name || strings.Contains(name, "/") || transport.Junk(name) ||
			transport.NameReason(name) != "" || slices.Contains(names, name) {
			return nil, fmt.Errorf("the class name %.60q cannot be used", name)
		}
		names = append(names, name)
	}
	if len(names) != n {
		return nil, fmt.Errorf("%d classes, not %d", len(names), n)
	}
	return names, nil
}

func (c *cifarSplit) Inputs() []string { return nil }

func (c *cifarSplit) Streamed() bool { return false }
func (c *cifarSplit) Bytes() int64   { return 0 }

func (c *cifarSplit) FileOf(string) string { return "" }

func (c *cifarSplit) key(i int) string {
	return fmt.Sprintf("%s/%s/%05d", c.prefix, c.classes[0][c.records[i][len(c.format.metas)-1]], i)
}

func (c *cifarSplit) Walk(w *transport.Walk, s *dataset.Split, fn func(transport.Item) error) (dataset.Labels, error) {
	if err := c.load(w.Ctx); err != nil {
		return dataset.Labels{}, err
	}
	classes := c.classes[c.label]
	if c.label > 0 {
		s.Note("the labels are the %d coarse ones", len(classes))
	}
	for i, record := range c.records {
		label := int32(record[len(c.format.metas)-1-c.label])
		if err := errors.Join(w.Ctx.Err(), fn(transport.Item{Key: c.key(i), Label: label, Labelled: true})); err != nil {
			return dataset.Labels{}, err
		}
	}
	return dataset.Labels{Classes: classes}, nil
}

// Read returns the image of a key as a file in the format BMP, which every reader of images knows, loses nothing and takes no time to make.
// At least shard.SlackBytes of capacity are left after it.
func (c *cifarSplit) Read(key string, buf []byte) ([]byte, error) {
	i, err := strconv.Atoi(path.Base(key))
	if err != nil || i < 0 || i >= len(c.records) || c.key(i) != key {
		return nil, fmt.Errorf("source: %s: no image %q", c.path, key)
	}
	planes := c.records[i][len(c.format.metas):]
	img := image.NewRGBA(image.Rect(0, 0, cifarSide, cifarSide))
	for i := range cifarPlane {
		copy(img.Pix[4*i:], []byte{planes[i], planes[cifarPlane+i], planes[2*cifarPlane+i], 0xff})
	}
	w := bytes.NewBuffer(slices.Grow(buf[:0], cifarBMPBytes+shard.SlackBytes))
	err = bmp.Encode(w, img)
	return w.Bytes(), err
}

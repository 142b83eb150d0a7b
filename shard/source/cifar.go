package source

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/imgfeed/imgfeed/shard"
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
	cifarTrain      = 50_000
	cifarTest       = 10_000
)

// Labels of CIFAR-100.
const (
	cifarFine   = "fine"
	cifarCoarse = "coarse"
)

// cifarFiles is what the two splits of one CIFAR share: all its images, 184 MB, which stay in memory from the first Walk on.
type cifarFiles struct {
	path   string // the archive or folder
	packed bool
	tar    inTars // if packed
	format *cifarFormat

	label string // cifarFine or cifarCoarse

	once    sync.Once
	err     error
	names   cifarNames
	batches []cifarBatch
}

// cifarNames are the names of the classes; coarse is empty in CIFAR-10.
type cifarNames struct{ fine, coarse []string }

// cifarBatch is one file's images.
type cifarBatch struct {
	pixels []byte // of image i from i*stride on
	stride int
	labels []uint8
	coarse []uint8 // of CIFAR-100
}

// cifarSplit is the training or the test files as a split.
type cifarSplit struct {
	files   *cifarFiles
	prefix  string // of the keys: "train" or "test"
	batches []int  // which of the files
	images  int    // as published
}

func openCIFAR(p *place) ([]*Split, error) {
	if p.part || p.given {
		return nil, nil
	}
	files, err := findCIFAR(p)
	if files == nil || err != nil {
		return nil, err
	}
	if p.opts.Split != "" {
		return nil, &FormatError{Path: files.path, Msg: fmt.Sprintf("holds two splits, train and val (the test images), which cannot both be called %q", p.opts.Split)}
	}
	if err := files.chooseLabel(p.opts.Label); err != nil {
		return nil, err
	}
	last := len(files.format.batches) - 1
	train := &cifarSplit{files: files, prefix: "train", images: cifarTrain}
	for i := range last {
		train.batches = append(train.batches, i)
	}
	test := &cifarSplit{files: files, prefix: "test", batches: []int{last}, images: cifarTest}
	out := stem(files.path)
	return []*Split{
		{Name: "train", Path: files.path, Output: out + "-train-shards", decoded: true, layout: train},
		{Name: "val", Path: files.path, Output: out + "-val-shards", decoded: true, layout: test},
	}, nil
}

// chooseLabel says which labels are taken.
func (c *cifarFiles) chooseLabel(label string) error {
	c.label = label
	switch {
	case label == "":
		c.label = cifarFine
	case c.format.coarse == 0:
		return &FormatError{Path: c.path, Msg: fmt.Sprintf("--label %s: %s has one label for each image", label, c.format.set)}
	case label != cifarFine && label != cifarCoarse:
		return &FormatError{Path: c.path, Msg: fmt.Sprintf("--label %s: %s has the labels %s and %s", label, c.format.set, cifarFine, cifarCoarse)}
	}
	return nil
}

func (c *cifarSplit) describe() string {
	what := "the training images of " + c.files.format.set
	if c.prefix == "test" {
		what = "the test images of " + c.files.format.set
	}
	place := "folder"
	if c.files.packed {
		place = "archive"
	}
	return what + ", the " + c.files.format.name + " version's " + place
}

func (c *cifarSplit) streamed() bool { return false }
func (c *cifarSplit) bytes() int64   { return 0 }

func (c *cifarSplit) walk(ctx context.Context, s *Split, fn func(Item) error) (labels, error) {
	if err := c.files.load(ctx); err != nil {
		return labels{}, err
	}
	l := newLabels(c.files.names.fine)
	if c.files.label == cifarCoarse {
		l = newLabels(c.files.names.coarse)
		s.note("the labels are the %d coarse ones", len(l.classes))
	}
	l.byKey = make(map[string]int32)
	for _, b := range c.batches {
		batch := &c.files.batches[b]
		for i, fine := range batch.labels {
			key := c.key(len(l.byKey), fine)
			l.byKey[key] = int32(fine)
			if c.files.label == cifarCoarse {
				l.byKey[key] = int32(batch.coarse[i])
			}
			if err := fn(Item{Key: key}); err != nil {
				return labels{}, err
			}
		}
		if err := ctx.Err(); err != nil {
			return labels{}, err
		}
	}
	if len(l.byKey) != c.images {
		s.note("%s has %d %s images, %s as published has %d", s.Path, len(l.byKey), c.prefix, c.files.format.set, c.images)
	}
	return l, nil
}

// key names the image that stands at a place among all images of the split.
func (c *cifarSplit) key(place int, label uint8) string {
	return fmt.Sprintf("%s/%s/%05d", c.prefix, c.files.names.fine[label], place)
}

// read returns the image of a key as a file in the format BMP, which every reader of images knows, loses nothing and takes no time to make.
func (c *cifarSplit) read(key string, buf []byte) ([]byte, error) {
	place, err := strconv.Atoi(key[strings.LastIndexByte(key, '/')+1:])
	if err == nil && place >= 0 {
		rest := place
		for _, b := range c.batches {
			batch := &c.files.batches[b]
			if rest >= len(batch.labels) {
				rest -= len(batch.labels)
				continue
			}
			if c.key(place, batch.labels[rest]) != key {
				break
			}
			return appendBMP(buf[:0], batch.pixels[rest*batch.stride:][:cifarImageBytes]), nil
		}
	}
	return nil, fmt.Errorf("source: %s: no image %q", c.files.path, key)
}

const (
	bmpFileHeader = 14
	bmpInfoHeader = 40
)

// appendBMP appends the BMP file of an image of CIFAR: BITMAPFILEHEADER, BITMAPINFOHEADER, then the rows from the lowest to the uppermost,
// three bytes a pixel, blue first. A row's 96 bytes need no padding. At least shard.SlackBytes of capacity are left after it.
func appendBMP(dst, planes []byte) []byte {
	const head, size = bmpFileHeader + bmpInfoHeader, bmpFileHeader + bmpInfoHeader + cifarImageBytes
	if cap(dst)-len(dst) < size+shard.SlackBytes {
		dst = append(make([]byte, 0, len(dst)+size+shard.SlackBytes), dst...)
	}
	var h [head]byte
	le := binary.LittleEndian
	copy(h[:], "BM")
	le.PutUint32(h[2:], size)
	le.PutUint32(h[10:], head)
	le.PutUint32(h[14:], bmpInfoHeader)
	le.PutUint32(h[18:], cifarSide) // width
	le.PutUint32(h[22:], cifarSide) // height; a positive one says that the lowest row is first
	le.PutUint16(h[26:], 1)         // planes
	le.PutUint16(h[28:], 24)        // bits a pixel
	le.PutUint32(h[34:], cifarImageBytes)
	dst = append(dst, h[:]...)
	for y := cifarSide - 1; y >= 0; y-- {
		for x := range cifarSide {
			i := y*cifarSide + x
			dst = append(dst, planes[2*cifarPlane+i], planes[cifarPlane+i], planes[i])
		}
	}
	return dst
}

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

// cifar10 is CIFAR-10 (Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009; https://www.cs.toronto.edu/~kriz/cifar.html) is 60,000
// colour images of 32×32 in six files, of which five are for training. There are two versions of the files for readers without MATLAB:
//
//	cifar-10-batches-py/   data_batch_1 … 5, test_batch            a pickled dictionary: "data" is an array (10000, 3072) of uint8, "labels" a list
//	                       batches.meta                            a pickled dictionary: "label_names" is the list of the classes
//	cifar-10-batches-bin/  data_batch_1.bin … 5.bin, test_batch.bin  10,000 records: a byte of label, then the pixels
//	                       batches.meta.txt                        the classes, one a line
//
// The pixels of an image are three planes, red, green and blue, each from left to right and from top to bottom. Both versions hold the same
// images in the same order, and give the same samples here: image 29 of the training files, counted from 0 through all five as torchvision's
// CIFAR10 does, is "train/automobile/00029" if that is its class; those of test_batch are "test/cat/00000" and so on.
var cifar10 = Kind{
	Name:   "CIFAR-10",
	Forms:  []string{"cifar-10-python.tar.gz, which is read and not executed", "cifar-10-binary.tar.gz", "what either unpacks to"},
	Labels: "as torchvision has them; the test images are val",
	open:   openCIFAR,
}

const (
	cifarSide       = 32
	cifarPlane      = cifarSide * cifarSide
	cifarImageBytes = 3 * cifarPlane
	cifarClasses    = 10
	cifarBatches    = 6 // five for training and then one for testing
	cifarBatchSize  = 10_000
)

// cifarFiles is what the two splits of one CIFAR-10 share: all its images, 184 MB, which stay in memory from the first Walk on.
type cifarFiles struct {
	path   string // the archive or folder
	packed bool
	tar    inTars // if packed
	format *cifarFormat

	once    sync.Once
	err     error
	classes []string
	batches [cifarBatches]cifarBatch
}

// cifarBatch is one file's images.
type cifarBatch struct {
	pixels []byte // of image i from i*stride on
	stride int
	labels []uint8
}

// cifarSplit is the training or the test files as a split.
type cifarSplit struct {
	files   *cifarFiles
	prefix  string // of the keys: "train" or "test"
	batches []int  // which of the six
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
	train := &cifarSplit{files: files, prefix: "train", batches: []int{0, 1, 2, 3, 4}}
	test := &cifarSplit{files: files, prefix: "test", batches: []int{5}}
	out := stem(files.path)
	return []*Split{
		{Name: "train", Path: files.path, Output: out + "-train-shards", decoded: true, layout: train},
		{Name: "val", Path: files.path, Output: out + "-val-shards", decoded: true, layout: test},
	}, nil
}

func (c *cifarSplit) describe() string {
	what := "the training images of CIFAR-10"
	if c.prefix == "test" {
		what = "the test images of CIFAR-10"
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
	l := newLabels(c.files.classes)
	l.byKey = make(map[string]int32)
	for _, b := range c.batches {
		for _, label := range c.files.batches[b].labels {
			key := c.key(len(l.byKey), label)
			l.byKey[key] = int32(label)
			if err := fn(Item{Key: key}); err != nil {
				return labels{}, err
			}
		}
		if err := ctx.Err(); err != nil {
			return labels{}, err
		}
	}
	if want := len(c.batches) * cifarBatchSize; len(l.byKey) != want {
		s.note("%s has %d %s images, CIFAR-10 as published has %d", s.Path, len(l.byKey), c.prefix, want)
	}
	return l, nil
}

// key names the image that stands at a place among all images of the split.
func (c *cifarSplit) key(place int, label uint8) string {
	return fmt.Sprintf("%s/%s/%05d", c.prefix, c.files.classes[label], place)
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

// appendBMP appends the BMP file of an image of CIFAR-10: BITMAPFILEHEADER, BITMAPINFOHEADER, then the rows from the lowest to the uppermost,
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

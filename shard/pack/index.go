package pack

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/source"
	"github.com/imgfeed/imgfeed/shard/storage"
)

// An index is a set with its images still in their files or uncompressed tars. An indexer notes the places. Images in tars are listed while
// the tars are read from front to back, and then read by range, as from the finished index.
type indexer struct {
	writer *shard.SetWriter
	split  *source.Split
	files  storage.Storage // at the split's root

	tars    []storage.File
	numbers map[string]int // indexes of tars, by path
}

func newIndexer(split *source.Split, root string) (*indexer, error) {
	files, err := storage.At(root)
	return &indexer{split: split, files: files, numbers: map[string]int{}}, err
}

// stat returns what pins the file at a path.
func (x *indexer) stat(path string) (o shard.IndexObject, err error) {
	if path == "" {
		return o, &source.FormatError{Path: x.split.Path, Msg: x.split.Layout() +
			" cannot be indexed, as its images lie in no file byte for byte: pack it (imgshard build)"}
	}
	o.Path = strings.TrimPrefix(strings.TrimPrefix(path, x.split.Root()), "/")
	o.Object, err = x.files.Stat(o.Path)
	return o, err
}

// tar returns the number of a tar, and opens it the first time.
func (x *indexer) tar(path string) (int, error) {
	if n, ok := x.numbers[path]; ok {
		return n, nil
	}
	o, err := x.stat(path)
	if err != nil {
		return 0, err
	}
	file, err := x.files.OpenObject(o.Path, o.Object)
	if err != nil {
		return 0, err
	}
	x.tars = append(x.tars, file)
	x.numbers[path], err = x.writer.AddObject(o)
	return x.numbers[path], err
}

// A tarPlace is what the spool holds of an image in a tar.
type tarPlace struct{ Tar, Offset, Size int64 }

// appendPlace appends the place of an item's image.
func (x *indexer) appendPlace(b []byte, it source.Item) ([]byte, error) {
	n, err := x.tar(it.Object)
	if err != nil {
		return b, err
	}
	return binary.Append(b, binary.LittleEndian, tarPlace{int64(n), it.Offset, it.Size})
}

// read reads the image from the place in im.data.
func (x *indexer) read(im *inFlight) error {
	var p tarPlace
	if _, err := binary.Decode(im.data, binary.LittleEndian, &p); err != nil {
		return err
	}
	im.index, im.offset = int(p.Tar), p.Offset
	im.data = slices.Grow(im.data[:0], int(p.Size)+shard.SlackBytes)[:p.Size]
	_, err := x.tars[p.Tar].ReadAt(im.data, p.Offset)
	return err
}

// leaveOut takes the image out of an encoded sample. Where it lies alone in a file, that is pinned.
func (x *indexer) leaveOut(im *inFlight) (err error) {
	image := im.sample.Image
	im.sample.Image, im.outside = nil, shard.OutsideOf(image)
	if x.split.Streamed() {
		im.outside.Offset, im.outside.Object = im.offset, im.index
		return nil
	}
	im.pin, err = x.stat(x.split.Place(im.key))
	if err == nil && im.pin.Bytes != int64(len(image)) {
		err = fmt.Errorf("%s changed while it was read", im.pin.Path)
	}
	return err
}

func (x *indexer) close() (err error) {
	for _, file := range x.tars {
		err = errors.Join(err, file.Close())
	}
	x.tars = nil
	return err
}

// add lists the file of the next image in the set's order.
func (x *indexer) add(im *inFlight) (err error) {
	if im.reason != "" {
		return nil
	}
	if im.pin.Path != "" {
		im.outside.Object, err = x.writer.AddObject(im.pin)
	}
	im.sample.Outside = im.outside
	return err
}

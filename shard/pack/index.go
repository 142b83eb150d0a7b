package pack

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/remedy"
	"github.com/imgfeed/imgfeed/shard/source/transport"
	"github.com/imgfeed/imgfeed/shard/storage"
)

// An index is a set with its images still in their files or uncompressed tars. objectFiles are these files. Images in tars are listed
// while the tars are read from front to back, and then read by range, as from the finished index.
type objectFiles struct {
	split *dataset.Split
	files storage.Storage // at the split's root

	tars    []storage.File
	numbers map[string]int // indexes of tars, by path
}

// checkIndexable refuses a path that an index, which is JSON, cannot name.
func checkIndexable(path string) error {
	if utf8.ValidString(path) {
		return nil
	}
	return &transport.FormatError{Path: path, Msg: "its path is not UTF-8, and an index names where the images lie: rename it, or " +
		"pack it (imgshard build)"}
}

// stat returns what pins the file at a path.
func (x *objectFiles) stat(path string) (o shard.IndexObject, err error) {
	if path == "" {
		return o, &transport.FormatError{Path: x.split.Path, Msg: x.split.Format +
			" cannot be indexed, as its images lie in no file byte for byte",
			Remedies: []remedy.Remedy{remedy.Pack.With("FILE", cmp.Or(transport.Archive(x.split.Path), x.split.Path))}}
	}
	if err := checkIndexable(path); err != nil {
		return o, err
	}
	o.Path = strings.TrimPrefix(strings.TrimPrefix(path, x.split.Root()), "/")
	o.Object, err = x.files.Stat(o.Path)
	return o, err
}

// tar returns the number of a tar, and the first time opens it and adds it to the set.
func (x *objectFiles) tar(path string, set *shard.SetWriter) (int, error) {
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
	x.numbers[path], err = set.AddObject(o)
	return x.numbers[path], err
}

// A tarRange is what the spool holds of an image in a tar.
type tarRange struct{ Tar, Offset, Size int64 }

// appendRange appends where an item's image lies.
func (x *objectFiles) appendRange(b []byte, it transport.Item, set *shard.SetWriter) ([]byte, error) {
	n, err := x.tar(it.Object(), set)
	if err != nil {
		return b, err
	}
	return binary.Append(b, binary.LittleEndian, tarRange{int64(n), it.Offset, it.Size})
}

func (x *objectFiles) read(im *inFlight) error {
	var p tarRange
	if _, err := binary.Decode(im.data, binary.LittleEndian, &p); err != nil {
		return err
	}
	im.data = slices.Grow(im.data[:0], int(p.Size)+shard.SlackBytes)[:p.Size]
	if _, err := x.tars[p.Tar].ReadAt(im.data, p.Offset); err != nil {
		return err
	}
	im.sample.Outside = shard.OutsideOf(im.data)
	im.sample.Outside.Object, im.sample.Outside.Offset = int(p.Tar), p.Offset
	return nil
}

// pin notes the file that holds an image alone.
func (x *objectFiles) pin(im *inFlight) (err error) {
	im.sample.Outside = shard.OutsideOf(im.data)
	im.object, err = x.stat(x.split.FileOf(im.key))
	if err == nil && im.object.Bytes != int64(len(im.data)) {
		err = fmt.Errorf("%s changed while it was read", im.object.Path)
	}
	return err
}

func (x *objectFiles) close() {
	for _, file := range x.tars {
		file.Close()
	}
}

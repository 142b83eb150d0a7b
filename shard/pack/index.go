package pack

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/source"
	"github.com/imgfeed/imgfeed/shard/storage"
)

// An index is a set with its images still in their files or uncompressed tars. An indexer notes the places. For tars the spool holds
// the index's entries instead of the images: they are decoded while the tars are read.
type indexer struct {
	writer *shard.SetWriter
	split  *source.Split
	files  storage.Storage // at the split's root

	numbers map[string]int // tars, numbered as they are read
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

// tar returns the number of a tar.
func (x *indexer) tar(path string) (int, error) {
	if n, ok := x.numbers[path]; ok {
		return n, nil
	}
	o, err := x.stat(path)
	if err != nil {
		return 0, err
	}
	x.numbers[path], err = x.writer.AddObject(o)
	return x.numbers[path], err
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

func (x *indexer) close() error { return nil }

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

// leftHere is the spool's header of an encoded image, before its aux bytes and the note of repairs.
type leftHere struct {
	Length, Checksum, Width, Height, Object uint32
	Offset                                  int64
	Format                                  shard.Format
	Aux, Repaired                           uint32
}

// walk reads the source's tars, has workers decode the images, and spools what is left of them.
func (x *indexer) walk(ctx context.Context, b *builder, s *spoolInput) error {
	items, stop := pull(ctx, s.split)
	defer stop()
	next := func(im *inFlight) error {
		it, err := items()
		im.key, im.reason, im.offset = strings.Clone(it.Key), it.Reason, it.Offset
		im.fields = append(im.fields, it.Fields...)
		if err != nil || it.Reason != "" {
			return err
		}
		if im.index, err = x.tar(it.Object); err != nil {
			return err
		}
		im.data = slices.Grow(im.data, int(it.Size)+shard.SlackBytes)[:it.Size]
		_, err = io.ReadFull(it.Data, im.data)
		return err
	}
	bytes, left := int64(0), []byte(nil)
	return b.run(ctx, next, b.encode, func(im *inFlight) (err error) {
		left = left[:0]
		if im.reason == "" {
			if left, err = im.appendLeft(left); err != nil {
				return err
			}
		}
		bytes += int64(len(im.data))
		b.report(StageRead, s.spooled+1, bytes, s.split.Bytes())
		return s.add(source.Item{Key: im.key, Reason: im.reason, Fields: im.fields}, left)
	})
}

// pull returns the items of a split's Walk one by one. The error is io.EOF after the last.
func pull(ctx context.Context, split *source.Split) (next func() (source.Item, error), stop func()) {
	items, stop := iter.Pull2(func(yield func(source.Item, error) bool) {
		stopped := false
		err := split.Walk(ctx, func(it source.Item) error {
			if stopped = !yield(it, nil); stopped {
				return context.Canceled
			}
			return ctx.Err()
		})
		if err == nil {
			err = io.EOF
		}
		if !stopped {
			yield(source.Item{}, err)
		}
	})
	return func() (source.Item, error) {
		it, err, _ := items()
		return it, err
	}, stop
}

// appendLeft appends what the index keeps of an image.
func (im *inFlight) appendLeft(b []byte) ([]byte, error) {
	s, out, repaired := &im.sample, im.outside, ""
	if im.scratch.Repaired != nil {
		repaired = im.scratch.Repaired.Error()
	}
	if s.Width > math.MaxInt32 || s.Height > math.MaxInt32 {
		return nil, fmt.Errorf("%s has %d×%d pixels", im.key, s.Width, s.Height)
	}
	b, err := binary.Append(b, binary.LittleEndian, leftHere{
		Length: uint32(out.Length), Checksum: out.Checksum, Width: uint32(s.Width), Height: uint32(s.Height),
		Object: uint32(out.Object), Offset: out.Offset,
		Format: s.Format, Aux: uint32(len(s.Aux)), Repaired: uint32(len(repaired)),
	})
	return append(append(b, s.Aux...), repaired...), err
}

// restoreLeft makes the sample from im.data, written by appendLeft.
func (im *inFlight) restoreLeft() error {
	var h leftHere
	n, err := binary.Decode(im.data, binary.LittleEndian, &h)
	if err != nil {
		return err
	}
	aux := im.data[n:][:h.Aux]
	im.encoded, im.scratch.Repaired = true, nil
	if h.Repaired > 0 {
		im.scratch.Repaired = fmt.Errorf("%s", im.data[n+int(h.Aux):][:h.Repaired])
	}
	im.sample = shard.Sample{
		Key: im.key, Label: im.label, Width: int(h.Width), Height: int(h.Height), Format: h.Format, Aux: aux, Fields: im.fields,
	}
	im.outside = &shard.Outside{Object: int(h.Object), Offset: h.Offset, Length: int(h.Length), Checksum: h.Checksum}
	return nil
}

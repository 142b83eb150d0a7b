package pack

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/encoding"
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
	jobs := b.options.Jobs
	free, todo := make(chan *inFlight, jobs*imagesPerWorker), make(chan *inFlight, jobs*imagesPerWorker)
	for range cap(free) {
		free <- &inFlight{}
	}
	var spool sync.Mutex
	bytes := int64(0)
	g, ctx := errgroup.WithContext(ctx)
	for range jobs {
		g.Go(func() error {
			worker := encoding.NewWorker(b.options.Encoding)
			var left []byte
			for im := range todo {
				var err error
				size := len(im.data)
				if left, err = x.left(im, worker, left[:0]); err != nil {
					return err
				}
				spool.Lock()
				err = s.add(source.Item{Key: im.key, Reason: im.reason, Fields: im.fields}, left)
				bytes += int64(size)
				b.report(StageRead, s.spooled, bytes, s.split.Bytes())
				spool.Unlock()
				if err != nil {
					return s.wrap(err)
				}
				free <- im
			}
			return nil
		})
	}
	g.Go(func() error {
		defer close(todo)
		return s.split.Walk(ctx, func(it source.Item) error {
			number, err := 0, error(nil)
			if it.Reason == "" {
				number, err = x.tar(it.Object)
			}
			if err != nil || !b.wants(it.Key) {
				return err
			}
			im, err := receive(ctx, free)
			if err == nil {
				err = im.read(it, number)
			}
			if err != nil {
				return err
			}
			select {
			case todo <- im:
			case <-ctx.Done():
			}
			return ctx.Err()
		})
	})
	return g.Wait()
}

func receive(ctx context.Context, free <-chan *inFlight) (*inFlight, error) {
	select {
	case im := <-free:
		return im, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// read takes an image from the tar of that number.
func (im *inFlight) read(it source.Item, tar int) error {
	im.reset()
	im.key, im.reason, im.index, im.offset = strings.Clone(it.Key), it.Reason, tar, it.Offset
	im.fields = append(im.fields, it.Fields...)
	if it.Reason != "" {
		return nil
	}
	im.data = slices.Grow(im.data, int(it.Size)+shard.SlackBytes)[:it.Size]
	_, err := io.ReadFull(it.Data, im.data)
	return err
}

// left decodes an image and appends to b what the index keeps of it. An image that can't be decoded is rejected.
func (x *indexer) left(im *inFlight, worker encoding.Worker, b []byte) ([]byte, error) {
	if im.reason != "" {
		return b, nil
	}
	im.sample = shard.Sample{Key: im.key, Image: im.data}
	if err := worker.Encode(&im.sample, &im.scratch); err != nil {
		im.reason = err.Error()
		return b, nil
	}
	if err := x.leaveOut(im); err != nil {
		return b, err
	}
	return im.appendLeft(b)
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

package pack

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/encoding"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/source/remedy"
	"github.com/imgfeed/imgfeed/shard/source/transport"
	"github.com/imgfeed/imgfeed/shard/storage"
)

// An input lists and reads the images that a build packs.
type input interface {
	// gather lists the items, and returns the classes. It comes first, once.
	gather(ctx context.Context, b *builder) (classes []string, err error)
	count() int
	// next makes im the next item in the set's order; it returns io.EOF after the last.
	next(im *inFlight) error
	// load reads an image's content, label and fields; from many goroutines. An error of the fields or of the file's state goes to
	// im.err, since it counts only if the image can be decoded.
	load(im *inFlight) error
	// done says that an image has been written, or left out.
	done(im *inFlight)
	close()
}

// An item is a file or sample until its turn comes: its key, and what its input needs to find it.
type item[T any] struct {
	hash uint64 // shard.OrderHash of the key
	key  string
	at   T
}

func newItem[T any](seed uint64, key string, at T) item[T] {
	return item[T]{shard.OrderHash(seed, key), key, at}
}

// sortItems sorts items into the set's order and finds keys that occur twice.
func sortItems[T any](path string, items []item[T]) error {
	slices.SortFunc(items, func(a, b item[T]) int { return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.key, b.key)) })
	for i := 1; i < len(items); i++ {
		if key := items[i].key; key == items[i-1].key {
			return transport.RefuseEntry(path, key, "occurs twice: a key must name one image, so remove or rename one of the two")
		}
	}
	return nil
}

// An itemList is the common part of inputs that list their items in memory and need no closing.
type itemList[T any] struct {
	items []item[T]
	taken int
}

func (l *itemList[T]) count() int     { return len(l.items) }
func (l *itemList[T]) done(*inFlight) {}
func (l *itemList[T]) close()         {}

// take makes im the next item, and returns what finds it.
func (l *itemList[T]) take(im *inFlight) (at T, err error) {
	if l.taken == len(l.items) {
		return at, io.EOF
	}
	im.key, at = l.items[l.taken].key, l.items[l.taken].at
	l.taken++
	return at, nil
}

// folderInput is the files of a source, read where they lie.
type folderInput struct {
	itemList[int32] // keyed by transport.Item.Label
	split           *dataset.Split
	objects         *objectFiles      // the index's files; nil: the images are packed
	reasons         map[string]string // faults of the few files that cannot be samples, by key
}

func (f *folderInput) gather(ctx context.Context, b *builder) ([]string, error) {
	err := f.split.Walk(ctx, func(it transport.Item) error {
		if own, err := b.wants(&it); err != nil || !own {
			return err
		}
		f.items = append(f.items, newItem(b.options.Seed, it.Key, it.Label))
		if it.Reason != "" {
			f.reasons[it.Key] = it.Reason
		}
		b.report(StageList, len(f.items), 0, 0)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return f.split.Classes(), sortItems(b.path, f.items)
}

func (f *folderInput) next(im *inFlight) error {
	label, err := f.take(im)
	if err == nil {
		im.label = f.split.Label(label)
	}
	return err
}

func (f *folderInput) load(im *inFlight) error {
	if reason, ok := f.reasons[im.key]; ok {
		return &transport.RejectError{Reason: reason}
	}
	data, err := f.split.Read(im.key, im.data)
	if err != nil {
		return err
	}
	im.data = data
	if im.fields, err = f.split.AppendFields(im.fields[:0], im.key, im.data); err != nil {
		if _, reject := errors.AsType[*transport.RejectError](err); reject {
			return err
		}
		im.dropped = errors.Is(err, dataset.ErrDropped)
		im.err = err
	}
	if f.objects != nil && im.err == nil {
		im.err = f.objects.pin(im)
	}
	return nil
}

// setInput is the samples of a set, in another order or for another encoding.
type setInput struct {
	itemList[int] // keyed by index in the set
	set           *shard.Set
	stored        encoding.Encoding
	rejects       []Reject // rejects of the set: the items behind its samples
}

func (s *setInput) gather(ctx context.Context, b *builder) ([]string, error) {
	s.items = make([]item[int], 0, min(s.set.Len(), 1<<20))
	for i := range s.set.Len() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		key, err := s.set.Key(i)
		if err != nil {
			return nil, err
		}
		if !b.options.Select.Takes(key) {
			continue
		}
		s.items = append(s.items, newItem(b.options.Seed, key, i))
		b.report(StageList, i+1, 0, 0)
	}
	err := ReadRejects(s.set.Dir(), func(r Reject) {
		if b.options.Select.Takes(r.Key) {
			s.items = append(s.items, newItem(b.options.Seed, r.Key, s.set.Len()+len(s.rejects)))
			s.rejects = append(s.rejects, r)
		}
	})
	if err != nil {
		return nil, err
	}
	return s.set.Manifest().Classes, sortItems(b.path, s.items)
}

func (s *setInput) next(im *inFlight) (err error) {
	if im.index, err = s.take(im); err == nil {
		s.reject(im)
	}
	return err
}

// reject makes im a reject if its index is beyond the samples.
func (s *setInput) reject(im *inFlight) {
	if im.index >= s.set.Len() {
		r := s.rejects[im.index-s.set.Len()]
		im.key, im.reason, im.bytes = r.Key, r.Reason, r.Bytes
	}
}

func (s *setInput) load(im *inFlight) error {
	record, _, err := s.set.Read(im.index, im.data)
	if err != nil {
		return err
	}
	im.label = record.Label
	im.fields = append(im.fields[:0], record.Fields...)
	if im.data, err = s.stored.File(&record); err != nil {
		return s.set.Corrupt(im.index, err)
	}
	return nil
}

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
	return transport.Refuse(path, "its path is not UTF-8, and an index names where the images lie: rename it, or pack it (imgshard build)")
}

// stat returns what pins the file at a path.
func (x *objectFiles) stat(path string) (o shard.IndexObject, err error) {
	if path == "" {
		return o, transport.Refuse(x.split.Path, "%s cannot be indexed, as its images lie in no file byte for byte", x.split.Format).Or(
			remedy.Pack.With("FILE", cmp.Or(transport.Archive(x.split.Path), x.split.Path)))
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

package pack

import (
	"context"
	"io"

	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/source"
)

// folderInput is the files of a source, read where they lie.
type folderInput struct {
	split   *source.Split
	items   []item
	reasons map[string]string // of the few files that cannot be samples, by key
	at      int
}

func (f *folderInput) path() string         { return f.split.Path }
func (f *folderInput) classes() []string    { return f.split.Classes() }
func (f *folderInput) fields() shard.Fields { return f.split.Fields() }
func (f *folderInput) count() int           { return len(f.items) }
func (f *folderInput) done(*inFlight)       {}
func (f *folderInput) close()               {}

func (f *folderInput) gather(ctx context.Context, b *builder) error {
	err := f.split.Walk(ctx, func(it source.Item) error {
		if !b.wants(it.Key) {
			return nil
		}
		f.items = append(f.items, newItem(b.options.Seed, it.Key))
		if it.Reason != "" {
			f.reasons[it.Key] = it.Reason
		}
		b.report(StageList, len(f.items), 0, 0)
		return nil
	})
	if err != nil {
		return err
	}
	return sortItems(f.path(), f.items)
}

func (f *folderInput) next(im *inFlight) error {
	if f.at == len(f.items) {
		return io.EOF
	}
	im.key = f.items[f.at].key
	im.reason = f.reasons[im.key]
	f.at++
	return nil
}

func (f *folderInput) values(im *inFlight) (err error) {
	im.fields, err = f.split.AppendFields(im.fields[:0], im.key)
	return err
}

func (f *folderInput) load(im *inFlight) error {
	data, err := f.split.Read(im.key, im.data)
	if err != nil {
		return err
	}
	im.data = data
	im.label, err = f.split.Label(im.key)
	return err
}

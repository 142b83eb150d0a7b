package pack

import (
	"context"
	"io"
	"slices"

	"github.com/imgfeed/imgfeed/shard"
)

// A File is an image to be packed that lies in memory.
type File struct {
	Key  string
	Data []byte
}

// BuildFiles packs files of whatever labels into a set at out: a sample of a dataset, to measure with. What is no readable image is left out, and
// listed in the summary.
func BuildFiles(ctx context.Context, files []File, out string, o Options) (Summary, error) {
	return newBuilder(trainSplit, &fileInput{files: files}, o).build(ctx, out)
}

// fileInput is files in memory, all of one class.
type fileInput struct {
	files []File
	items []setItem
	at    int
}

func (f *fileInput) path() string           { return "the sample" }
func (f *fileInput) classes() []string      { return []string{"any"} }
func (f *fileInput) fields() shard.Fields   { return nil }
func (f *fileInput) count() int             { return len(f.items) }
func (f *fileInput) done(*inFlight)         {}
func (f *fileInput) close()                 {}
func (f *fileInput) values(*inFlight) error { return nil }

func (f *fileInput) gather(_ context.Context, b *builder) error {
	for i := range f.files {
		f.items = append(f.items, setItem{newItem(b.options.Seed, f.files[i].Key), i})
	}
	return sortItems(f.path(), f.items)
}

func (f *fileInput) next(im *inFlight) error {
	if f.at == len(f.items) {
		return io.EOF
	}
	im.key, im.location.index = f.items[f.at].key, f.items[f.at].index
	f.at++
	return nil
}

func (f *fileInput) load(im *inFlight) error {
	data := f.files[im.location.index].Data
	im.data = append(slices.Grow(im.data[:0], len(data)+shard.SlackBytes), data...)
	return nil
}

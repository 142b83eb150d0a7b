package pack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/imgfeed/imgfeed/internal/source"
	"github.com/imgfeed/imgfeed/shard"
)

// ref is one item of a source, ready to be read.
type ref struct {
	hash   uint64 // shard.OrderHash of the key
	key    string
	reason string // why it cannot be a sample, or ""
	bucket *bucket
	offset int64 // of the content in the bucket
	size   int64
}

func (r ref) compare(o ref) int {
	return cmp.Or(cmp.Compare(r.hash, o.hash), cmp.Compare(r.key, o.key))
}

// feed gives the items of a source in the order of the set.
type feed interface {
	// refs yields every item, in order.
	refs() iter.Seq2[ref, error]
	// load returns an item's content, in buf when that is large enough; from many goroutines.
	load(r *ref, buf []byte) ([]byte, error)
	// done says that an item is over and done with.
	done(r *ref)
	count() int
	close()
}

// sortRefs sorts items into the set's order and finds keys that occur twice.
func sortRefs(path string, refs []ref) error {
	slices.SortFunc(refs, ref.compare)
	for i := 1; i < len(refs); i++ {
		if refs[i].key == refs[i-1].key {
			return &source.FormatError{Path: path, Entry: refs[i].key, Msg: "occurs twice: a key must name one image, so remove or rename one of the two"}
		}
	}
	return nil
}

// gather walks over the source and sets up the feed.
func (b *builder) gather(ctx context.Context, split *source.Split) error {
	if split.Streamed() {
		return b.spool(ctx, split)
	}
	f := &folderFeed{split: split, reasons: make(map[string]string)}
	b.feed = f
	err := split.Walk(ctx, func(it source.Item) error {
		f.items = append(f.items, folderItem{shard.OrderHash(b.options.Seed, it.Key), it.Key})
		if it.Reason != "" {
			f.reasons[it.Key] = it.Reason
		}
		b.report(StageList, len(f.items), 0, 0)
		return nil
	})
	slices.SortFunc(f.items, func(a, b folderItem) int { return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.key, b.key)) })
	return err
}

// folderFeed reads files where they lie.
type folderFeed struct {
	split   *source.Split
	items   []folderItem
	reasons map[string]string // of the few files that cannot be samples, by key
}

// folderItem is what is kept of each file: 24 bytes and the key.
type folderItem struct {
	hash uint64
	key  string
}

func (f *folderFeed) refs() iter.Seq2[ref, error] {
	return func(yield func(ref, error) bool) {
		for _, it := range f.items {
			if !yield(ref{hash: it.hash, key: it.key, reason: f.reasons[it.key]}, nil) {
				return
			}
		}
	}
}

func (f *folderFeed) load(r *ref, buf []byte) ([]byte, error) { return f.split.Read(r.key, buf) }
func (f *folderFeed) done(*ref)                               {}
func (f *folderFeed) count() int                              { return len(f.items) }
func (f *folderFeed) close()                                  {}

// checkRoom refuses to start spooling a tar onto a disk that cannot hold it.
func checkRoom(split *source.Split, out string) error {
	if !split.Streamed() {
		return nil
	}
	dir, err := filepath.Abs(out)
	if err != nil {
		return err
	}
	var st unix.Statfs_t
	for err = errors.ErrUnsupported; err != nil; { // the nearest folder that is there
		parent := filepath.Dir(dir)
		if parent == dir {
			return nil
		}
		dir = parent
		err = unix.Statfs(dir, &st)
	}
	free := int64(st.Bavail) * int64(st.Bsize)
	if need := split.Bytes() + split.Bytes()/50; free < need {
		return fmt.Errorf("%s has %.1f MB free, and packing %s takes about %.1f MB there: make room, or give another place with -o",
			dir, float64(free)/1e6, split.Path, float64(need)/1e6)
	}
	return nil
}

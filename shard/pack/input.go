package pack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/source"
)

// input is what a build packs.
type input interface {
	path() string // of what is packed, for messages
	// gather lists the items. It comes first, once.
	gather(ctx context.Context, b *builder) error
	classes() []string
	fields() shard.Fields
	count() int
	// next makes im the next item in the set's order; io.EOF says that there is none.
	next(im *inFlight) error
	// load reads an image's content and label; from many goroutines.
	load(im *inFlight) error
	// values completes the fields of an image that is one, after load; from many goroutines.
	values(im *inFlight) error
	// done says that an image is over and done with.
	done(im *inFlight)
	close()
}

// location is where an input finds an image's content: in a spool file, or at an index of a set. In folders the key says it.
type location struct {
	bucket *bucket
	offset int64 // of the fields, which the content follows
	fields int64 // bytes
	size   int64
	index  int
}

// item is what is kept of each file until its turn comes: 24 bytes and the key.
type item struct {
	hash uint64 // shard.OrderHash of the key
	key  string
}

func newItem(seed uint64, key string) item { return item{shard.OrderHash(seed, key), key} }

// order is the item itself, also of what embeds one.
func (it item) order() item { return it }

// sortItems sorts items into the set's order and finds keys that occur twice.
func sortItems[T interface{ order() item }](path string, items []T) error {
	slices.SortFunc(items, func(x, y T) int {
		a, b := x.order(), y.order()
		return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.key, b.key))
	})
	for i := 1; i < len(items); i++ {
		if key := items[i].order().key; key == items[i-1].order().key {
			return &source.FormatError{Path: path, Entry: key, Msg: "occurs twice: a key must name one image, so remove or rename one of the two"}
		}
	}
	return nil
}

// newInput is the input that a split of a source needs.
func newInput(split *source.Split) input {
	if split.Streamed() {
		return &spoolInput{split: split}
	}
	return &folderInput{split: split, reasons: make(map[string]string)}
}

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

package pack

import (
	"context"
	"fmt"
	"iter"
	"os"

	"github.com/imgfeed/imgfeed/shard"
)

// Repack writes the samples of an open set to the folder out in another encoding, world or order. What it makes is, byte
// for byte, what [Build] makes of the files that the set was built from with the same options. The set must hold the
// files' own bytes (encoding "jpeg") and all of its partitions.
func Repack(ctx context.Context, set *shard.Set, out string, o Options) (Summary, error) {
	o.fill()
	m := set.Manifest()
	switch missing := set.Missing(); {
	case m.Encoding.Name != "jpeg":
		return Summary{}, fmt.Errorf("%s has the encoding %s, and only a jpeg set still has the original images: repack the set that it was made from", set.Dir(), m.Encoding.Name)
	case len(missing) > 0:
		return Summary{}, fmt.Errorf("repacking needs all of %s: %w", set.Dir(), &shard.MissingPartitionError{Dir: set.Dir(), Partition: missing[0], World: m.World})
	case sameFile(set.Dir(), out):
		return Summary{}, fmt.Errorf("the output is the set that is read, %s: give another place with -o", set.Dir())
	}
	b := &builder{options: &o, name: m.Split, path: set.Dir(), label: func(r *ref) (int32, error) { return set.Label(int(r.offset)) }}
	return b.build(ctx, out, input{
		gather:  func(ctx context.Context) error { return b.gatherSet(ctx, set) },
		classes: func() []string { return m.Classes },
	})
}

func sameFile(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// gatherSet lists the samples of a set. The offset of a ref is the sample's index there.
func (b *builder) gatherSet(ctx context.Context, set *shard.Set) error {
	f := &setFeed{set: set, items: make([]ref, set.Len())}
	b.feed = f
	for i := range f.items {
		if err := ctx.Err(); err != nil {
			return err
		}
		key, err := set.Key(i)
		if err != nil {
			return err
		}
		f.items[i] = ref{hash: shard.OrderHash(b.options.Seed, key), key: key, offset: int64(i)}
		b.report(StageList, i+1, 0, 0)
	}
	return sortRefs(set.Dir(), f.items)
}

// setFeed reads samples of a set.
type setFeed struct {
	set   *shard.Set
	items []ref
}

func (f *setFeed) refs() iter.Seq2[ref, error] {
	return func(yield func(ref, error) bool) {
		for _, r := range f.items {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func (f *setFeed) load(r *ref, buf []byte) ([]byte, error) {
	record, _, err := f.set.Read(int(r.offset), buf[:0])
	return record.Image, err
}

func (f *setFeed) done(*ref)  {}
func (f *setFeed) count() int { return len(f.items) }
func (f *setFeed) close()     {}

package pack

import (
	"context"
	"fmt"
	"os"

	"github.com/imgfeed/imgfeed/shard"
)

// Repack writes the samples of an open set to the folder out in another encoding, world or order. What it makes is, byte
// for byte, what [Build] makes of the files that the set was built from with the same options. The set must hold the
// files' own bytes (encoding "jpeg") and all of its partitions.
func Repack(ctx context.Context, set *shard.Set, out string, o Options) (Summary, error) {
	m := set.Manifest()
	switch missing := set.Missing(); {
	case m.Encoding.Name != "jpeg":
		return Summary{}, fmt.Errorf("%s has the encoding %s, and only a jpeg set still has the original images: repack the set that it was made from", set.Dir(), m.Encoding.Name)
	case len(missing) > 0:
		return Summary{}, fmt.Errorf("repacking needs all of %s: %w", set.Dir(), &shard.MissingPartitionError{Dir: set.Dir(), Partition: missing[0], World: m.World})
	case sameFile(set.Dir(), out):
		return Summary{}, fmt.Errorf("the output is the set that is read, %s: give another place with -o", set.Dir())
	}
	return newBuilder(m.Split, &setInput{set: set}, o).build(ctx, out)
}

func sameFile(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

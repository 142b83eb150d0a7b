package pack

import (
	"context"
	"fmt"
	"os"

	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/encoding/registry"
)

// Repack writes the samples of an open set to the folder out in another encoding, in other partitions or in another order. What it makes is, byte
// for byte, what [Build] makes of the files that the set was built from with the same options. The set must hold the
// files' own bytes and all of its partitions.
func Repack(ctx context.Context, set *shard.Set, out string, o Options) (Summary, error) {
	m := set.Manifest()
	stored, err := registry.Open(m.Encoding)
	if err != nil {
		return Summary{}, fmt.Errorf("%s: %w", set.Dir(), err)
	}
	switch missing := set.Missing(); {
	case !stored.HoldsOriginals():
		return Summary{}, fmt.Errorf("%s has the encoding %v, which does not keep the original files: repack the set that it was made from", set.Dir(), stored)
	case len(missing) > 0:
		return Summary{}, fmt.Errorf("repacking needs all of %s: %w", set.Dir(), &shard.MissingPartitionError{Dir: set.Dir(), Partition: missing[0], Partitions: m.Partitions})
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

package imgshard

import (
	"context"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/storage"
)

// TestWorkGrowsWithTheSet counts the bytes that commands allocate for sets of 10,000 and of 100,000 samples.
// Ten times the samples are ten times the work.
func TestWorkGrowsWithTheSet(t *testing.T) {
	const perSample = 4 << 10 // bytes at most; a list that is copied for each of its lines takes hundreds of KB for each
	before := map[string]uint64{}
	for _, n := range []int{10_000, 100_000} {
		for _, kind := range []string{"packed", "index"} {
			dir := filepath.Join(t.TempDir(), kind)
			writeLarge(t, dir, n, kind == "index")
			for _, words := range []string{"ls SET", "ls SET " + largeKey(n/2), "inspect SET", "stats SET"} {
				name := kind + " " + strings.Fields(words)[0] + fmt.Sprint(strings.Count(words, " "))
				var diag strings.Builder
				work := allocated(func() {
					if status := run(context.Background(), strings.Fields(strings.ReplaceAll(words, "SET", dir)), io.Discard, &diag); status != 0 {
						t.Fatalf("%s: %s", words, &diag)
					}
				})
				switch last, met := before[name]; {
				case work > uint64(perSample*n):
					t.Fatalf("%s of %d samples: %d bytes were allocated", name, n, work)
				case met && work > 12*last:
					t.Errorf("%s: %d bytes were allocated for 10,000 samples, and %d for 100,000", name, last, work)
				}
				before[name] = work
			}
		}
	}
}

// allocated returns how many bytes do allocates.
func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func largeKey(i int) string { return fmt.Sprintf("n%08d/%07d.png", i%1000, i) }

// writeLarge writes a set of n samples, or an index of as many files that are nowhere.
func writeLarge(t *testing.T, dir string, n int, index bool) {
	t.Helper()
	classes := make([]string, 1000)
	for i := range classes {
		classes[i] = fmt.Sprintf("n%08d", i)
	}
	w := testenv.Must(shard.NewSetWriter(dir, shard.SetOptions{
		Split: "train", Encoding: shard.Encoding{Name: "jpeg"}, Classes: classes, Partitions: 2, ShardSamples: 5000, Source: "/data",
	}))(t)
	defer w.Abort()
	numbers := map[uint64]int{} // by the hash of their key
	for i := range n {
		numbers[shard.OrderHash(0, largeKey(i))] = i
	}
	for _, hash := range slices.Sorted(maps.Keys(numbers)) {
		i := numbers[hash]
		s := shard.Sample{Key: largeKey(i), Label: int32(i % 1000), Width: 8, Height: 8, Format: imagefile.PNG, Image: []byte("image")}
		if index {
			s.Outside, s.Image = shard.OutsideOf(s.Image), nil
			o := shard.IndexObject{Path: s.Key, Object: storage.Object{Bytes: 5, Version: "1732573041123456789"}}
			s.Outside.Object = testenv.Must(w.AddObject(o))(t)
		}
		testenv.OK(t, w.Append(s))
	}
	testenv.Must(w.Commit())(t)
}

package shard

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
)

// writeManySamples writes a set of n samples of size bytes each.
func writeManySamples(b *testing.B, n, size int) string {
	b.Helper()
	type ordered struct {
		hash uint64
		key  string
	}
	order := make([]ordered, n)
	for i := range order {
		key := "n01440764/n01440764_" + strconv.Itoa(i) + ".JPEG"
		order[i] = ordered{OrderHash(testSeed, key), key}
	}
	slices.SortFunc(order, func(a, b ordered) int {
		if a.hash < b.hash {
			return -1
		}
		return 1
	})
	dir := filepath.Join(b.TempDir(), "train-shards")
	o := testOptions(1)
	o.ShardSamples = 0
	w, err := NewSetWriter(dir, o)
	if err != nil {
		b.Fatal(err)
	}
	defer w.Abort()
	image := randomBytes(rand.New(rand.NewPCG(3, 3)), size)
	for _, s := range order {
		if err := w.Append(Sample{Key: s.key, Width: 8, Height: 8, Format: imagefile.JPEG, Image: image}); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := w.Commit(); err != nil {
		b.Fatal(err)
	}
	return dir
}

// BenchmarkOpen opens a set as large as ImageNet's training split.
func BenchmarkOpen(b *testing.B) {
	const n = 1_281_167
	dir := writeManySamples(b, n, 64)
	b.ReportAllocs()
	for b.Loop() {
		s, err := OpenSet(dir)
		if err != nil {
			b.Fatal(err)
		}
		s.Close()
	}
}

// BenchmarkFind looks keys up at random in it.
func BenchmarkFind(b *testing.B) {
	const n = 1_281_167
	s := openSet(b, writeManySamples(b, n, 64))
	rng := rand.New(rand.NewPCG(5, 5))
	for b.Loop() {
		if _, err := s.Find("n01440764/n01440764_" + strconv.Itoa(rng.IntN(n)) + ".JPEG"); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRead reads records at random from the page cache, checksum and all, on one goroutine.
func BenchmarkRead(b *testing.B) {
	for _, size := range []int{10 << 10, 110 << 10, 140 << 10} {
		b.Run(fmt.Sprintf("%dKB", size>>10), func(b *testing.B) {
			const n = 1000
			s := openSet(b, writeManySamples(b, n, size))
			rng := rand.New(rand.NewPCG(4, 4))
			var buf []byte
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				var err error
				if _, buf, err = s.Read(rng.IntN(n), buf); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "images/s")
		})
	}
}

// BenchmarkWrite appends samples of ImageNet's mean size.
func BenchmarkWrite(b *testing.B) {
	b.SetBytes(1000 * 110 << 10)
	for b.Loop() {
		writeManySamples(b, 1000, 110<<10)
	}
	b.ReportMetric(1000*float64(b.N)/b.Elapsed().Seconds(), "images/s")
}

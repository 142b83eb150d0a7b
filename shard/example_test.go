package shard_test

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/imgfeed/imgfeed/shard"
)

// A set is opened once; its samples are then read by index, into a buffer that is used again.
func Example() {
	set, err := shard.OpenSet("testdata/v1/train-shards")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer set.Close()
	fmt.Printf("%d samples, encoding %v, built for %d ranks\n", set.Len(), set.Manifest().Encoding, set.Partitions())
	var buf []byte
	for i := range set.Len() {
		var record shard.Record
		record, buf, err = set.Read(i, buf)
		if err != nil {
			fmt.Println(err)
			return
		}
		key, err := set.Key(i)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s: %s, %d×%d, %d bytes\n", key, set.Manifest().Class(record.Label), record.Width, record.Height, len(record.Image))
	}
	// Output:
	// 5 samples, encoding original, built for 2 ranks
	// n01440764/n01440764_10.JPEG: n01440764, 16×8, 627 bytes
	// n01443537/n01443537_3.JPEG: n01443537, 7×3, 638 bytes
	// n01440764/n01440764_9.JPEG: n01440764, 8×12, 390 bytes
	// n01443537/n01443537_2.JPEG: n01443537, 5×4, 88 bytes
	// n01443537/n01443537_1.JPEG: n01443537, 9×9, 629 bytes
}

// Fields are values of a set's own beside the label of each sample; a record holds them one after the other.
func ExampleFields_Split() {
	set, err := shard.OpenSet("testdata/v2/val-shards")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer set.Close()
	fields := set.Manifest().Fields
	record, _, err := set.Read(0, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	values, err := fields.Split(record.Fields, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for i, field := range fields {
		fmt.Printf("%v: % x\n", field, values[i])
	}
	// Output:
	// box float32[2]: 00 00 00 3f 00 00 80 3f
	// age int64: fe ff ff ff ff ff ff ff
	// caption text: 61 20 64 6f 67
}

func ExampleSet_Find() {
	set, err := shard.OpenSet("testdata/v1/train-shards")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer set.Close()
	index, err := set.Find("n01443537/n01443537_2.JPEG")
	fmt.Println(index, err)
	_, err = set.Find("n01443537/n01443537_4.JPEG")
	fmt.Println(err)
	// Output:
	// 3 <nil>
	// shard: testdata/v1/train-shards: key "n01443537/n01443537_4.JPEG": no such sample
}

// Samples are written in an order that depends on the seed and their keys only, so that a set is the same bytes wherever
// it is made.
func ExampleSetWriter() {
	folder, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(folder)
	const seed = 7
	var samples []shard.Sample
	for i := range 4 {
		samples = append(samples, shard.Sample{
			Key: fmt.Sprintf("noise/%d.bin", i), Label: 0, Width: 8, Height: 8, Image: bytes.Repeat([]byte{byte(i)}, 100),
		})
	}
	slices.SortFunc(samples, func(a, b shard.Sample) int {
		return cmp.Compare(shard.OrderHash(seed, a.Key), shard.OrderHash(seed, b.Key))
	})
	w, err := shard.NewSetWriter(filepath.Join(folder, "train-shards"), shard.SetOptions{
		Split: "train", Encoding: shard.Encoding{Name: "jpeg"}, Classes: []string{"noise"}, Partitions: 2, Seed: seed,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer w.Abort()
	for _, s := range samples {
		if err := w.Append(s); err != nil {
			fmt.Println(err)
			return
		}
	}
	m, err := w.Commit()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(m.Samples, "samples in", len(m.Shards), "shards")
	for _, s := range samples {
		fmt.Println(s.Key)
	}
	// Output:
	// 4 samples in 2 shards
	// noise/0.bin
	// noise/1.bin
	// noise/3.bin
	// noise/2.bin
}

// Large makes a shard set with a very large number of samples for run.py. It has 14,197,122 pictures of 8 × 8 pixels in
// 72,000 classes, in as many shards as real photographs would need.
//
//	go run ./bench/large OUT [-samples 14197122] [-classes 72000]
//
// It does not encode the pictures one by one: every record is one of a few encoded in advance. Only the data beside the
// images are large.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	codec "github.com/imgfeed/imgfeed/internal/image/pixelcodec"
	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/encoding/pixels"
)

const (
	side      = 8
	pictures  = 16
	nameBytes = 240
	perShard  = 4880 // as many as photographs of 110 KB in 512 MiB
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "large:", err)
		os.Exit(1)
	}
}

func run() error {
	flags := flag.NewFlagSet("large", flag.ExitOnError)
	samples := flags.Int("samples", 14_197_122, "how many; ImageNet-21k's unless told")
	classes := flags.Int("classes", 72_000, "how many, with names of 240 bytes")
	if len(os.Args) < 2 || strings.HasPrefix(os.Args[1], "-") {
		return fmt.Errorf("usage: large OUT [-samples N] [-classes N]")
	}
	if err := flags.Parse(os.Args[2:]); err != nil {
		return err
	}
	if *samples < 1 || *classes < 1 {
		return fmt.Errorf("-samples and -classes are at least 1")
	}
	encoding, err := pixels.New(codec.Params{}, pixels.Resize{})
	if err != nil {
		return err
	}
	records, err := encoded()
	if err != nil {
		return err
	}
	w, err := shard.NewSetWriter(os.Args[1], shard.SetOptions{
		Split: "train", Encoding: encoding.Stored(), Classes: names(*classes), ShardSamples: perShard, Replace: true,
	})
	if err != nil {
		return err
	}
	defer w.Abort()
	for _, number := range ordered(*samples) {
		s := shard.Sample{
			Key: key(number), Label: int32(number % *classes), Width: side, Height: side,
			Format: imagefile.Encoded, Image: records[number%pictures],
		}
		if err := w.Append(s); err != nil {
			return err
		}
	}
	_, err = w.Commit()
	return err
}

// key is as long as ImageNet's.
func key(number int) string {
	return fmt.Sprintf("n%08d/n%08d_%05d.JPEG", number%21841, number%21841, number/21841)
}

// names are long ones: the words of WordNet's synsets are, and those of some data sets of the web.
func names(classes int) []string {
	all := make([]string, classes)
	for i := range all {
		name := fmt.Sprintf("%06d ", i)
		all[i] = name + strings.Repeat("synset, ", nameBytes/8)[:nameBytes-len(name)]
	}
	return all
}

// encoded returns records of a few plain pictures.
func encoded() ([][]byte, error) {
	c, err := codec.New(codec.Params{}, kernel.Active())
	if err != nil {
		return nil, err
	}
	records := make([][]byte, pictures)
	for i := range records {
		plain := slices.Repeat([]byte{byte(i), byte(2 * i), byte(3 * i)}, side*side)
		if records[i], err = c.Encode(nil, plain, 3*side, side, side); err != nil {
			return nil, err
		}
	}
	return records, nil
}

// ordered returns the numbers of samples in the order of a set.
func ordered(samples int) []int {
	hashes, order := make([]uint64, samples), make([]int, samples)
	for i := range order {
		hashes[i], order[i] = shard.OrderHash(0, key(i)), i
	}
	slices.SortFunc(order, func(a, b int) int {
		if hashes[a] != hashes[b] {
			return cmp.Compare(hashes[a], hashes[b])
		}
		return strings.Compare(key(a), key(b))
	})
	return order
}

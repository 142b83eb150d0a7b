// Command memcpy measures the lower limit for serving crops: it copies them from raw pixels in memory into batches, row by row,
// without checks or decoding.
//
//	memcpy SET SECONDS eval|train-resize
//
// SET is a shard set with the encoding pixels, codec none and Resize(256). Crops of 224×224 are central or random. Images come in
// random order and go into three batches of 256 in turn, as in imgfeed bench. A quarter of SECONDS is warm-up. It prints one JSON
// object.
package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/imgfeed/imgfeed/internal/image/pixelcodec"
	"github.com/imgfeed/imgfeed/shard"
)

const (
	crop        = 224
	slots       = 3 * 256 // three batches
	headerBytes = 8       // header of a blob with codec none: width and height, u16 each, and four more bytes (docs/format/pixels.md)
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "memcpy:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("usage: memcpy SET SECONDS eval|train-resize")
	}
	seconds, err := strconv.ParseFloat(args[1], 64)
	if err != nil {
		return err
	}
	images, err := load(args[0])
	if err != nil {
		return err
	}
	c := &copier{images: images, rng: rand.New(rand.NewPCG(1, 2)), out: make([]byte, slots*crop*crop*3), random: args[2] == "train-resize"}
	c.measure(seconds / 4)
	cpu := cpuSeconds()
	done, elapsed := c.measure(seconds)
	cpu = cpuSeconds() - cpu
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"images_per_second": float64(done) / elapsed, "images_per_cpu_second": float64(done) / cpu,
		"cpu_seconds": cpu, "images": done, "seconds": elapsed,
	})
}

// load returns the blobs of a set of codec none, which it reads into memory.
func load(path string) ([][]byte, error) {
	set, err := shard.OpenSet(path)
	if err != nil {
		return nil, err
	}
	images := make([][]byte, set.Len())
	for i := range images {
		record, _, err := set.Read(i, nil)
		if err != nil {
			return nil, err
		}
		config, err := pixelcodec.DecodeConfig(record.Image)
		if err != nil || config.Codec != pixelcodec.None || min(config.Width, config.Height) < crop {
			return nil, fmt.Errorf("sample %d is no image of codec none of at least %d×%d (%+v, %v)", i, crop, crop, config, err)
		}
		images[i] = record.Image
	}
	return images, nil
}

// copier copies crops.
type copier struct {
	images [][]byte
	rng    *rand.Rand
	out    []byte
	random bool
	next   int
}

// measure copies until seconds have passed.
func (c *copier) measure(seconds float64) (done int, elapsed float64) {
	const some = 64 // crops between two looks at the clock
	for start := time.Now(); elapsed < seconds; elapsed = time.Since(start).Seconds() {
		for range some {
			c.copy(c.images[c.rng.IntN(len(c.images))])
		}
		done += some
	}
	return done, elapsed
}

func (c *copier) copy(blob []byte) {
	w, h := int(binary.LittleEndian.Uint16(blob)), int(binary.LittleEndian.Uint16(blob[2:]))
	left, top := (w-crop)/2, (h-crop)/2
	if c.random {
		left, top = c.rng.IntN(w-crop+1), c.rng.IntN(h-crop+1)
	}
	const row = 3 * crop
	dst := c.out[c.next*crop*row:][:crop*row]
	c.next = (c.next + 1) % slots
	for y := range crop {
		copy(dst[y*row:][:row], blob[headerBytes+3*((top+y)*w+left):])
	}
}

// cpuSeconds returns the process's user and system time.
func cpuSeconds() float64 {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

package main

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"github.com/imgfeed/imgfeed/internal/image/pixelcodec"
	"github.com/imgfeed/imgfeed/shard"
)

const (
	batch       = 256
	batches     = 3
	headerBytes = 8 // header of a blob with codec none: width and height, u16 each, and four more bytes (docs/format/pixels.md)
)

// memcpy copies crops of a set's images, 64 in a step.
func memcpy(path, mode string) (step func() int, err error) {
	set, err := shard.OpenSet(path)
	if err != nil {
		return nil, err
	}
	images, err := load(set)
	if err != nil {
		return nil, err
	}
	c := &copier{order: rand.New(rand.NewPCG(1, 2)), out: make([]byte, batches*batch*crop*crop*3), random: mode == "train-resize"}
	return func() int {
		const some = 64 // crops between two looks at the clock
		for range some {
			c.copy(images[c.order.IntN(len(images))])
		}
		return some
	}, nil
}

// load returns the blobs of a set of codec none, which it reads into memory.
func load(set *shard.Set) ([][]byte, error) {
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
	if len(images) == 0 {
		return nil, fmt.Errorf("%s is empty", set.Dir())
	}
	return images, nil
}

// copier copies crops.
type copier struct {
	order  *rand.Rand
	out    []byte
	random bool
	next   int
}

func (c *copier) copy(blob []byte) {
	w, h := int(binary.LittleEndian.Uint16(blob)), int(binary.LittleEndian.Uint16(blob[2:]))
	left, top := (w-crop)/2, (h-crop)/2
	if c.random {
		left, top = c.order.IntN(w-crop+1), c.order.IntN(h-crop+1)
	}
	const row = 3 * crop
	dst := c.out[c.next*crop*row:][:crop*row]
	c.next = (c.next + 1) % (batches * batch)
	for y := range crop {
		copy(dst[y*row:][:row], blob[headerBytes+3*((top+y)*w+left):])
	}
}

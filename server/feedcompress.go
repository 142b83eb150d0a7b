package server

import (
	"encoding/binary"
	"fmt"
	"image"
	"io"
	"time"

	"github.com/imgfeed/imgfeed/internal/image/pixelcodec"
	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/loader"
)

// compressible returns the sizes of a session's images, by view, if the pixels codec takes them: rows of RGB.
func (c *openConfig) compressible() []image.Point {
	if c.nchw {
		return nil
	}
	var sizes []image.Point
	for _, spec := range c.views {
		height, width := spec.OutputSize()
		if max(height, width) > pixelcodec.MaxDimension {
			return nil
		}
		sizes = append(sizes, image.Pt(width, height))
	}
	return sizes
}

// A compressor compresses images for the wire, and has them back. It keeps memory from piece to piece.
type compressor struct {
	codec  pixelcodec.Codec
	header []byte // the length of each image, a uint32
	blobs  []byte
	ends   []int // of views, in blobs
}

func newCompressor() *compressor {
	codec, err := pixelcodec.New(pixelcodec.Params{}, kernel.Active())
	if err != nil {
		panic(err) // the usual parameters
	}
	return &compressor{codec: codec}
}

// compress puts the compressed images of n samples into parts, which [loader.Slot.AppendPlaces] has appended from the from-th on, and a header before them. A sample that was not
// made has no bytes.
func (z *compressor) compress(parts [][]byte, from int, slot *loader.Slot, sizes []image.Point, made []bool) ([][]byte, error) {
	images := parts[from+1+len(slot.Params):][:len(sizes)]
	z.header, z.blobs, z.ends = z.header[:0], z.blobs[:0], z.ends[:0]
	for v, size := range sizes {
		bytes := channels * size.X * size.Y
		for i, is := range made {
			before := len(z.blobs)
			if is {
				var err error
				if z.blobs, err = z.codec.Encode(z.blobs, images[v][i*bytes:][:bytes], channels*size.X, size.X, size.Y); err != nil {
					return nil, err
				}
			}
			z.header = binary.LittleEndian.AppendUint32(z.header, uint32(len(z.blobs)-before))
		}
		z.ends = append(z.ends, len(z.blobs))
	}
	at := 0
	for v, end := range z.ends {
		images[v], at = z.blobs[at:end], end
	}
	parts = append(parts, nil)
	copy(parts[from+1:], parts[from:])
	parts[from] = z.header
	return parts, nil
}

// readHeader reads the header of a piece of n samples.
func (z *compressor) readHeader(r io.Reader, n int, sizes []image.Point) error {
	if length := 4 * n * len(sizes); cap(z.header) < length {
		z.header = make([]byte, length)
	}
	z.header = z.header[:4*n*len(sizes)]
	_, err := io.ReadFull(r, z.header)
	return err
}

// readView reads the images of the v-th view of n samples to dst, and returns how many bytes it read.
func (z *compressor) readView(r io.Reader, v, n int, size image.Point, dst []byte) (read int, err error) {
	bytes := channels * size.X * size.Y
	lengths := z.header[4*v*n:][:4*n]
	for i := range n {
		read += int(binary.LittleEndian.Uint32(lengths[4*i:]))
	}
	if read > 2*len(dst)+n<<10 {
		return 0, fmt.Errorf("the feeder sends %d bytes of compressed images of %d bytes", read, len(dst))
	}
	if cap(z.blobs) < read+pixelcodec.SlackBytes {
		z.blobs = make([]byte, read+read/2+pixelcodec.SlackBytes)
	}
	z.blobs = z.blobs[:read]
	if _, err := io.ReadFull(r, z.blobs); err != nil {
		return 0, err
	}
	for i, at := 0, 0; i < n; i++ {
		blob := z.blobs[at:][:binary.LittleEndian.Uint32(lengths[4*i:])]
		if at += len(blob); len(blob) == 0 {
			continue
		}
		config, err := pixelcodec.DecodeConfig(blob)
		switch {
		case err != nil:
			return 0, err
		case config.Width != size.X || config.Height != size.Y:
			return 0, fmt.Errorf("the feeder sends an image of %d×%d pixels: want %d×%d", config.Width, config.Height, size.X, size.Y)
		}
		if err := z.codec.Decode(dst[i*bytes:], channels*size.X, blob, image.Rectangle{Max: size}); err != nil {
			return 0, err
		}
	}
	return read, nil
}

// A linkGauge says whether a connection's images are to be compressed: by what samples take with and without, which is tried now and then where it may pay.
type linkGauge struct {
	pieces int
	took   [2]float64 // seconds for a sample, plain and compressed; 0: not yet known
	slow   bool       // the last plain piece took so long to arrive that compression may pay
}

const (
	tryEvery = 64 // pieces
	// Compression pays where a byte takes longer than slowByte to arrive: it saves four tenths of photographs' bytes, in 2.3 ns a byte on a processor of 2022.
	slowByte = 6 * time.Nanosecond
	// clearly is how much less time samples must take, so that a connection does not go back and forth.
	clearly = 0.9
)

// compress says how to ask for the next piece.
func (g *linkGauge) compress() bool {
	g.pieces++
	better := g.took[1] > 0 && g.took[1] < clearly*g.took[0]
	return better != (g.pieces%tryEvery == 0 && (better || g.slow))
}

// note takes down what a piece took.
func (g *linkGauge) note(compressed bool, samples int, took time.Duration) {
	average := &g.took[0]
	if compressed {
		average = &g.took[1]
	}
	if each := took.Seconds() / float64(samples); *average == 0 {
		*average = each
	} else {
		*average += (each - *average) / 8
	}
}

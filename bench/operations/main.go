// Operations measures the cost of operations in a transform, for run.py. It reads lines of JSON, {"level": "avx2",
// "op": {"op": "RandomInvert", "p": 1}, "seconds": 0.2}, and answers each with the shortest time of a call, in
// microseconds, for a 224 × 224 image in memory.
//
// The time is the difference between a transform with the operation and one without it: CenterCrop(224) alone, which
// copies the image. Calls of the two alternate.
//
// With a folder of JPEG files it also measures whole transforms (pipelines.go): the answer to {"level": "avx2",
// "transforms": ["train", "dino"], "seconds": 5} is a list of microseconds per image. With "draws": 1000 they get the
// image in memory a thousand times, with different draws.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"image"
	"math"
	"os"
	"slices"
	"time"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/internal/image/pixelcodec"
	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/transform"
)

const (
	size      = 224
	imagesMax = 100
)

// memory is the encoding of raw images.
type memory struct{}

func (memory) NewDecoder(level transform.Level) transform.Decoder {
	codec, err := pixelcodec.New(pixelcodec.Params{Codec: pixelcodec.None}, level)
	if err != nil {
		panic(err)
	}
	return &decoder{Codec: codec}
}

type decoder struct {
	pixelcodec.Codec
	blob []byte
}

func (d *decoder) Open(src transform.Source) (int, int, error) {
	d.blob = src.Image
	return size, size, nil
}

func (d *decoder) Decode(dst []byte, stride int, r image.Rectangle) error {
	return d.Codec.Decode(dst, stride, d.blob, r)
}

func (d *decoder) DecodeTo(dst transform.Output, r image.Rectangle) (bool, error) {
	return true, d.Codec.DecodeTo(dst, d.blob, r)
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "operations:", err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) != 2 && len(os.Args) != 3 {
		return fmt.Errorf("usage: operations PIXELS [FOLDER], a file of 224 × 224 pixels, RGB, and JPEG files")
	}
	var images []transform.Source
	if len(os.Args) == 3 {
		var err error
		if images, err = readJPEGs(os.Args[2], imagesMax); err != nil {
			return err
		}
	}
	pix, err := os.ReadFile(os.Args[1])
	if err != nil {
		return err
	}
	codec, err := pixelcodec.New(pixelcodec.Params{Codec: pixelcodec.None}, kernel.Generic)
	if err != nil {
		return err
	}
	blob, err := codec.Encode(nil, pix, 3*size, size, size)
	if err != nil {
		return err
	}
	blob = append(blob, make([]byte, imagefile.SlackBytes)...)[:len(blob)]
	src := transform.Source{Format: imagefile.Encoded, Image: blob, Encoding: memory{}}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var asked question
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			return err
		}
		if err := asked.answer(src, images); err != nil {
			return err
		}
	}
	return nil
}

// A question is a line of the input: of an operation, or of transforms.
type question struct {
	Level      string
	Op         json.RawMessage
	Transforms []string
	Draws      int
	Seconds    float64
}

// answer prints the times.
func (q *question) answer(src transform.Source, images []transform.Source) error {
	level, err := kernel.ParseLevel(q.Level)
	if err != nil {
		return err
	}
	if q.Transforms != nil {
		if q.Draws > 0 {
			images = slices.Repeat([]transform.Source{src}, q.Draws)
		}
		spent, err := measurePipelines(level, q.Transforms, images, q.Seconds)
		if err != nil {
			return err
		}
		return json.NewEncoder(os.Stdout).Encode(spent)
	}
	added, err := measure(level, string(q.Op), src, q.Seconds)
	if err != nil {
		return fmt.Errorf("%s: %w", q.Op, err)
	}
	fmt.Printf("%.2f\n", added)
	return nil
}

// measure returns the time that an operation adds, in microseconds.
func measure(level kernel.Level, op string, src transform.Source, seconds float64) (float64, error) {
	const crop = `{"op":"CenterCrop","size":224}`
	var specs [2]*transform.Spec
	for i, text := range [2]string{"[" + crop + "]", "[" + crop + "," + op + "]"} {
		spec, err := transform.Parse(text)
		if err != nil {
			return 0, err
		}
		specs[i] = spec
	}
	engine, dst := transform.NewEngine(level), transform.Output{Pix: make([]byte, 3*size*size)}
	shortest := [2]float64{math.Inf(1), math.Inf(1)}
	for began := time.Now(); time.Since(began).Seconds() < seconds; {
		for i, spec := range specs {
			started := time.Now()
			if _, err := engine.Apply(spec, dst, src, transform.NewRNG(1, 1, 1)); err != nil {
				return 0, err
			}
			shortest[i] = min(shortest[i], float64(time.Since(started).Nanoseconds())/1000)
		}
	}
	return shortest[1] - shortest[0], nil
}

// Operations measures transforms, for run.py. It reads lines of JSON, {"level": "avx2", "transforms": ["train", "dino"],
// "draws": 1000, "seconds": 5}, and answers each with a list of microseconds per image. Transforms get the image of PIXELS
// as often as "draws" says, each time with different draws; without "draws" the JPEG files of a folder (pipelines.go).
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"image"
	"os"
	"slices"

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

// A question is a line of the input.
type question struct {
	Level      string
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
	if q.Draws > 0 {
		images = slices.Repeat([]transform.Source{src}, q.Draws)
	}
	spent, err := measurePipelines(level, q.Transforms, images, q.Seconds)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(spent)
}

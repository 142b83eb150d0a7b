package pack

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/imgfeed/imgfeed/internal/imagefile"
	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/pixels"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/transform"
)

// NewCheck returns what [shard.VerifyOptions] takes to look into the records of a set with an encoding: every image is
// decoded, as it was when it was packed, and what the record says of it (format, size and a JPEG's row index) must be what
// comes out. The error is for an encoding that this program cannot decode.
func NewCheck(e shard.Encoding) (func() func(*shard.Record) error, error) {
	switch e.Name {
	case "jpeg":
		return func() func(*shard.Record) error {
			c := originalsCheck{worker: &guardedWorker{encoder: Originals{}}}
			return c.check
		}, nil
	case "pixels":
		var params transform.PixelsParams
		if err := json.Unmarshal(e.Params, &params); err != nil {
			return nil, fmt.Errorf("the parameters of encoding %s: %w", e, err)
		}
		if _, err := pixels.New(params.Params, kernel.Generic); err != nil {
			return nil, fmt.Errorf("encoding %s: %w", e, err)
		}
		return func() func(*shard.Record) error {
			c := pixelsCheck{engine: transform.NewEngine(kernel.Active()), params: &params.Params}
			return c.check
		}, nil
	}
	return nil, fmt.Errorf("unknown encoding %s; it needs a newer version of this program", e)
}

// originalsCheck checks records of the encoding "jpeg" by making them again.
type originalsCheck struct {
	worker  Worker
	scratch Scratch
}

func (c *originalsCheck) check(r *shard.Record) error {
	s, err := c.worker.Encode(&c.scratch, Input{Data: r.Image})
	switch {
	case err != nil:
		return err
	case s.Format != r.Format:
		return fmt.Errorf("the image is a %v, the entry says %v", s.Format, r.Format)
	case !bytes.Equal(s.Aux, r.Aux):
		return fmt.Errorf("the row index of %d bytes is not the one of this image, which has %d bytes", len(r.Aux), len(s.Aux))
	}
	return checkSize(r, s.Width, s.Height)
}

// pixelsCheck checks records of the encoding "pixels".
type pixelsCheck struct {
	engine *transform.Engine
	params *pixels.Params
}

func (c *pixelsCheck) check(r *shard.Record) (err error) {
	defer func() {
		if p := recover(); p != nil {
			c.engine, err = transform.NewEngine(kernel.Active()), decoderPanic(p)
		}
	}()
	_, width, height, err := c.engine.DecodeFull(transform.Source{Format: imagefile.Encoded, Image: r.Image, Pixels: c.params})
	if err != nil {
		return err
	}
	return checkSize(r, width, height)
}

func checkSize(r *shard.Record, width, height int) error {
	if width != int(r.Width) || height != int(r.Height) {
		return fmt.Errorf("the image has %d×%d pixels, the entry says %d×%d", width, height, r.Width, r.Height)
	}
	return nil
}

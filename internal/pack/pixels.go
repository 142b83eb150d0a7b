package pack

import (
	"encoding/json"
	"errors"

	"github.com/imgfeed/imgfeed/internal/imagefile"
	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/pixels"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/transform"
)

// Pixels is the encoding "pixels": images decoded and resized once, and stored without loss.
type Pixels struct {
	params transform.PixelsParams
	resize transform.StoredResize
}

// NewPixels returns the encoding with a codec (the zero Params is bitpack) and a resize (the zero value is none).
func NewPixels(codec pixels.Params, resize transform.StoredResize) (*Pixels, error) {
	c, err := pixels.New(codec, kernel.Generic)
	if err != nil {
		return nil, err
	}
	return &Pixels{params: transform.NewPixelsParams(c.Params(), resize), resize: resize}, nil
}

// Encoding returns "pixels", with the codec's parameters and the resize.
func (p *Pixels) Encoding() shard.Encoding {
	params, err := json.Marshal(p.params)
	if err != nil {
		panic(err) // numbers and names
	}
	return shard.Encoding{Name: "pixels", Params: params}
}

// NewWorker returns a worker with an engine and a codec of its own.
func (p *Pixels) NewWorker() Worker {
	codec, err := pixels.New(p.params.Params, kernel.Active())
	if err != nil {
		panic(err) // NewPixels has made one of the same parameters
	}
	return &pixelsWorker{resize: p.resize, engine: transform.NewEngine(kernel.Active()), codec: codec}
}

type pixelsWorker struct {
	resize transform.StoredResize
	engine *transform.Engine
	codec  pixels.Codec
}

func (w *pixelsWorker) Encode(scratch *Scratch, in Input) (shard.Sample, error) {
	s := shard.Sample{Key: in.Key, Label: in.Label, Format: imagefile.Encoded}
	pix, width, height, err := w.engine.DecodeResized(transform.Source{Image: in.Data}, w.resize)
	if image, ok := errors.AsType[*transform.ImageError](err); ok {
		err = image.Err
	}
	if err != nil {
		return s, err
	}
	s.Width, s.Height = width, height
	s.Image, err = w.codec.Encode(scratch.Image[:0], pix, 3*width, width, height)
	if err == nil {
		scratch.Image = s.Image
	}
	return s, err
}

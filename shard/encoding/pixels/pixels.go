// Package pixels is the encoding that keeps pixels: images are decoded and resized once, and stored without loss by a codec of
// internal/image/pixelcodec.
package pixels

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"slices"
	"strings"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/internal/image/pixelcodec"
	"github.com/imgfeed/imgfeed/internal/image/resample"
	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/encoding"
	"github.com/imgfeed/imgfeed/transform"
)

// Method is the encoding.
var Method = encoding.Method{
	Name:     name,
	OnDisk:   name,
	Summary:  "resized once, without loss",
	Lossless: true,
	Parse:    parse,
	Options:  options,
	New:      newEncoding,
}

const name = "pixels"

// storedParams are the parameters as a manifest keeps them in JSON: the codec's, and beside them how the images were resized.
type storedParams struct {
	pixelcodec.Params
	Resize        string `json:"resize"` // text for ParseResize
	Interpolation string `json:"interpolation,omitempty"`
	// Resampler is an algorithm's name. Sets from before there was a choice lack it, and mean pillow-12.
	Resampler string `json:"resampler,omitempty"`
}

// Encoding implements [encoding.Encoding].
type Encoding struct {
	codec  pixelcodec.Params
	resize Resize
}

// New returns the encoding with a codec (the zero Params is bitpack) and a resize (the zero value keeps all pixels).
func New(codec pixelcodec.Params, resize Resize) (*Encoding, error) {
	c, err := pixelcodec.New(codec, kernel.Generic)
	if err != nil {
		return nil, err
	}
	return &Encoding{c.Params(), resize}, nil
}

func parse(text json.RawMessage) (encoding.Encoding, error) {
	var p storedParams
	if len(text) > 0 {
		if err := json.Unmarshal(text, &p); err != nil {
			return nil, err
		}
	}
	resize, err := ParseResize(p.Resize, p.Interpolation)
	if err == nil && !resize.none() {
		resize.Resampler, err = resample.ParseAlgorithm(cmp.Or(p.Resampler, resample.Pillow12.String()))
	}
	if err != nil {
		return nil, err
	}
	return New(p.Params, resize)
}

var options = []encoding.Option{
	{Name: "resize", Help: "256 (shorter side), 256x256, max:500 (longer side) or none (default 256)"},
	{Name: "interpolation", Help: "nearest, box, bilinear, hamming, bicubic or lanczos (default bilinear)"},
	{Name: "resampler", Help: "resize like Pillow 13 (pillow-13) or 9.4 to 12.1 (pillow-12) (default pillow-13)"},
	{Name: "codec", Help: strings.Join(pixelcodec.Names(), ", ") + " (default " + pixelcodec.Bitpack + ")"},
}

// newEncoding implements New of [encoding.Method]. Its errors begin with the option's flag.
func newEncoding(values map[string]string, small bool) (encoding.Encoding, error) {
	side, codec := values["resize"], values["codec"]
	if side == "" && !small {
		side = "256"
	}
	if filter := values["interpolation"]; filter != "" {
		if _, err := resample.ParseFilter(filter); err != nil {
			return nil, fmt.Errorf("--interpolation: %w", err)
		}
	}
	resize, err := ParseResize(side, values["interpolation"])
	if err != nil {
		return nil, fmt.Errorf("--%w", err)
	}
	if resampler := values["resampler"]; resampler != "" {
		if resize.Resampler, err = resample.ParseAlgorithm(resampler); err != nil {
			return nil, fmt.Errorf("--resampler: %w", err)
		}
	}
	if codec != "" && !slices.Contains(pixelcodec.Names(), codec) {
		return nil, fmt.Errorf("--codec %q: want one of %s", codec, strings.Join(pixelcodec.Names(), ", "))
	}
	return New(pixelcodec.Params{Codec: codec}, resize)
}

func (e *Encoding) Stored() shard.Encoding {
	p := storedParams{Params: e.codec, Resize: e.resize.String()}
	if !e.resize.none() {
		p.Interpolation, p.Resampler = e.resize.Interpolation.String(), e.resize.Resampler.String()
	}
	text, err := json.Marshal(p)
	if err != nil {
		panic(err) // numbers and names
	}
	return shard.Encoding{Name: name, Params: text}
}

// String returns, for instance, "pixels (bitpack, resize 256 bilinear, pillow-13)".
func (e *Encoding) String() string {
	if e.resize.none() {
		return fmt.Sprintf("%s (%s, resize none)", name, e.codec.Codec)
	}
	return fmt.Sprintf("%s (%s, resize %v %v, %v)", name, e.codec.Codec, e.resize, e.resize.Interpolation, e.resize.Resampler)
}

func (e *Encoding) Mapped() bool                            { return true }
func (e *Encoding) NotBitExact(spec *transform.Spec) string { return e.resize.NotBitExact(spec) }
func (e *Encoding) HoldsOriginals() bool                    { return false }
func (e *Encoding) File(r *shard.Record) ([]byte, error)    { return r.Image, nil }

func (e *Encoding) NewDecoder(level transform.Level) transform.Decoder {
	return &decoder{codec: e.newCodec(level)}
}

func (e *Encoding) newCodec(level kernel.Level) pixelcodec.Codec {
	codec, err := pixelcodec.New(e.codec, level)
	if err != nil {
		panic(err) // New has made one of the same parameters
	}
	return codec
}

// decoder implements [transform.Decoder].
type decoder struct {
	codec pixelcodec.Codec
	blob  []byte
}

func (d *decoder) Open(src transform.Source) (width, height int, err error) {
	d.blob = src.Image
	d.codec.Prefetch(src.Prefetch)
	d.codec.NonTemporal(src.NonTemporal)
	config, err := pixelcodec.DecodeConfig(src.Image)
	return config.Width, config.Height, err
}

func (d *decoder) Decode(dst []byte, stride int, r image.Rectangle) error {
	return d.codec.Decode(dst, stride, d.blob, r)
}

func (d *decoder) DecodeTo(dst transform.Output, r image.Rectangle) (bool, error) {
	return true, d.codec.DecodeTo(dst, d.blob, r)
}

func (e *Encoding) NewWorker() encoding.Worker {
	return &worker{e, transform.NewEngine(kernel.Active()), e.newCodec(kernel.Active())}
}

type worker struct {
	encoding *Encoding
	engine   *transform.Engine
	codec    pixelcodec.Codec
}

func (w *worker) Encode(s *shard.Sample, scratch *encoding.Scratch) error {
	resize := &w.encoding.resize
	pix, width, height, err := w.engine.DecodeResized(transform.Source{Image: s.Image},
		resize.resized, resize.Interpolation, resize.Resampler)
	if image, ok := errors.AsType[*transform.ImageError](err); ok {
		err = image.Err
	}
	if err != nil {
		return err
	}
	blob, err := w.codec.Encode(scratch.Image[:0], pix, 3*width, width, height)
	if err != nil {
		return err
	}
	scratch.Image, scratch.Repaired = blob, w.engine.Repaired()
	s.Format, s.Width, s.Height, s.Image = imagefile.Encoded, width, height, blob
	return nil
}

func (w *worker) Check(r *shard.Record) error {
	if r.Format != imagefile.Encoded { // what serving goes by
		return fmt.Errorf("the image is %v, the entry says %v", imagefile.Encoded, r.Format)
	}
	_, width, height, err := w.engine.DecodeFull(transform.Source{Format: imagefile.Encoded, Image: r.Image, Encoding: w.encoding})
	if err != nil {
		return err
	}
	return encoding.CheckSize(r, width, height)
}

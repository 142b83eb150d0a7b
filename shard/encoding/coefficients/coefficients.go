// Package coefficients is the encoding that keeps JPEG files as their quantised coefficients, in a form that vector instructions
// unpack (internal/image/coefficients). It gives the same pixels as the files, sooner, and the files themselves on request. Other
// images are stored as they are, record by record.
package coefficients

import (
	"encoding/json"
	"fmt"
	"image"
	"sync"

	"github.com/imgfeed/imgfeed/internal/image/coefficients"
	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/internal/image/jpeg"
	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/encoding"
	"github.com/imgfeed/imgfeed/shard/encoding/original"
	"github.com/imgfeed/imgfeed/transform"
)

// Method is the encoding. It has no parameters.
var Method = encoding.Method{
	Name:    name,
	OnDisk:  name,
	Summary: "JPEGs without Huffman codes: the same pixels in half the time, and the original files can be restored",
	Parse:   func(json.RawMessage) (encoding.Encoding, error) { return Encoding{}, nil },
	New:     func(map[string]string, bool) (encoding.Encoding, error) { return Encoding{}, nil },
}

const name = "coefficients"

const growthMax = 13 // how many times the bytes of a file its record may have, in tenths; a larger one is not worth its reading

// Encoding implements [encoding.Encoding]. What does not depend on the form of a record, it has from [original.Encoding].
type Encoding struct{ original.Encoding }

func (Encoding) Stored() shard.Encoding { return shard.Encoding{Name: name} }
func (Encoding) String() string         { return name }

// NewDecoder makes a decoder of records in coefficients; others are image files.
func (Encoding) NewDecoder(level transform.Level) transform.Decoder {
	return &decoder{coefficients.NewDecoder(level)}
}

// decoder implements [transform.Decoder].
type decoder struct{ records *coefficients.Decoder }

func (d *decoder) Open(src transform.Source) (width, height int, err error) {
	config, err := d.records.Reset(src.Image)
	return config.Width, config.Height, err
}

func (d *decoder) Decode(dst []byte, stride int, r image.Rectangle) error {
	return d.records.Decode(dst, stride, r)
}

func (d *decoder) DecodeTo(transform.Output, image.Rectangle) (bool, error) { return false, nil }

var decoders = sync.Pool{New: func() any { return coefficients.NewDecoder(kernel.Active()) }} // decoders that restore files

func (Encoding) File(r *shard.Record) ([]byte, error) {
	if r.Format != imagefile.Encoded {
		return r.Image, nil
	}
	d := decoders.Get().(*coefficients.Decoder)
	defer decoders.Put(d)
	if _, err := d.Reset(r.Image); err != nil {
		return nil, err
	}
	file, err := d.AppendFile(make([]byte, 0, len(r.Image)+shard.SlackBytes))
	if err != nil {
		return nil, err
	}
	return append(file, make([]byte, shard.SlackBytes)...)[:len(file)], nil
}

func (Encoding) NewWorker() encoding.Worker {
	return &worker{records: coefficients.NewEncoder(kernel.Active()), files: original.Encoding{}.NewWorker()}
}

type worker struct {
	records *coefficients.Encoder
	files   encoding.Worker
}

func (w *worker) Encode(s *shard.Sample, scratch *encoding.Scratch) error {
	if imagefile.Sniff(s.Image) == imagefile.JPEG {
		record, config, err := w.records.Encode(scratch.Image[:0], s.Image)
		scratch.Image = record
		if err == nil && 10*len(record) <= growthMax*len(s.Image) {
			scratch.Repaired = nil
			s.Format, s.Width, s.Height, s.Image, s.Aux = imagefile.Encoded, config.Width, config.Height, record, nil
			return nil
		}
	}
	return w.files.Encode(s, scratch)
}

// Check makes the file again, for which it decodes all of the record.
func (w *worker) Check(r *shard.Record) error {
	if r.Format != imagefile.Encoded {
		return w.files.Check(r)
	}
	file, err := Encoding{}.File(r)
	if err != nil {
		return err
	}
	config, err := jpeg.DecodeConfig(file)
	if err != nil {
		return fmt.Errorf("the file that it gives: %w", err)
	}
	return encoding.CheckSize(r, config.Width, config.Height)
}

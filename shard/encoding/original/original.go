// Package original is the encoding that keeps the files as they are, of any format, and an index of the rows of JPEGs: "jpeg" on disk.
package original

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/encoding"
	"github.com/imgfeed/imgfeed/transform"
)

// Method is the encoding. It has no parameters.
var Method = encoding.Method{
	Name:    "original",
	OnDisk:  "jpeg",
	Summary: "the files' own bytes",
	Parse:   func(json.RawMessage) (encoding.Encoding, error) { return Encoding{}, nil },
	New:     func(map[string]string, bool) (encoding.Encoding, error) { return Encoding{}, nil },
}

// Encoding implements [encoding.Encoding].
type Encoding struct{}

func (Encoding) Stored() shard.Encoding             { return shard.Encoding{Name: Method.OnDisk} }
func (Encoding) String() string                     { return Method.Name }
func (Encoding) Mapped() bool                       { return false }
func (Encoding) NotBitExact(*transform.Spec) string { return "" }
func (Encoding) HoldsOriginals() bool               { return true }

func (Encoding) File(r *shard.Record) ([]byte, error) { return r.Image, nil }

// NewDecoder returns nil: every record is an image file.
func (Encoding) NewDecoder(transform.Level) transform.Decoder { return nil }

func (Encoding) NewWorker() encoding.Worker {
	return &worker{files: imagefile.NewDecoder(kernel.Active())}
}

type worker struct {
	files *imagefile.Decoder
	index []byte // index of the record to check
}

func (w *worker) Encode(s *shard.Sample, scratch *encoding.Scratch) error {
	info, index, err := w.files.Check(scratch.Aux[:0], s.Image)
	scratch.Aux, scratch.Repaired = index, w.files.Repaired()
	s.Format, s.Width, s.Height, s.Aux = info.Format, info.Width, info.Height, index
	return err
}

func (w *worker) Check(r *shard.Record) error {
	info, index, err := w.files.Check(w.index[:0], r.Image)
	w.index = index
	switch {
	case err != nil:
		return err
	case info.Format != r.Format:
		return fmt.Errorf("the image is a %v, the entry says %v", info.Format, r.Format)
	case !bytes.Equal(index, r.Aux):
		return fmt.Errorf("the row index of %d bytes is not the one of this image, which has %d bytes", len(r.Aux), len(index))
	}
	return encoding.CheckSize(r, info.Width, info.Height)
}

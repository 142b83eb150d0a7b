package pack

import (
	"bytes"
	"fmt"
	"image"
	"image/gif"
	"image/png"
	"io"
	"strings"

	"golang.org/x/image/bmp"
	"golang.org/x/image/webp"

	"github.com/imgfeed/imgfeed/internal/jpeg"
	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/transform"
)

// pixelsMax is how many pixels an image may have: Pillow refuses larger ones as decompression bombs (twice its MAX_IMAGE_PIXELS).
const pixelsMax = 178_956_970

// Encoder makes records of images.
type Encoder interface {
	// Encoding names what the records are, with every parameter that their bytes depend on.
	Encoding() shard.Encoding
	// NewWorker returns what encodes images in one goroutine.
	NewWorker() Worker
}

// Worker encodes images, one at a time.
type Worker interface {
	// Encode makes the record of an image file. It must fully decode the image, so that what is packed can be served; its error is the reason for
	// which the file is left out. The bytes of the sample that it returns are those of the input or of the scratch, which it may grow.
	Encode(scratch *Scratch, in Input) (shard.Sample, error)
}

// Input is one image file.
type Input struct {
	Key   string
	Label int32
	Data  []byte // with at least shard.SlackBytes of capacity behind
}

// Scratch is memory that an Encode may fill; it stays untouched until the sample is written.
type Scratch struct {
	Image, Aux []byte
}

// guardedWorker is a Worker whose panics are errors: a decoder that stumbles over one hostile file must not end a build of
// hours. What it has left behind is unknown then, so that the next image gets a new worker.
type guardedWorker struct {
	encoder Encoder
	worker  Worker // nil until an image comes
}

func (g *guardedWorker) Encode(scratch *Scratch, in Input) (s shard.Sample, err error) {
	if g.worker == nil {
		g.worker = g.encoder.NewWorker()
	}
	defer func() {
		if p := recover(); p != nil {
			g.worker, err = nil, decoderPanic(p)
		}
	}()
	return g.worker.Encode(scratch, in)
}

// decoderPanic is the reason for which an image is left out whose decoding ended in a panic.
func decoderPanic(panicked any) error { return fmt.Errorf("the decoder failed on it: %v", panicked) }

// Originals is the encoding "jpeg": the files' own bytes, untouched, whatever their format, and for JPEGs an index of their rows.
type Originals struct{}

// Encoding returns "jpeg".
func (Originals) Encoding() shard.Encoding { return shard.Encoding{Name: "jpeg"} }

// NewWorker returns a worker that checks images by decoding them.
func (Originals) NewWorker() Worker { return &originalsWorker{jpeg: jpeg.New(kernel.Active())} }

type originalsWorker struct {
	jpeg   *jpeg.Decoder
	reader bytes.Reader
}

func (w *originalsWorker) Encode(scratch *Scratch, in Input) (shard.Sample, error) {
	s := shard.Sample{Key: in.Key, Label: in.Label, Format: shard.SniffFormat(in.Data), Image: in.Data}
	if err := checkFormat(s.Format, in.Data); err != nil {
		return s, err
	}
	if s.Format == shard.FormatJPEG {
		aux, config, err := w.jpeg.AppendIndex(scratch.Aux[:0], in.Data)
		s.Width, s.Height, s.Aux, scratch.Aux = config.Width, config.Height, aux, aux
		return s, err
	}
	return s, w.check(&s, codecs[s.Format])
}

// codec decodes one format other than JPEG. These are the formats and decoders of package transform.
type codec struct {
	config func(io.Reader) (image.Config, error)
	decode func(io.Reader) (image.Image, error)
}

var codecs = map[shard.Format]codec{
	shard.FormatPNG:  {png.DecodeConfig, decodePNG},
	shard.FormatGIF:  {gif.DecodeConfig, gif.Decode},
	shard.FormatBMP:  {bmp.DecodeConfig, bmp.Decode},
	shard.FormatWebP: {webp.DecodeConfig, webp.Decode},
}

// decodePNG reads what package transform reads, some damaged files included.
func decodePNG(r io.Reader) (image.Image, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	return transform.DecodePNG(data)
}

// check decodes an image and notes its size.
func (w *originalsWorker) check(s *shard.Sample, c codec) error {
	w.reader.Reset(s.Image)
	config, err := c.config(&w.reader)
	if err != nil {
		return reason(s.Format, err)
	}
	if config.Width <= 0 || config.Height <= 0 || int64(config.Width)*int64(config.Height) > pixelsMax {
		return fmt.Errorf("%v: %d×%d pixels, at least 1 and at most %d are read", s.Format, config.Width, config.Height, pixelsMax)
	}
	s.Width, s.Height = config.Width, config.Height
	w.reader.Reset(s.Image)
	if _, err = c.decode(&w.reader); err != nil {
		return reason(s.Format, err)
	}
	return nil
}

// reason names the format that a decoder's error is about.
func reason(f shard.Format, err error) error {
	if err == io.ErrUnexpectedEOF || err == io.EOF {
		return fmt.Errorf("%v: the file is cut short", f)
	}
	if strings.HasPrefix(err.Error(), f.String()+":") {
		return err
	}
	return fmt.Errorf("%v: %w", f, err)
}

// firstBytes shows how a file begins.
func firstBytes(data []byte) string {
	if len(data) > 8 {
		data = data[:8]
	}
	return fmt.Sprintf("% x", data)
}

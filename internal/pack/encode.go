package pack

import (
	"fmt"

	"github.com/imgfeed/imgfeed/internal/imagefile"
	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/shard"
)

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
func (Originals) NewWorker() Worker {
	return &originalsWorker{imagefile.NewDecoder(kernel.Active())}
}

type originalsWorker struct{ files *imagefile.Decoder }

func (w *originalsWorker) Encode(scratch *Scratch, in Input) (shard.Sample, error) {
	info, aux, err := w.files.Check(scratch.Aux[:0], in.Data)
	scratch.Aux = aux
	return shard.Sample{Key: in.Key, Label: in.Label, Width: info.Width, Height: info.Height, Format: info.Format, Image: in.Data, Aux: aux}, err
}

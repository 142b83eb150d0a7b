// Package encoding says what an encoding is: a way of storing the images of a set, from the files that are packed to the pixels that
// are served. Each is a folder here; package registry lists them.
package encoding

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/transform"
)

// A Method is an encoding whose parameters are still open.
type Method struct {
	Name    string // in text and on the command line
	OnDisk  string // in manifests; it never changes
	Summary string // how images are stored, in a few words for help
	// Lossless says that images are decoded once and stored without loss: the default for small images, and for repacking.
	Lossless bool
	// Variants returns what imgfeed plan compares: the flags of each of the method's variants, the default one first. resize is
	// --resize for the methods that have it, or empty.
	Variants func(resize string) [][]string
	// Parse reads the parameters that a manifest keeps.
	Parse func(params json.RawMessage) (Encoding, error)
	// Flags defines the flags that say the parameters, and returns what makes an Encoding of them. ready says that the
	// source's images are small ones, best kept in their own size unless a flag says otherwise. No two methods have a flag of the
	// same name.
	Flags func(*pflag.FlagSet) func(ready bool) (Encoding, error)
}

// An Encoding is a method with its parameters. It is immutable, and used by many goroutines.
type Encoding interface {
	// Encoding decodes, for serving, the records that are no image files.
	transform.Encoding
	// Stored is what a manifest says: the name on disk, and every parameter that records depend on.
	Stored() shard.Encoding
	// String describes the encoding in a few words.
	String() string
	// NewWorker returns what makes records of files and checks them, in one goroutine.
	NewWorker() Worker
	// Mapped reports whether records are best decoded where they lie in a mapped file: a copy would take as long as decoding.
	Mapped() bool
	// NotBitExact says why a transform of what is stored gives other bits than it gives of the originals, in a sentence for the
	// user; "" if it gives the same.
	NotBitExact(*transform.Spec) string
	// HoldsOriginals reports whether records are the files' own bytes, so that a set can be packed anew from them.
	HoldsOriginals() bool
}

// A Worker makes and checks records, one at a time.
type Worker interface {
	// Encode makes s, whose Image is a file with at least shard.SlackBytes of capacity after it, the sample to be stored: it sets
	// all but key and label. It must fully decode the image, so that what is packed can be served; its error is the reason for
	// which the file is left out. The sample's bytes are the file's or the scratch's, which it may grow.
	Encode(s *shard.Sample, scratch *Scratch) error
	// Check decodes a record, as it was when it was packed, and compares what comes out with what the record says of it.
	Check(*shard.Record) error
}

// Scratch is memory that an Encode may fill; it stays untouched until the sample is written.
type Scratch struct {
	Image, Aux []byte
	// Repaired is set by Encode: the file's fault that was repaired as libjpeg does, or nil.
	Repaired error
}

// NewWorker returns a worker of e whose panics are errors: a decoder that stumbles over one hostile file must not end a build of
// hours. What it has left behind is unknown then, so that the next image gets a new worker.
func NewWorker(e Encoding) Worker { return &guarded{encoding: e} }

type guarded struct {
	encoding Encoding
	worker   Worker // nil until an image comes
}

func (g *guarded) Encode(s *shard.Sample, scratch *Scratch) error {
	return g.do(func(w Worker) error { return w.Encode(s, scratch) })
}

func (g *guarded) Check(r *shard.Record) error {
	return g.do(func(w Worker) error { return w.Check(r) })
}

func (g *guarded) do(work func(Worker) error) (err error) {
	if g.worker == nil {
		g.worker = g.encoding.NewWorker()
	}
	defer func() {
		if p := recover(); p != nil {
			g.worker, err = nil, fmt.Errorf("the decoder failed on it: %v", p)
		}
	}()
	return work(g.worker)
}

// CheckSize compares the size of a record's image with the size that the record says.
func CheckSize(r *shard.Record, width, height int) error {
	if width != int(r.Width) || height != int(r.Height) {
		return fmt.Errorf("the image has %d×%d pixels, the entry says %d×%d", width, height, r.Width, r.Height)
	}
	return nil
}

// TooNarrow says that an image is so much longer in one direction than in the other that Resize(256), which presets begin with, refuses it.
func TooNarrow(width, height int) bool {
	_, _, err := transform.Resize{Size: [2]int{256}}.Resized(width, height)
	return err != nil
}

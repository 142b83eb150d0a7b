// Package encoding defines an encoding: a way of storing the images of a set, from the packed files to the served pixels. Each
// encoding is a folder here; package registry lists them.
package encoding

import (
	"encoding/json"
	"fmt"

	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/transform"
)

// A Method is an encoding without values for its parameters.
type Method struct {
	Name     string // name in text and on the command line
	OnDisk   string // name in manifests; it never changes
	Summary  string // how images are stored, in a few words for help
	Lossless bool   // images are decoded once and stored without loss: the default for small images, and for repacking
	// Parse reads the parameters that a manifest keeps.
	Parse   func(params json.RawMessage) (Encoding, error)
	Options []Option // the parameters that people choose. No two methods share the name of an option.
	// New makes an encoding from values of the options; missing ones have their defaults. small images keep their size by default.
	New func(values map[string]string, small bool) (Encoding, error)
}

// An Option is a parameter of a method, given as text.
type Option struct{ Name, Help string }

// An Encoding is a method with its parameters. It is immutable, and used by many goroutines.
type Encoding interface {
	// Encoding decodes, for serving, the records that do not hold image files.
	transform.Encoding
	// Stored returns the encoding as a manifest keeps it: the name on disk, and every parameter that records depend on.
	Stored() shard.Encoding
	// String describes the encoding in a few words.
	String() string
	// NewWorker returns a worker that makes and checks records, for one goroutine.
	NewWorker() Worker
	// Mapped reports whether records are best decoded where they lie in a mapped file: a copy would take as long as decoding.
	Mapped() bool
	// NotBitExact says in a sentence why a transform of the stored images gives other bits than of the originals; "" if it does not.
	NotBitExact(*transform.Spec) string
	// HoldsOriginals reports whether records give the files back, so that a set can be packed anew from them.
	HoldsOriginals() bool
	// File returns the file that a record was made of, or the stored image if the encoding does not hold originals, with shard.SlackBytes
	// of capacity after it. It may lie in the record.
	File(*shard.Record) ([]byte, error)
}

// A Worker makes and checks records, one at a time.
type Worker interface {
	// Encode turns s into the sample to store: it sets everything but key and label. The Image of s is a file with at least
	// shard.SlackBytes of capacity after it. Encode fully decodes the image, so that every packed image can be served; its error is the
	// reason why the file is left out. The sample's bytes lie in the file or in the scratch, which Encode may grow.
	Encode(s *shard.Sample, scratch *Scratch) error
	// Check decodes a record as Encode did, and compares the result with the record's own description.
	Check(*shard.Record) error
}

// Scratch is memory that an Encode may fill; it stays untouched until the sample is written.
type Scratch struct {
	Image, Aux []byte
	Repaired   error // set by Encode: the damage in the file that was repaired by libjpeg's rules, or nil
}

// NewWorker returns a worker of e that turns panics into errors: one hostile file must not end a build of hours. After a panic the
// worker's state is unknown, so the next image gets a new worker.
func NewWorker(e Encoding) Worker { return &guarded{e, e.NewWorker()} }

type guarded struct {
	encoding Encoding
	worker   Worker
}

func (g *guarded) Encode(s *shard.Sample, scratch *Scratch) error {
	return g.do(func(w Worker) error { return w.Encode(s, scratch) })
}

func (g *guarded) Check(r *shard.Record) error {
	return g.do(func(w Worker) error { return w.Check(r) })
}

func (g *guarded) do(work func(Worker) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			g.worker, err = g.encoding.NewWorker(), fmt.Errorf("the decoder failed on it: %v", p)
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

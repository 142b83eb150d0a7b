package loader

import (
	"fmt"
	"image"

	"github.com/imgfeed/imgfeed/internal/image/thumbnail"
	"github.com/imgfeed/imgfeed/loader/plan"
	"github.com/imgfeed/imgfeed/transform"
)

// A Picture is an image in memory: uint8 RGB, row after row. Pix is nil if there is no picture.
type Picture struct {
	Width, Height int
	Pix           []byte
}

// A Preview is one sample of a batch as the consumer has it, and the stored image.
type Preview struct {
	Index    int
	Key      string
	Label    int32
	Stored   image.Point // the stored image's width and height
	Original Picture     // the stored image, made smaller to fit, with the targets that the stream delivers
	Views    []Picture   // what the transform gave, one for each view, with the targets that it moved
	Fields   [][]byte    // the values of the stream's fields, as [shard.Fields.Split] gives them
	// Bad is the plan's sample where that could not be served: this one replaces it, or nothing does (Bad.By is -1: zeros).
	Bad *BadSample
	// Err is why the served sample can't be shown.
	Err error
}

// A Previewer makes samples of a batch once more, for status pages. The plan determines all draws, so these are
// the pixels that the consumer has, although nobody looks at its slot. It has an engine of its own, and does not disturb the
// stream's workers; it can be used after the stream was closed, for as long as its set is open. It serves one goroutine at a time.
type Previewer struct {
	stream *Stream
	batch  int
	piece  Piece       // the batch
	bad    []BadSample // bad samples of the batch
	sampler
	images [][]byte // images of each view
	slot   Slot     // fields of the sample
}

// Previewer looks at the batch that was handed out last. It returns nil before the first.
func (s *Stream) Previewer() *Previewer {
	s.lastMu.Lock()
	number, bad := s.batches-1, s.lastBad
	s.lastMu.Unlock()
	if number < 0 {
		return nil
	}
	p := &Previewer{stream: s, batch: number, bad: bad, sampler: newSampler(transform.ActiveLevel())}
	p.piece.Indices, p.piece.Repetitions = s.cfg.Plan.Batch(number, nil), s.cfg.Plan.Repetitions(number, nil)
	return p
}

// Batch returns the batch's number in the plan.
func (p *Previewer) Batch() int { return p.batch }

// Len returns the number of samples in the batch.
func (p *Previewer) Len() int { return len(p.piece.Indices) }

// Sample makes one sample of the batch. It shrinks the original so that no side has more than side pixels. Pictures are valid until
// the next call.
func (p *Previewer) Sample(position, side int) (shown Preview) {
	cfg := &p.stream.cfg
	shown.Index = p.piece.Indices[position]
	for i := range p.bad {
		if p.bad[i].Position == position {
			shown.Bad = &p.bad[i]
		}
	}
	switch {
	case shown.Bad != nil && shown.Bad.By < 0:
		shown.Key, shown.Label = shown.Bad.Key, BlankLabel
		return shown
	case shown.Bad != nil:
		shown.Index = shown.Bad.By
	}
	shown.Key, _ = cfg.Dataset.Key(shown.Index) // an error is Read's too
	if err := p.make(&shown, position, side); err != nil {
		shown.Err = newSampleError(cfg.Dataset, shown.Index, err)
		shown.Original, shown.Views, shown.Fields = Picture{}, nil, nil
	}
	return shown
}

// make reads a sample and makes its pictures.
func (p *Previewer) make(shown *Preview, position, side int) error {
	cfg := &p.stream.cfg
	return p.guard(cfg.Dataset, shown.Index, func() error {
		source, err := p.load(cfg.Dataset, shown.Index, false)
		if err != nil {
			return err
		}
		shown.Label = p.record.Label
		if shown.Fields, err = cfg.Fields.values(&p.record); err != nil {
			return cfg.Dataset.Corrupt(shown.Index, err)
		}
		return p.render(shown, position, source, side)
	})
}

// originalPixelsMax bounds the stored images decoded for people: three bytes a pixel, for a moment.
const originalPixelsMax = 1 << 25

// render makes a sample's pictures.
func (p *Previewer) render(shown *Preview, position int, src transform.Source, side int) error {
	cfg := &p.stream.cfg
	views, order := cfg.viewsOf(p.batch), cfg.Plan.Config()
	for v, spec := range views {
		if v == len(p.images) {
			p.images = append(p.images, make([]byte, spec.OutputBytes()))
		}
		height, width := spec.OutputSize()
		shown.Views = append(shown.Views, Picture{width, height, p.images[v]})
	}
	p.aim(views, transform.NHWC, p.images, 0, DrawKey{order.Seed, order.Epoch, shown.Index, p.piece.Repetition(position)})
	if err := p.followTargets(shown.Index); err != nil {
		return err
	}
	if err := p.engine.ApplyViews(src, p.views); err != nil {
		return err
	}
	if p.stream.cfg.Fields.HasTargets() {
		first := shown.Views[0]
		p.target.after(first.Width, first.Height).Draw(first.Pix, first.Width, first.Height)
	}
	pix, w, h, err := p.engine.DecodeResized(src, func(w, h int) (int, int, error) {
		if shown.Stored = image.Pt(w, h); w*h > originalPixelsMax {
			return 0, 0, fmt.Errorf("an image of more than %d pixels is not decoded to be looked at", originalPixelsMax)
		}
		w, h = thumbnail.Fit(w, h, side)
		return w, h, nil
	}, transform.Bilinear, transform.Pillow13)
	if shown.Original = (Picture{w, h, pix}); pix != nil && cfg.Fields.HasTargets() {
		p.target.before(shown.Stored).Draw(pix, w, h)
	}
	return err
}

// followTargets has the targets that the stream delivers follow the image, as boxes to draw.
func (p *Previewer) followTargets(index int) error {
	fields := p.stream.cfg.Fields
	if !fields.HasTargets() {
		return nil
	}
	for k := len(p.slot.Fields); k < fields.Len(); k++ {
		p.slot.Fields = append(p.slot.Fields, make([]byte, fields.Stride(k)))
	}
	err := p.follow(p.stream.cfg.Dataset, fields, &p.slot, 0, index)
	p.target.Format, p.target.Fraction = transform.XYXY, false
	return err
}

// Plan returns the plan that the stream serves.
func (s *Stream) Plan() *plan.Plan { return s.cfg.Plan }

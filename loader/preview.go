package loader

import (
	"fmt"
	"runtime/debug"

	"github.com/imgfeed/imgfeed/loader/plan"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/transform"
)

// A Preview is one sample of a batch as the consumer has it: its first view, where it has several.
type Preview struct {
	Index  int
	Key    string
	Label  int32
	Width  int
	Height int
	Pix    []byte // uint8 RGB, row after row
	Err    error  // why there are no pixels
}

// Preview makes the first samples of one of the stream's batches once more, at most most of them. Draws are a function of what the plan says, so
// that these are the pixels that the consumer has, although its slot is not looked at. It is for people who look on: every call
// makes an engine of its own, and the stream's workers are not disturbed.
func (s *Stream) Preview(batch, most int) ([]Preview, error) {
	p := s.cfg.Plan
	if batch < 0 || batch >= p.Batches() {
		return nil, fmt.Errorf("loader: there is no batch %d, the plan has %d", batch, p.Batches())
	}
	indices, again := p.Batch(batch, nil), p.Repetitions(batch, nil)
	engine := transform.NewEngine(transform.ActiveLevel())
	list := make([]Preview, 0, most)
	for i, index := range indices[:min(most, len(indices))] {
		repetition := 0
		if len(again) > 0 {
			repetition = again[i]
		}
		shown := s.preview(engine, index, repetition)
		if shown.Err != nil && s.cfg.OnError == Substitute {
			for candidate := range s.alike(index, repetition) {
				if other := s.preview(engine, candidate, repetition); other.Err == nil {
					shown = other
					break
				}
			}
		}
		list = append(list, shown)
	}
	return list, nil
}

func (s *Stream) preview(engine *transform.Engine, index, repetition int) (view Preview) {
	spec := s.cfg.Views[0]
	height, width := spec.OutputSize()
	view = Preview{Index: index, Width: width, Height: height}
	view.Key, _ = s.cfg.Set.Key(index) // an error is Read's too
	record, _, err := s.cfg.Set.Read(index, nil)
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // as in a worker
	defer func() {
		if p := recover(); p != nil {
			fault := shard.FaultError(p, record.Image)
			if fault == nil {
				panic(p)
			}
			view.Pix, view.Err = nil, newSampleError(s.cfg.Set, index, s.cfg.Set.Corrupt(index, fault))
		}
	}()
	if err == nil {
		view.Label, view.Pix = record.Label, make([]byte, spec.OutputBytes())
		draws := transform.NewViewDraws(s.seed, s.epoch, index, repetition, 0)
		_, err = engine.Apply(spec, transform.Output{Pix: view.Pix, Layout: transform.NHWC}, record.Source, draws)
	}
	if err != nil {
		view.Pix, view.Err = nil, newSampleError(s.cfg.Set, index, err)
	}
	return view
}

// Plan returns the plan that the stream serves.
func (s *Stream) Plan() *plan.Plan { return s.cfg.Plan }

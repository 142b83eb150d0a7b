package loader

import (
	"fmt"

	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/transform"
)

// A sampler makes a sample from its record: for batches, previews, records of the transform, and whole images. It serves one goroutine
// at a time.
type sampler struct {
	level  transform.Level
	engine *transform.Engine
	buf    []byte           // read buffer
	record shard.Record     // the current sample's record
	views  []transform.View // the current sample's views
	values [][]byte         // the current sample's fields
	target targetMaker
}

func newSampler(level transform.Level) sampler {
	return sampler{level: level, engine: transform.NewEngine(level)}
}

// A DrawKey says which random numbers a sample gets. Repetition is the sample's in the plan, 0 unless samples are repeated.
type DrawKey struct {
	Seed                     int64
	Epoch, Index, Repetition int
}

// keepBytesMax bounds the read buffer kept from sample to sample.
const keepBytesMax = 16 << 20

// load reads the record of a sample, and returns the engine's input.
func (s *sampler) load(set sampleSet, index int, view bool) (source transform.Source, err error) {
	s.record, s.buf, err = set.Record(index, s.buf, view)
	if cap(s.buf) > keepBytesMax { // an unusually large record has made it
		s.buf = nil
	}
	return s.source(set), err
}

// source returns the engine's input from the record.
func (s *sampler) source(set sampleSet) transform.Source {
	return transform.Source{Format: s.record.Format, Image: s.record.Image, Aux: s.record.Aux, Encoding: set.Encoding()}
}

// aim has the views of a transform go to a position of the images' memory.
func (s *sampler) aim(views transform.Views, layout transform.Layout, images [][]byte, position int, key DrawKey) {
	s.views = s.views[:0]
	for v, spec := range views {
		size := spec.OutputBytes()
		s.views = append(s.views, transform.View{
			Spec: spec, Dst: transform.Output{Pix: images[v][position*size : (position+1)*size : (position+1)*size], Layout: layout},
			RNG: views.RNG(key.Seed, key.Epoch, key.Index, key.Repetition, v),
		})
	}
}

// fill makes a sample from its record at a position of a slot.
func (s *sampler) fill(cfg *StreamConfig, views transform.Views, slot *Slot, position int,
	source transform.Source, key DrawKey) error {
	s.aim(views, cfg.Layout, slot.Images, position, key)
	fields := cfg.Fields
	if err := s.follow(cfg.Dataset, fields, slot, position, key.Index); err != nil {
		return err
	}
	if err := s.engine.ApplyViews(source, s.views); err != nil {
		return err
	}
	if fields.Len() > 0 {
		fields.put(slot, position, &s.record, s.values)
	}
	if fields.HasTargets() {
		s.target.put(fields, slot, position)
	}
	slot.Labels[position] = int64(s.record.Label)
	for v := range slot.Params {
		drawn := s.views[v].Params.Int32s()
		copy(slot.Params[v][position*paramsPerSample:], drawn[:])
	}
	return nil
}

// follow splits the record's fields, and has the targets among them follow the image.
func (s *sampler) follow(set sampleSet, fields *Fields, slot *Slot, position, index int) (err error) {
	if fields.Len() == 0 {
		return nil
	}
	s.values, err = fields.schema.Split(s.record.Fields, s.values[:0])
	if err == nil && fields.HasTargets() {
		err = s.target.read(fields, slot, position, &s.record, s.values)
		s.views[0].Targets = &s.target.Targets
	}
	if err != nil {
		return set.Corrupt(index, err)
	}
	return nil
}

// guard calls do, which makes something of a sample. A panic becomes an error: of the mapped file that the record lies in, or our
// own bug, which must not take other samples along. The engine may then be in any state, so guard replaces it.
func (s *sampler) guard(set sampleSet, index int, do func() error) error {
	s.record = shard.Record{}
	err := shard.Guard(do)
	if panicked, ok := err.(*shard.PanicError); ok {
		s.engine, s.buf = transform.NewEngine(s.level), nil
		if fault := panicked.Fault(s.record.Image); fault != nil {
			return set.Corrupt(index, fault)
		}
	}
	return err
}

// Recorded does to one sample what a stream of a plan with this seed and epoch, and with these fields, does to it. It returns the steps
// as a JSON list, see [transform.Engine.ApplyRecorded]. view is an index into views. The caller lends an engine.
func Recorded(set *Dataset, engine *transform.Engine, views transform.Views, view int, fields *Fields, key DrawKey) (string, error) {
	s, spec := sampler{engine: engine}, views[view]
	source, err := s.load(set, key.Index, false)
	if err == nil {
		dst := transform.Output{Pix: make([]byte, spec.OutputBytes())}
		s.views = []transform.View{{Spec: spec, Dst: dst, RNG: views.RNG(key.Seed, key.Epoch, key.Index, key.Repetition, view)}}
		slot := &Slot{}
		for k := range fields.Len() {
			slot.Fields = append(slot.Fields, make([]byte, fields.Stride(k)))
		}
		err = s.follow(set, fields, slot, 0, key.Index)
	}
	done := ""
	if err == nil {
		done, err = engine.RecordView(&s.views[0], source)
	}
	if err != nil {
		return "", fmt.Errorf("loader: sample %d: %w", key.Index, err)
	}
	return done, nil
}

// Whole decodes sample i of a set as it is stored, without a transform: the file's own pixels, or with an encoding that resized them
// the resized ones. Every call makes an engine of its own.
func Whole(set *Dataset, i int) (image Picture, label int32, err error) {
	s := newSampler(transform.ActiveLevel())
	source, err := s.load(set, i, false)
	if err != nil {
		return Picture{}, 0, err
	}
	if image.Pix, image.Width, image.Height, err = s.engine.DecodeFull(source); err != nil {
		return Picture{}, 0, fmt.Errorf("loader: sample %d: %w", i, err)
	}
	return image, s.record.Label, nil
}

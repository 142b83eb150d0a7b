package loader

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/internal/image/pixelcodec"
	"github.com/imgfeed/imgfeed/internal/image/resample"
	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/loader/plan"
	"github.com/imgfeed/imgfeed/shard"
	pixelsencoding "github.com/imgfeed/imgfeed/shard/encoding/pixels"
	"github.com/imgfeed/imgfeed/shard/storage"
	"github.com/imgfeed/imgfeed/transform"
)

const testSpec = `[{"op":"RandomCrop","size":8,"padding":1},{"op":"RandomHorizontalFlip"}]`

// baseSet is the part of a set that can do no more than it must.
type baseSet struct{}

func (baseSet) WillNeed(int) (shard.Need, error) { return shard.Need{Ready: true}, nil }

func (baseSet) Fetch(int, []byte) ([]byte, error) { return nil, errors.ErrUnsupported }

func (baseSet) Check(_ int, _ []byte, err error) (shard.Record, error) { return shard.Record{}, err }

func (baseSet) ReadKept(_ int, buf []byte) (shard.Record, []byte, bool) {
	return shard.Record{}, buf, false
}

func (baseSet) MayHang() bool { return false }

func (baseSet) Waited(int) {}

func (baseSet) Overdue(_ int, after time.Duration) error {
	return storage.Overdue("a file", 0, 1, after)
}

func (baseSet) Mapped(int) []byte { return nil }

func (baseSet) Corrupt(_ int, err error) error { return err }

// memorySet is a set in memory. Sample i has label i % 10 and key "k".
type memorySet struct {
	baseSet
	stored *pixelsencoding.Encoding
	blobs  [][]byte
	bad    map[int]error // samples that cannot be read
	panics int           // a sample whose reading panics; -1 for none
	delay  time.Duration // of each read
	spin   time.Duration // of each read, without leaving the processor
	reads  atomic.Int64
	gate   chan struct{} // if not nil, a read waits for a token
}

func newMemorySet(t testing.TB, n int) *memorySet {
	t.Helper()
	stored := testenv.Must(pixelsencoding.New(pixelcodec.Params{}, pixelsencoding.Resize{}))(t)
	s := &memorySet{stored: stored, bad: map[int]error{}, panics: -1}
	codec := testenv.Must(pixelcodec.New(pixelcodec.Params{}, kernel.Generic))(t)
	rng := rand.New(rand.NewPCG(1, 1))
	for range n {
		w, h := 8+rng.IntN(8), 8+rng.IntN(8)
		pix := make([]byte, w*h*3)
		for i := range pix {
			pix[i] = byte(rng.Uint32())
		}
		blob := testenv.Must(codec.Encode(nil, pix, w*3, w, h))(t)
		s.blobs = append(s.blobs, blob)
	}
	return s
}

func (s *memorySet) Encoding() transform.Encoding { return s.stored }

func (s *memorySet) Record(i int, buf []byte, _ bool) (shard.Record, []byte, error) {
	if s.gate != nil {
		<-s.gate
	}
	s.reads.Add(1)
	if s.delay > 0 {
		time.Sleep(s.delay)
	}
	for started := time.Now(); s.spin > 0 && time.Since(started) < s.spin; {
	}
	if i == s.panics {
		panic("this sample panics")
	}
	if err := s.bad[i]; err != nil {
		return shard.Record{}, buf, err
	}
	buf = append(append(buf[:0], s.blobs[i]...), make([]byte, pixelcodec.SlackBytes)...)
	return recordOf(i, buf[:len(s.blobs[i])]), buf, nil
}

func recordOf(i int, image []byte) shard.Record {
	return shard.Record{Entry: shard.Entry{Format: imagefile.Encoded, Label: int32(i % 10)}, Image: image}
}

func (s *memorySet) Label(i int) (int32, error) { return int32(i % 10), nil }

func (s *memorySet) Key(int) (string, error) { return "k", nil }

func mustSpec(t testing.TB, text string) *transform.Spec {
	t.Helper()
	return testenv.Must(transform.Parse(text))(t)
}

func mustPlan(t testing.TB, cfg plan.Config) *plan.Plan {
	t.Helper()
	return testenv.Must(plan.New(cfg))(t)
}

func newTestPool(t testing.TB, threads int) *Pool {
	t.Helper()
	p := NewPool(PoolConfig{Threads: threads})
	t.Cleanup(p.Close)
	return p
}

// openStream opens a stream until the test ends.
func openStream(t testing.TB, p *Pool, cfg StreamConfig) *Stream {
	t.Helper()
	s := testenv.Must(p.NewStream(cfg))(t)
	t.Cleanup(s.Close)
	return s
}

// newSlots returns n slots for batches of the plan.
func newSlots(n, batch int, spec *transform.Spec) []*Slot {
	slots := make([]*Slot, n)
	for i := range slots {
		slots[i] = NewSlot(i, batch, transform.Views{spec})
	}
	return slots
}

// testStream is the configuration of a stream over set, with quiet logs.
func testStream(t testing.TB, set sampleSet, cfg plan.Config, slots int) StreamConfig {
	t.Helper()
	spec := mustSpec(t, testSpec)
	return StreamConfig{
		Dataset: set, Plan: mustPlan(t, cfg), Views: transform.Views{spec}, Slots: NewSlotPool(newSlots(slots, cfg.BatchSize, spec)...),
		Log: slog.New(slog.DiscardHandler),
	}
}

// epoch is all that a stream handed out.
type epoch struct {
	images          []byte
	labels, indices []int64
	params          []int32
	repetitions     []int64
	batches         []Batch // their slots must not be looked at
}

// compareEpochs checks that an epoch is as wanted.
func compareEpochs(t testing.TB, what string, got, want epoch) {
	t.Helper()
	switch {
	case !slices.Equal(got.indices, want.indices):
		t.Errorf("%s: indices %v, want %v", what, got.indices, want.indices)
	case !slices.Equal(got.labels, want.labels):
		t.Errorf("%s: labels %v, want %v", what, got.labels, want.labels)
	case !slices.Equal(got.repetitions, want.repetitions):
		t.Errorf("%s: repetitions %v, want %v", what, got.repetitions, want.repetitions)
	case !slices.Equal(got.params, want.params):
		t.Errorf("%s: the parameters differ", what)
	case !bytes.Equal(got.images, want.images):
		t.Errorf("%s: the pixels differ", what)
	}
}

// drain takes every batch of a stream and gives the slots back, overwritten, as a ring would be.
func drain(t testing.TB, s *Stream, cfg StreamConfig) (e epoch, err error) {
	t.Helper()
	size := cfg.Views[0].OutputBytes()
	for {
		b, err := s.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return e, nil
		}
		if err != nil {
			return e, err
		}
		e.images = append(e.images, b.Slot.Images[0][:b.Count*size]...)
		e.labels = append(e.labels, b.Slot.Labels[:b.Count]...)
		e.indices = append(e.indices, b.Slot.Indices[:b.Count]...)
		e.params = append(e.params, b.Slot.Params[0][:b.Count*paramsPerSample]...)
		e.repetitions = append(e.repetitions, b.Slot.Repetitions[:b.Count]...)
		e.batches = append(e.batches, b)
		for i := range b.Slot.Images[0] {
			b.Slot.Images[0][i] = 0xEE
		}
		cfg.Slots.Put(b.Slot)
	}
}

// serve runs one stream to its end.
func serve(t testing.TB, p *Pool, cfg StreamConfig) (epoch, error) {
	t.Helper()
	s := testenv.Must(p.NewStream(cfg))(t)
	defer s.Close()
	return drain(t, s, cfg)
}

// expect computes what a stream must hand out, sample by sample.
func expect(t testing.TB, set *memorySet, cfg StreamConfig) (e epoch) {
	t.Helper()
	engine, order := transform.NewEngine(kernel.Generic), cfg.Plan.Config()
	for b := range cfg.Plan.Batches() {
		again := cfg.Plan.Repetitions(b, nil)
		for i, index := range cfg.Plan.Batch(b, nil) {
			repetition := 0
			if len(again) > 0 {
				repetition = again[i]
			}
			record, _ := testenv.Must2(set.Record(index, nil, false))(t)
			pix := make([]byte, cfg.Views[0].OutputBytes())
			params := testenv.Must(engine.Apply(cfg.Views[0], resample.Output{Pix: pix, Layout: cfg.Layout}, sourceOf(set, &record),
				transform.NewViewRNG(order.Seed, order.Epoch, index, repetition, 0)))(t)
			e.images = append(e.images, pix...)
			e.labels = append(e.labels, int64(record.Label))
			e.indices = append(e.indices, int64(index))
			drawn := params.Int32s()
			e.params = append(e.params, drawn[:]...)
			e.repetitions = append(e.repetitions, int64(repetition))
		}
	}
	return e
}

// sourceOf returns a record as the engine takes it.
func sourceOf(set sampleSet, record *shard.Record) transform.Source {
	return transform.Source{Format: record.Format, Image: record.Image, Aux: record.Aux, Encoding: set.Encoding()}
}

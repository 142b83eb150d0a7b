package loader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/image/pixelcodec"
	"github.com/imgfeed/imgfeed/internal/image/resample"
	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/loader/plan"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/encoding"
	"github.com/imgfeed/imgfeed/shard/encoding/original"
	pixelsencoding "github.com/imgfeed/imgfeed/shard/encoding/pixels"
	"github.com/imgfeed/imgfeed/shard/encoding/registry"
	"github.com/imgfeed/imgfeed/shard/pack"
	"github.com/imgfeed/imgfeed/shard/source"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/synth"
	"github.com/imgfeed/imgfeed/transform"
)

// identityTransforms are those that a set stored with Resize(256) gives the originals' bits of.
var identityTransforms = map[string]string{
	"center": "eval",
	"random": `[{"op":"Resize","size":256},{"op":"RandomCrop","size":224}]`,
	"flip":   "train-resize",
	"odd":    `[{"op":"Resize","size":256},{"op":"RandomCrop","size":[97,131]},{"op":"RandomHorizontalFlip","p":0.5}]`,
}

// identitySets packs a folder of images as jpeg and as pixels by every codec, resized by an algorithm.
func identitySets(t *testing.T, src string, algorithm resample.Algorithm) map[string]*shard.Set {
	t.Helper()
	resize := testenv.Must(pixelsencoding.ParseResize("256", ""))(t)
	resize.Resampler = algorithm
	encoders := map[string]encoding.Encoding{"jpeg": original.Encoding{}}
	for _, codec := range pixelcodec.Names() {
		encoders[codec] = testenv.Must(pixelsencoding.New(pixelcodec.Params{Codec: codec}, resize))(t)
	}
	sets := make(map[string]*shard.Set)
	for name, encoder := range encoders {
		splits := testenv.Must(source.Open(src, dataset.Options{}))(t)
		out := filepath.Join(t.TempDir(), name)
		testenv.Must(pack.Build(t.Context(), splits[0], out, pack.Options{Partitions: 2, Encoding: encoder}))(t)
		sets[name] = testenv.Must(shard.OpenSet(out))(t)
		t.Cleanup(func() { sets[name].Close() })
	}
	return sets
}

// identitySource is the folder IMGFEED_TEST_IMAGES of class folders, or one of images made here, and the number of draws,
// IMGFEED_TEST_DRAWS.
func identitySource(t *testing.T) (src string, draws int) {
	t.Helper()
	draws = 2
	if s := os.Getenv("IMGFEED_TEST_DRAWS"); s != "" {
		draws, _ = strconv.Atoi(s)
	}
	if src = os.Getenv("IMGFEED_TEST_IMAGES"); src != "" {
		return src, draws
	}
	dir := filepath.Join(t.TempDir(), "data")
	testenv.Must(synth.Write(t.Context(), dir, synth.Options{Classes: 2, Train: 10, Val: -1, Size: 420}))(t)
	return filepath.Join(dir, "train"), draws
}

// epochOf serves one epoch.
func epochOf(t *testing.T, pool *Pool, set *shard.Set, spec *transform.Spec, layout resample.Layout, number int) epoch {
	t.Helper()
	order := mustPlan(t, plan.Config{
		Fingerprint: set.Manifest().Fingerprint, Samples: set.Len(), Partitions: set.Partitions(), BatchSize: 16, Seed: 7, Epoch: number,
		Shuffle: true, Policy: plan.Uneven,
	})
	return testenv.Must(serve(t, pool, StreamConfig{
		Dataset: testenv.Must(FromShards(set))(t), Plan: order, Views: transform.Views{spec}, Layout: layout,
		Slots: NewSlotPool(newSlots(2, 16, spec)...),
	}))(t)
}

// TestPixelsServeTheBitsOfJPEG serves the same epochs from the originals and from pixels of every codec, at every level
// and in both layouts, and wants identical batches: images, labels, indices and draws.
func TestPixelsServeTheBitsOfJPEG(t *testing.T) {
	src, draws := identitySource(t)
	for _, algorithm := range []resample.Algorithm{resample.Pillow13, resample.Pillow12} {
		t.Run(algorithm.String(), func(t *testing.T) { testServesTheBitsOfJPEG(t, src, draws, algorithm) })
	}
}

func testServesTheBitsOfJPEG(t *testing.T, src string, draws int, algorithm resample.Algorithm) {
	sets := identitySets(t, src, algorithm)
	reference := NewPool(PoolConfig{Threads: 2})
	defer reference.Close()
	for name, text := range identityTransforms {
		views := testenv.Must(transform.ParseViews(text, algorithm))(t)
		spec := views[0]
		for epoch := range draws {
			for _, layout := range []resample.Layout{resample.NHWC, resample.NCHW} {
				want := epochOf(t, reference, sets["jpeg"], spec, layout, epoch)
				for _, level := range kernel.Available() {
					pool := NewPool(PoolConfig{Threads: 2, Level: &level})
					for _, codec := range pixelcodec.Names() {
						testenv.Must(CheckBitExact(sets[codec], transform.Views{spec}, true))(t)
						what := fmt.Sprintf("%s, epoch %d, %v, %v, %s", name, epoch, layout, level, codec)
						compareEpochs(t, what, epochOf(t, pool, sets[codec], spec, layout, epoch), want)
					}
					pool.Close()
				}
			}
		}
	}
}

// TestCheckBitExact says of which transforms stored images give the originals' bits.
func TestCheckBitExact(t *testing.T) {
	for _, c := range []struct {
		size, interpolation, transform string
		exact                          bool
	}{
		{"256", "", "eval", true},
		{"256", "", `[{"op":"Resize","size":256,"resampler":"pillow-12"},{"op":"CenterCrop","size":224}]`, false},
		{"256", "nearest", `[{"op":"Resize","size":256,"interpolation":"nearest","resampler":"pillow-12"},{"op":"CenterCrop","size":224}]`, true},
		{"256", "", "train-resize", true},
		{"none", "", "train", true},
		{"256", "", "train", false},
		{"256", "bicubic", "eval", false},
		{"232", "", "eval", false},
		{"256x256", "", "eval", false},
		{"256x256", "", `[{"op":"Resize","size":[256,256]}]`, true},
		{"max:256", "", "eval", false},
		{"256", "", `[{"op":"RandomHorizontalFlip"},{"op":"Resize","size":256},{"op":"CenterCrop","size":224}]`, false},
	} {
		resize := testenv.Must(pixelsencoding.ParseResize(c.size, c.interpolation))(t)
		encoder := testenv.Must(pixelsencoding.New(pixelcodec.Params{}, resize))(t)
		dir := filepath.Join(t.TempDir(), "set")
		testenv.Must(testenv.Must(shard.NewSetWriter(dir, shard.SetOptions{Split: "train", Encoding: encoder.Stored()}))(t).Commit())(t)
		set := testenv.Opened(shard.OpenSet(dir))(t)
		spec := testenv.Must(transform.Parse(c.transform))(t)
		note, err := CheckBitExact(set, transform.Views{spec}, false)
		testenv.Check(t, err == nil && (note == "") == c.exact, "stored with %s %s, %s: %q, %v", c.size, c.interpolation, c.transform, note, err)
		if _, err := CheckBitExact(set, transform.Views{spec}, true); (err == nil) != c.exact {
			t.Errorf("stored with %s %s, %s: %v", c.size, c.interpolation, c.transform, err)
		} else if err != nil && !strings.Contains(err.Error(), dir) {
			t.Errorf("%v does not name the set", err)
		}
		got := registry.Describe(set.Manifest().Encoding)
		testenv.Check(t, strings.Contains(got, c.size), "stored with %s is described as %s", c.size, got)
	}
}

// pixelsSet packs images made here with a codec, and returns the set's folder and its only shard.
func pixelsSet(t *testing.T, codec string) (dir, path string) {
	t.Helper()
	data := filepath.Join(t.TempDir(), "data")
	testenv.Must(synth.Write(t.Context(), data, synth.Options{Classes: 1, Train: 12, Val: -1, Size: 300}))(t)
	splits := testenv.Must(source.Open(filepath.Join(data, "train"), dataset.Options{ForceClasses: true}))(t)
	resize := testenv.Must(pixelsencoding.ParseResize("256", ""))(t)
	encoder := testenv.Must(pixelsencoding.New(pixelcodec.Params{Codec: codec}, resize))(t)
	dir = filepath.Join(t.TempDir(), "set")
	testenv.Must(pack.Build(t.Context(), splits[0], dir, pack.Options{Encoding: encoder}))(t)
	return dir, filepath.Join(dir, "rank-0000", "00000.imgshard")
}

// TestFileCutShort cuts a shard short while it is served: the samples that are gone become errors that name them, the
// others are served, and the process lives, whether its samples are viewed or read.
func TestFileCutShort(t *testing.T) {
	for k, codec := range append(pixelcodec.Names(), pixelcodec.Bitpack) {
		dir, path := pixelsSet(t, codec)
		set, served := openTestSet(t, dir)
		if !served.mapped {
			t.Skip("files are not mapped here")
		}
		testenv.OK(t, os.Truncate(path, testenv.Must(set.Entry(7))(t).Offset+5000))
		spec := mustSpec(t, "eval")
		order := testenv.Must(plan.New(plan.Config{Samples: set.Len(), BatchSize: 12}))(t)
		pool := newTestPool(t, 2)
		slots := NewSlotPool(NewSlot(0, 12, transform.Views{spec}))
		steady := steadySet{served, k > 0}
		cfg := StreamConfig{Dataset: steady, Plan: order, Views: transform.Views{spec}, Slots: slots, OnError: Blank}
		stream := testenv.Must(pool.NewStream(cfg))(t)
		batch, err := stream.Next(context.Background())
		testenv.Check(t, err == nil && len(batch.Bad) == 5, "%s: %d blank samples, %v; want those from 7 on", codec, len(batch.Bad), err)
		slots.Put(batch.Slot)
		testenv.Fails(stream.Next(context.Background()))(t, io.EOF)
		stream.Close()
		_, _, err = steady.Record(9, nil, false)
		corrupt, ok := errors.AsType[*shard.CorruptError](err)
		testenv.Require(t, ok && corrupt.Index == 9 && corrupt.Path == path, "%s: %v", codec, err)
		testenv.Says(t, codec, err, []string{"the file ends after", "cut short"}[min(k, 1)])
	}
}

// steadySet views its samples, or reads them, whatever a stream thinks better.
type steadySet struct {
	*Dataset
	views bool
}

func (steadySet) WillNeed(int) (shard.Need, error) { return shard.Need{Ready: true}, nil }

func (s steadySet) Record(i int, buf []byte, _ bool) (shard.Record, []byte, error) {
	return s.Dataset.Record(i, buf, s.views)
}

// cuttingSet cuts the file short between the check of a sample and its decoding.
type cuttingSet struct {
	steadySet
	path string
}

func (s *cuttingSet) Record(i int, buf []byte, view bool) (shard.Record, []byte, error) {
	record, buf, err := s.steadySet.Record(i, buf, view)
	return record, buf, errors.Join(err, os.Truncate(s.path, 4096))
}

// TestFileCutShortUnderDecoder checks that a fault in the middle of decoding is an error like any other, by every codec.
func TestFileCutShortUnderDecoder(t *testing.T) {
	for _, codec := range pixelcodec.Names() {
		dir, path := pixelsSet(t, codec)
		set, served := openTestSet(t, dir)
		if !served.mapped {
			t.Skip("files are not mapped here")
		}
		spec := mustSpec(t, "train")
		order := testenv.Must(plan.New(plan.Config{Samples: set.Len(), BatchSize: 4}))(t)
		pool := newTestPool(t, 1)
		stream := testenv.Must(pool.NewStream(StreamConfig{
			Dataset: &cuttingSet{steadySet{served, true}, path}, Plan: order, Views: transform.Views{spec},
			Slots: NewSlotPool(NewSlot(0, 4, transform.Views{spec})),
		}))(t)
		_, err := stream.Next(context.Background())
		_, isSample := errors.AsType[*SampleError](err)
		testenv.Check(t, isSample && strings.Contains(err.Error(), "cut short"), "%s: %v", codec, err)
		bad, ok := errors.AsType[*shard.CorruptError](err)
		testenv.Check(t, ok && bad.Path == path, "%s: %v does not name %s", codec, err, path)
		stream.Close()
	}
}

// TestFlippedBitInMapping checks that a mapped record is checked at every view.
func TestFlippedBitInMapping(t *testing.T) {
	dir, path := pixelsSet(t, pixelcodec.Bitpack)
	set, served := openTestSet(t, dir)
	testenv.Must2(served.Record(3, nil, true))(t)
	e := testenv.Must(set.Entry(3))(t)
	f := testenv.Opened(os.OpenFile(path, os.O_RDWR, 0))(t)
	var b [1]byte
	testenv.Must(f.ReadAt(b[:], e.Offset+777))(t)
	b[0] ^= 4
	testenv.Must(f.WriteAt(b[:], e.Offset+777))(t)
	_, _, err := served.Record(3, nil, true)
	sum, ok := errors.AsType[*shard.ChecksumError](err)
	testenv.Check(t, ok, "%v (%v)", err, sum)
}

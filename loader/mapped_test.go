package loader

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/image/pixelcodec"
	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/loader/plan"
	"github.com/imgfeed/imgfeed/shard"
	pixelsencoding "github.com/imgfeed/imgfeed/shard/encoding/pixels"
	"github.com/imgfeed/imgfeed/shard/pack"
	"github.com/imgfeed/imgfeed/shard/source"
	"github.com/imgfeed/imgfeed/shard/source/dataset"
	"github.com/imgfeed/imgfeed/shard/synth"
	"github.com/imgfeed/imgfeed/transform"
)

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
		e := testenv.Must(set.Entry(7))(t)
		testenv.OK(t, os.Truncate(path, e.Offset+5000))
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
		_, err = stream.Next(context.Background())
		testenv.Check(t, err == io.EOF, "%v", err)
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

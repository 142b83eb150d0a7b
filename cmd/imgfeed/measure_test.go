package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/loader"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/synth"
	"github.com/imgfeed/imgfeed/transform"
)

// measuredSet packs 12 images into two partitions, of which the first is here.
func measuredSet(t *testing.T, encoding string) *shard.Set {
	t.Helper()
	src, dir := filepath.Join(t.TempDir(), "src"), filepath.Join(t.TempDir(), "set")
	testenv.Must(synth.Write(t.Context(), src, synth.Options{Classes: 2, Train: 6, Val: -1, Size: 40}))(t)
	build := imgfeed("imgshard", "build", filepath.Join(src, "train"), "-o", dir, "--encoding", encoding, "--partitions", "2")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	testenv.OK(t, os.RemoveAll(filepath.Join(dir, "rank-0001")))
	set := testenv.Must(shard.OpenSet(dir))(t)
	t.Cleanup(func() { set.Close() })
	return set
}

func viewsOf(t *testing.T, text string) transform.Views {
	t.Helper()
	views := testenv.Must(transform.ParseViews(text, transform.Pillow13))(t)
	return views
}

func TestMeasure(t *testing.T) {
	for encoding, text := range map[string]string{"original": "original", "pixels": "pixels (bitpack, resize 256 bilinear, pillow-13)"} {
		set := measuredSet(t, encoding)
		for _, name := range []string{"train", "full"} {
			cfg := benchConfig{Set: set, Threads: 2, BatchSize: 8, Duration: 50 * time.Millisecond, Layout: transform.NCHW}
			if name != "full" {
				cfg.Views = viewsOf(t, name)
			}
			r := testenv.Must(measure(t.Context(), cfg))(t)
			if r.Images == 0 || r.ImagesPerSecond <= 0 || r.CPUSeconds <= 0 || r.Stages["decode"] <= 0 || r.Stages["read"] <= 0 ||
				r.BytesRead == 0 || r.Encoding != text || r.Threads != 2 || r.Layout != "NCHW" {
				t.Errorf("%s %s: %+v", encoding, name, r)
			}
			if (name == "full") != (r.Stages["resample"] == 0) {
				t.Errorf("%s %s: %v s of resampling", encoding, name, r.Stages["resample"])
			}
		}
	}
}

// TestMeasureWithoutTime measures for less than an image takes.
func TestMeasureWithoutTime(t *testing.T) {
	set := measuredSet(t, "original")
	for _, views := range []transform.Views{nil, viewsOf(t, "train")} {
		r, err := measure(t.Context(), benchConfig{Set: set, Views: views, BatchSize: 256, Threads: 1, Duration: time.Microsecond, WarmUp: 1})
		if err != nil || r.Images == 0 || r.ImagesPerSecond <= 0 {
			t.Errorf("%+v: %v", r, err)
		}
	}
}

func TestMeasureErrors(t *testing.T) {
	set := measuredSet(t, "original")
	views := viewsOf(t, `[{"op":"RandomCrop","size":130}]`) // larger than the images
	var bad *loader.SampleError
	if _, err := measure(t.Context(), benchConfig{Set: set, Views: views, BatchSize: 8, Duration: time.Minute}); !errors.As(err, &bad) || !set.Has(bad.Index%2) {
		t.Errorf("images that are too small: %v, want a SampleError of one of the set's samples", err)
	}
	for _, views := range []transform.Views{nil, viewsOf(t, "eval")} {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer cancel()
		if _, err := measure(ctx, benchConfig{Set: set, Views: views, BatchSize: 8, Duration: time.Minute}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a context that ends: %v", err)
		}
	}
}

// TestMeasureDamaged decodes whole images of a file that is cut short meanwhile: the error names the sample.
func TestMeasureDamaged(t *testing.T) {
	set := measuredSet(t, "pixels")
	order := testenv.Must(endlessPlan(set, 4, 0))(t)
	dataset := testenv.Must(loader.FromShards(set))(t)
	pool := loader.NewPool(loader.PoolConfig{Threads: 1})
	defer pool.Close()
	testenv.OK(t, os.Truncate(filepath.Join(set.Dir(), "rank-0000", "00000.imgshard"), 4096))
	var bad *loader.SampleError
	var corrupt *shard.CorruptError
	if err := pool.DecodeWhole(t.Context(), dataset, order); !errors.As(err, &bad) || !errors.As(err, &corrupt) || corrupt.Index != bad.Index {
		t.Errorf("%v, want a SampleError of a CorruptError", err)
	}
}

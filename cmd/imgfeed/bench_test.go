package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/imgfeed/imgfeed/cmd/internal/cliutil"
	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/testenv"
	"github.com/imgfeed/imgfeed/loader"
	"github.com/imgfeed/imgfeed/shard"
	"github.com/imgfeed/imgfeed/shard/synth"
	"github.com/imgfeed/imgfeed/transform"
)

// benchSet is a committed set of a few images.
const benchSet = "../../shard/testdata/v1/train-shards"

// runCommand runs a command of the program, and returns what it prints.
func runCommand(args ...string) (string, error) {
	cmd := newRootCommand()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs(args)
	err := cmd.Execute()
	return out.String(), err
}

func runBenchCommand(args ...string) (string, error) {
	return runCommand(append([]string{"bench"}, args...)...)
}

func TestBenchCommand(t *testing.T) {
	out, err := runBenchCommand(benchSet, "--transform", "eval", "--threads", "1", "--seconds", "0.05", "--batch-size", "4", "--json")
	testenv.OK(t, err)
	r := testenv.FromJSON[benchResult](t, out)
	testenv.Check(t, r.Images != 0 && r.BatchSize == 4 && r.Threads == 1, "%s", out)
	testenv.Contains(t, out, `"images_per_second"`, `"cpu_seconds"`, `"stage_seconds"`)
	out, err = runBenchCommand(benchSet, "--resampler", "pillow-12", "--seconds", "0.05", "--batch-size", "4")
	testenv.Check(t, err == nil && strings.Contains(out, `"resampler": "pillow-12"`), "%s: %v", out, err)
	out, err = runBenchCommand(benchSet, "--seconds", "0.05", "--batch-size", "4", "--gpu-rate", "0.5")
	var images, gpus float64
	_, measured, _ := strings.Cut(out, "images per second")
	_, feeds, _ := strings.Cut(out, "\nfeeds ")
	fmt.Sscan(strings.ReplaceAll(measured, ",", ""), &images)
	fmt.Sscan(feeds, &gpus)
	testenv.OK(t, err)
	testenv.Check(t, images > 0 && math.Abs(gpus-2*images) <= 1.1 && strings.HasSuffix(feeds, " GPUs that take 0.5 images/s each\n"), "%s", out)
	begun := time.Now()
	out, err = runBenchCommand(benchSet, "--seconds", "0.05", "--batch-size", "4", "--warm-up", "0.2", "--json")
	r, took := benchResult{}, time.Since(begun)
	testenv.OK(t, errors.Join(err, json.Unmarshal([]byte(out), &r)))
	testenv.Check(t, took >= 250*time.Millisecond && r.Seconds < took.Seconds()-0.2, "%s after %v", out, took)
	out, err = runBenchCommand(benchSet, "--transform", "full", "--seconds", "0.05", "--split", "train", "--layout", "nchw")
	testenv.Check(t, err == nil && strings.Contains(out, "images per second") && strings.Contains(out, "NCHW"), "%s: %v", out, err)
}

func TestBenchCommandErrors(t *testing.T) {
	for want, args := range map[string][]string{
		"unknown transform": {benchSet, "--transform", "fast"},
		"no split \"val\"":  {benchSet, "--split", "val"},
		"unknown resampler": {benchSet, "--resampler", "pillow-11"},
		"unknown layout":    {benchSet, "--layout", "CHWN"},
		"--batch-size":      {benchSet, "--batch-size", "0"},
		"no such file":      {filepath.Join(benchSet, "nothing")},
		"imgfeed bench with 0 arguments: want imgfeed bench SET": {},
		"--seconds":           {benchSet, "--seconds", "0"},
		"--gpu-rate":          {benchSet, "--gpu-rate", "NaN"},
		"--warm-up":           {benchSet, "--warm-up", "-1"},
		"the folder is empty": {t.TempDir()},
	} {
		_, err := runBenchCommand(args...)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want an error with %q", args, err, want)
			continue
		}
		data := slices.Contains([]string{"no split \"val\"", "no such file", "the folder is empty"}, want)
		usage := cliutil.Report(io.Discard, newBenchCommand(), err) == 2
		testenv.Check(t, data != usage, "%v: %v is taken for a mistake on the command line: %t", args, err, usage)
	}
	t.Setenv(kernel.EnvVar, "fast")
	testenv.Fails(runBenchCommand(benchSet))(t, kernel.EnvVar)
}

// measuredSet packs 12 images into two partitions, of which the first is here.
func measuredSet(t *testing.T, encoding string) *shard.Set {
	t.Helper()
	src, dir := filepath.Join(t.TempDir(), "src"), filepath.Join(t.TempDir(), "set")
	testenv.Must(synth.Write(t.Context(), src, synth.Options{Classes: 2, Train: 6, Val: -1, Size: 40}))(t)
	outputOf(t, imgfeed("imgshard", "build", filepath.Join(src, "train"), "-o", dir, "--encoding", encoding, "--partitions", "2"))
	testenv.OK(t, os.RemoveAll(filepath.Join(dir, "rank-0001")))
	return testenv.Opened(shard.OpenSet(dir))(t)
}

func viewsOf(t *testing.T, text string) transform.Views {
	t.Helper()
	return testenv.Must(transform.ParseViews(text, transform.Pillow13))(t)
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
			seconds := r.CPUSeconds > 0 && r.Stages["decode"] > 0 && r.Stages["read"] > 0
			testenv.Check(t, seconds && r.Images > 0 && r.ImagesPerSecond > 0 && r.BytesRead > 0, "%s %s: %+v", encoding, name, r)
			testenv.Check(t, r.Encoding == text && r.Threads == 2 && r.Layout == "NCHW", "%s %s: %+v", encoding, name, r)
			testenv.Check(t, (name == "full") == (r.Stages["resample"] == 0), "%s %s: %v s of resampling", encoding, name, r.Stages["resample"])
		}
	}
}

// TestMeasureWithoutTime measures for less than an image takes.
func TestMeasureWithoutTime(t *testing.T) {
	set := measuredSet(t, "original")
	for _, views := range []transform.Views{nil, viewsOf(t, "train")} {
		cfg := benchConfig{Set: set, Views: views, BatchSize: 256, Threads: 1, Duration: time.Microsecond, WarmUp: 1}
		r := testenv.Must(measure(t.Context(), cfg))(t)
		testenv.Check(t, r.Images != 0 && r.ImagesPerSecond > 0, "%+v", r)
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
		_, err := measure(ctx, benchConfig{Set: set, Views: views, BatchSize: 8, Duration: time.Minute})
		testenv.Check(t, errors.Is(err, context.DeadlineExceeded), "a context that ends: %v", err)
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
	err := pool.DecodeWhole(t.Context(), dataset, order)
	testenv.Check(t, errors.As(err, &bad) && errors.As(err, &corrupt) && corrupt.Index == bad.Index,
		"%v, want a SampleError of a CorruptError", err)
}

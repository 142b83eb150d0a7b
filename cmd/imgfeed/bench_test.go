package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/imgfeed/imgfeed/cmd/internal/cliutil"
	"github.com/imgfeed/imgfeed/internal/kernel"
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
	if err != nil {
		t.Fatal(err)
	}
	var r benchResult
	if err := json.Unmarshal([]byte(out), &r); err != nil || r.Images == 0 || r.BatchSize != 4 || r.Threads != 1 {
		t.Errorf("%s: %v", out, err)
	}
	for _, field := range []string{"images_per_second", "cpu_seconds", "stage_seconds"} {
		if !strings.Contains(out, `"`+field+`"`) {
			t.Errorf("%s is missing in %s", field, out)
		}
	}
	out, err = runBenchCommand(benchSet, "--resampler", "pillow-12", "--seconds", "0.05", "--batch-size", "4")
	if err != nil || !strings.Contains(out, `"resampler": "pillow-12"`) {
		t.Errorf("%s: %v", out, err)
	}
	out, err = runBenchCommand(benchSet, "--seconds", "0.05", "--batch-size", "4", "--gpu-rate", "0.5")
	var images, gpus float64
	_, measured, _ := strings.Cut(out, "images per second")
	_, feeds, _ := strings.Cut(out, "\nfeeds ")
	fmt.Sscan(strings.ReplaceAll(measured, ",", ""), &images)
	fmt.Sscan(feeds, &gpus)
	if err != nil || images == 0 || math.Abs(gpus-2*images) > 1.1 || !strings.HasSuffix(feeds, " GPUs that take 0.5 images/s each\n") {
		t.Errorf("%s: %v", out, err)
	}
	begun := time.Now()
	out, err = runBenchCommand(benchSet, "--seconds", "0.05", "--batch-size", "4", "--warm-up", "0.2", "--json")
	if r = (benchResult{}); json.Unmarshal([]byte(out), &r) != nil || time.Since(begun) < 250*time.Millisecond || r.Seconds >= time.Since(begun).Seconds()-0.2 {
		t.Errorf("%s after %v: %v", out, time.Since(begun), err)
	}
	out, err = runBenchCommand(benchSet, "--transform", "full", "--seconds", "0.05", "--split", "train", "--layout", "nchw")
	if err != nil || !strings.Contains(out, "images per second") || !strings.Contains(out, "NCHW") {
		t.Errorf("%s: %v", out, err)
	}
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
		if usage := cliutil.Report(io.Discard, newBenchCommand(), err) == 2; data == usage {
			t.Errorf("%v: %v is taken for a mistake on the command line: %t", args, err, usage)
		}
	}
	t.Setenv(kernel.EnvVar, "fast")
	if _, err := runBenchCommand(benchSet); err == nil || !strings.Contains(err.Error(), kernel.EnvVar) {
		t.Errorf("kernels that are none: %v", err)
	}
}

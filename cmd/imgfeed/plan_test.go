package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/imgfeed/imgfeed/cmd/imgfeed/internal/capacity"
	"github.com/imgfeed/imgfeed/cmd/internal/cliutil"
	"github.com/imgfeed/imgfeed/shard/storage"
	"github.com/imgfeed/imgfeed/shard/synth"
)

func runPlanCommand(ctx context.Context, args ...string) (out, told string, err error) {
	cmd := newRootCommand()
	var stdout, stderr bytes.Buffer
	cmd.SetOut(&stdout)
	cmd.SetErr(&stderr)
	cmd.SetArgs(append([]string{"plan"}, args...))
	err = cmd.ExecuteContext(ctx)
	return stdout.String(), stderr.String(), err
}

// planSource writes class folders of twelve images, and one file that is none.
func planSource(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "train")
	for k := range 13 {
		data, err := synth.Image("train", k%2, k, synth.Options{})
		if k == 12 {
			data = []byte("no image")
		}
		class := filepath.Join(dir, synth.WNID(k%2))
		if err := errors.Join(err, os.MkdirAll(class, 0o755), os.WriteFile(filepath.Join(class, string(rune('a'+k))+".jpg"), data, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestPlanCommand plans for a dataset with a file that is no image, and for a set.
func TestPlanCommand(t *testing.T) {
	source, set := planSource(t), writeBenchSet(t, "val")
	quick := []string{"--seconds", "0.1", "--batch-size", "4", "--transform", "cifar"}
	out, told, err := runPlanCommand(t.Context(), append(quick, source, "--gpu", "a100", "--gpus", "2", "--cores", "1000", "--memory", "64GiB", "--disk", "2GB", "--samples", "1281167")...)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"train: " + source + " is a folder of class folders, 1,281,167 samples, 13 of them measured", "1,000 cores", "disk 1.9 GiB/s", "2 × a100, resnet50: 4,940 images/s; the feed has 998 cores",
		"https://github.com/NVIDIA/DeepLearningExamples", "original *", "pixels bitpack ≠", "* the advised encoding   ≠ gives other pixels", "998 CORES", "imgshard build " + source + " --encoding original", "left out    1 of the sample: ",
		"Mbit/s to the data", "waits for   The GPUs",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if !strings.Contains(told, "packing and measuring original") {
		t.Error(told)
	}
	out, _, err = runPlanCommand(t.Context(), append(quick, set, "--images-per-second", "1e8", "--json", "--cores", "1", "--feeders", "3")...)
	var p capacity.Plan
	if err := errors.Join(err, json.Unmarshal([]byte(out), &p)); err != nil {
		t.Fatal(err)
	}
	if p.Split != "val" || p.Samples != 1 || p.Need.GPUs != 1 || p.Bottleneck == capacity.LimitGPU || len(p.Encodings) != 6 || p.Encodings[0].Flags != nil || p.FeedCores != 1 || p.Feeders.Machines != 3 || p.Feeders.Needed < 4 {
		t.Errorf("%s", out)
	}
	out, _, err = runPlanCommand(t.Context(), append(quick, set)...)
	if err != nil || !strings.Contains(out, "not said (--gpu, --images-per-second)") || !strings.Contains(out, "it is the fastest") {
		t.Errorf("%s: %v", out, err)
	}
}

// TestPlanStore plans for a set on a web server, whose link is measured, given, and broken.
func TestPlanStore(t *testing.T) {
	defer func(before context.Context) { storage.Remote.Context = before }(storage.Remote.Context)
	var broken atomic.Bool
	files := http.FileServer(http.Dir(writeBenchSet(t, "val")))
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if broken.Load() {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		files.ServeHTTP(w, r)
	}))
	defer web.Close()
	quick := []string{web.URL, "--seconds", "0.1", "--batch-size", "1", "--transform", "cifar", "--cores", "1", "--images-per-second", "1000"}
	out, told, err := runPlanCommand(t.Context(), append(quick, "--json")...)
	var p capacity.Plan
	if err := errors.Join(err, json.Unmarshal([]byte(out), &p)); err != nil {
		t.Fatal(err)
	}
	if p.Store != web.URL+"/val" || p.Link == nil || p.Link.BytesPerSecond <= 0 || !p.Link.Measured || p.Link.Requests != 1 || len(p.Encodings) != 6 || p.Encodings[0].Flags != nil || !strings.Contains(told, "measuring the link") {
		t.Errorf("%s: %s", told, out)
	}
	out, told, err = runPlanCommand(t.Context(), append(quick, "--link", "1Mbit/s")...)
	if err != nil || strings.Contains(told, "measuring the link") {
		t.Errorf("%s: %v", told, err)
	}
	for _, want := range []string{"link 1.0 Mbit/s\n", "LINK, IMAGES/S", "an epoch    1 request, ", "; the first takes ", "--cache of imgfeed serve", "The first epoch waits for the link"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if _, _, err = runPlanCommand(t.Context(), append(quick, "--disk", "3GB")...); err == nil || !strings.Contains(err.Error(), "behind a network: --link") || cliutil.ExitStatus(err) != 2 {
		t.Error(err)
	}
	broken.Store(true)
	if _, _, err = runPlanCommand(t.Context(), quick...); err == nil || !strings.Contains(err.Error(), "check the credentials") {
		t.Error(err)
	}
}

func TestPlanRates(t *testing.T) {
	out, _, err := runPlanCommand(t.Context(), "--rates")
	if err != nil || !strings.Contains(out, "56089 of 8: MLPerf") || !strings.Contains(out, "https://") {
		t.Errorf("%s: %v", out, err)
	}
	var all []capacity.Rate
	out, _, err = runPlanCommand(t.Context(), "--rates", "--json")
	if errors.Join(err, json.Unmarshal([]byte(out), &all)) != nil || len(all) != len(capacity.Rates()) {
		t.Errorf("%s: %v", out, err)
	}
}

// TestPlanMistakes wants words, and the exit status of a mistake on the command line or of another.
func TestPlanMistakes(t *testing.T) {
	set := writeBenchSet(t, "val")
	for _, c := range []struct {
		args   []string
		want   string
		status int
	}{
		{nil, "imgfeed plan with 0 arguments: want imgfeed plan PATH", 2},
		{[]string{"--rates", set}, "imgfeed plan with 1 argument: ", 2},
		{[]string{set, "--gpu", "h100", "--images-per-second", "3"}, "give one", 2},
		{[]string{set, "--gpu", "abacus"}, "only of h100", 2},
		{[]string{set, "--model", "resnet50"}, "--model needs --gpu", 2},
		{[]string{set, "--gpus", "2"}, "--gpus needs --gpu", 2},
		{[]string{set, "--gpus", "0"}, "from 1 to", 2},
		{[]string{set, "--images-per-second", "-1"}, "above 0", 2},
		{[]string{set, "--images-per-second", "NaN"}, "above 0", 2},
		{[]string{set, "--transform", "full"}, "--transform", 2},
		{[]string{set, "--cores", "-1"}, "from 1 to", 2},
		{[]string{set, "--disk", "fast"}, `--disk "fast": want a size, such as`, 2},
		{[]string{set, "--link", "3"}, "from 1Mbit on", 2},
		{[]string{set, "--link", "1Gbit"}, "is on this machine: --disk", 2},
		{[]string{set, "--seconds", "0.001"}, "from 100ms to 10000h", 2},
		{[]string{set, "--split", "train"}, "only val", 1},
		{[]string{filepath.Join(set, "nothing")}, "nothing", 1},
		{[]string{planSource(t), "--resize", "big", "--seconds", "0.1"}, "--resize \"big\"", 2},
		{[]string{t.TempDir()}, "no dataset to pack", 1},
	} {
		_, _, err := runPlanCommand(t.Context(), c.args...)
		if err == nil || !strings.Contains(err.Error(), c.want) || cliutil.ExitStatus(err) != c.status {
			t.Errorf("%v: %v, want %q", c.args, err, c.want)
		}
	}
}

// TestPlanInterrupted ends it in the middle, as Ctrl-C does.
func TestPlanInterrupted(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(200*time.Millisecond, cancel)
	started := time.Now()
	_, _, err := runPlanCommand(ctx, planSource(t), "--seconds", "3600")
	if err == nil || !strings.Contains(err.Error(), "interrupted") || time.Since(started) > time.Minute {
		t.Errorf("%v after %v", err, time.Since(started))
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

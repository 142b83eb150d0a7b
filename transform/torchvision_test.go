package transform

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/imgfeed/imgfeed/internal/image/imagefile"
	"github.com/imgfeed/imgfeed/internal/image/jpeg"
	"github.com/imgfeed/imgfeed/internal/image/resample"
	"github.com/imgfeed/imgfeed/internal/kernel"
	"github.com/imgfeed/imgfeed/internal/pillowtest"
)

// TestMatchesTorchvision compares every preset with torchvision on Pillow, to the last bit, replaying the engine's draws.
// It needs a Python with torchvision (IMGFEED_TEST_PYTHON, or python3), whose Pillow says the resampler, and takes the images of the folder
// IMGFEED_TEST_IMAGES, or ../internal/image/imagefile/testdata/kinds; IMGFEED_TEST_DRAWS says how many draws of each random preset (default 2).
func TestMatchesTorchvision(t *testing.T) {
	folder := cmp.Or(liveOnly("IMGFEED_TEST_IMAGES"), "../internal/image/imagefile/testdata/kinds")
	var result struct {
		Compared int
		Differ   []string
		Worst    float64
	}
	if !judge(t, "check", &result, func(w io.Writer, resampler Resampler) error { return writeRecords(w, folder, drawsAsked(2), resampler) }) {
		return
	}
	t.Logf("compared %d results with torchvision's", result.Compared)
	if len(result.Differ) > 0 || result.Compared == 0 {
		t.Errorf("%d of %d differ, by up to %.3f levels on average: %.2000v", len(result.Differ), result.Compared, result.Worst, result.Differ)
	}
}

// liveOnly returns a variable of the environment that chooses images or draws, which those whose checksums are kept do not heed.
func liveOnly(name string) string {
	if testing.Short() || *update {
		return ""
	}
	return os.Getenv(name)
}

// drawsAsked returns IMGFEED_TEST_DRAWS.
func drawsAsked(otherwise int) int {
	if n, err := strconv.Atoi(liveOnly("IMGFEED_TEST_DRAWS")); err == nil {
		return n
	}
	return otherwise
}

// judge has a Python program of testdata compare what write sends it with torchvision's results, one result at a time, and decodes
// its answer. A quick run compares with the checksums of results that were the same, and returns false.
func judge(t *testing.T, program string, answer any, write func(w io.Writer, resampler Resampler) error) bool {
	t.Helper()
	answers := pillowtest.Load(t, "testdata/"+program+".crc", *update)
	if !answers.Live {
		if err := write(answers.Writer(nil), Pillow13); err != nil {
			t.Error(err)
		}
		return false
	}
	python, name := pillowtest.Find(t, "torchvision", "numpy")
	resampler, err := resample.ParseAlgorithm(name)
	if err != nil || *update && resampler != Pillow13 {
		t.Fatalf("Pillow has the bits of %v, %v; the checksums are those of pillow-13", resampler, err)
	}
	cmd := exec.Command(python, "-W", "ignore", "testdata/"+program+".py")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := write(answers.Writer(in), resampler); err != nil {
		t.Error(err)
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	if err := json.Unmarshal(out.Bytes(), answer); err != nil {
		t.Fatal(err)
	}
	return true
}

// writeRecords sends every image under every preset to check.py.
func writeRecords(w io.Writer, folder string, draws int, algorithm resample.Algorithm) error {
	files, err := filepath.Glob(filepath.Join(folder, "*.*"))
	if err != nil {
		return err
	}
	engine, indexer := NewEngine(kernel.Active()), jpeg.New(kernel.Active())
	for i, file := range files {
		if filepath.Ext(file) == ".rgb" || filepath.Ext(file) == ".gif" {
			continue // the promise is JPEG, PNG and WebP
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		src := Source{Image: data}
		if imagefile.Sniff(data) == imagefile.JPEG {
			if src.Aux, _, err = indexer.AppendIndex(nil, data); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
		}
		for _, name := range Presets() {
			spec := must(ParseWith(name, algorithm))
			for d := range draws {
				if d > 0 && !spec.Random() {
					break
				}
				if err := writeRecord(w, engine, file, name, spec, src, NewRNG(11, d, i)); err != nil {
					return fmt.Errorf("%s %s: %w", file, name, err)
				}
			}
		}
	}
	return nil
}

func writeRecord(w io.Writer, engine *Engine, file, name string, spec *Spec, src Source, draws RNG) error {
	pix := make([]byte, spec.OutputBytes())
	params, err := engine.Apply(spec, resample.Output{Pix: pix}, src, draws)
	if _, small := err.(*SizeError); small {
		return nil
	}
	if err != nil {
		return err
	}
	head, err := json.Marshal(map[string]any{"file": file, "transform": name, "params": params.Int32s(), "size": spec.width})
	if err == nil {
		_, err = w.Write(append(append(head, '\n'), pix...))
	}
	return err
}

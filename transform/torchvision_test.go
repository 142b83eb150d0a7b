package transform

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/image/resample"
	"github.com/imgfeed/imgfeed/internal/pillowtest"
	"github.com/imgfeed/imgfeed/internal/testenv"
)

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

// judged is what a program of testdata says of the results that it compared.
type judged struct {
	Compared, Identical   int
	Transforms, Functions map[string]int
	Differ                []string
}

// check reports results that differ.
func (j *judged) check(t *testing.T) {
	t.Helper()
	t.Logf("compared %d results of %v with torchvision's, which called %v: %d are identical", j.Compared, j.Transforms, j.Functions, j.Identical)
	if len(j.Differ) > 0 || j.Compared == 0 {
		t.Errorf("%d of %d differ: %.3000s", len(j.Differ), j.Compared, strings.Join(j.Differ, "\n"))
	}
}

// judge has a Python program of testdata, which needs modules, compare what write sends it with torchvision's results, one result at a
// time, and decodes its answer. A quick run compares with the checksums of results that were the same, and returns false.
func judge(t *testing.T, program string, answer any, write func(w io.Writer, resampler Resampler), modules ...string) bool {
	t.Helper()
	return judgeBy(t, program, program, answer, write, modules...)
}

// judgeBy is judge with checksums of a name of their own.
func judgeBy(t *testing.T, program, sums string, answer any, write func(w io.Writer, resampler Resampler), modules ...string) bool {
	t.Helper()
	answers := pillowtest.Load(t, "testdata/"+sums+".crc", *update)
	if !answers.Live {
		write(answers.Writer(nil), Pillow13)
		return false
	}
	python, name := pillowtest.Find(t, append(modules, "torchvision", "numpy")...)
	resampler, err := resample.ParseAlgorithm(name)
	if err != nil || *update && resampler != Pillow13 {
		t.Fatalf("Pillow has the bits of %v, %v; the checksums are those of pillow-13", resampler, err)
	}
	cmd := exec.Command(python, "-W", "ignore", "testdata/"+program+".py")
	in := testenv.Must(cmd.StdinPipe())(t)
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	testenv.OK(t, cmd.Start())
	defer in.Close() // also if write ends the test
	write(answers.Writer(in), resampler)
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	testenv.OK(t, json.Unmarshal(out.Bytes(), answer))
	return true
}

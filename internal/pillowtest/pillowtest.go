// Package pillowtest finds and starts the Python that tests compare with, and the resampler that matches its Pillow.
package pillowtest

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

// Find returns a Python with Pillow 9.4 or later and modules: that of IMGFEED_TEST_PYTHON if it is set, or the first
// suitable python3. resampler is the resampler that matches its Pillow, "pillow-13" or "pillow-12". Without such a
// Python the test is skipped; an unsuitable one in IMGFEED_TEST_PYTHON is an error. With -short the test is skipped,
// too, because quick tests compare checksums instead (see Answers).
func Find(t testing.TB, modules ...string) (python, resampler string) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs Pillow, unlike quick tests: make test-all")
	}
	candidates := []string{"python3", "/usr/bin/python3"}
	named := os.Getenv("IMGFEED_TEST_PYTHON")
	if named != "" {
		candidates = []string{named}
	}
	imports := strings.Join(append([]string{"PIL"}, modules...), ", ")
	var output []byte
	var err error
	for _, python := range candidates {
		output, err = exec.Command(python, "-W", "ignore", "-c", "import "+imports+"; print(PIL.__version__)").Output()
		if err != nil {
			continue
		}
		version := strings.TrimSpace(string(output))
		if resampler = resamplerOf(version); resampler != "" {
			t.Logf("comparing with Pillow %s of %s", version, python)
			return python, resampler
		}
	}
	if named != "" {
		t.Fatalf("IMGFEED_TEST_PYTHON is %s: it cannot import %s, or its Pillow is older than 9.4 (%s%v)", named, imports, output, err)
	}
	t.Skip(testenv.Python(append([]string{"pillow>=9.4"}, modules...)...))
	return "", ""
}

// Start runs testdata/pillow.py with the Python that [Find] finds, until the test ends. The program reads in and writes out.
func Start(t testing.TB) (in io.Writer, out *bufio.Reader, resampler string) {
	t.Helper()
	python, resampler := Find(t)
	cmd := exec.Command(python, "-W", "ignore", "testdata/pillow.py")
	cmd.Stderr = os.Stderr
	stdin := testenv.Must(cmd.StdinPipe())(t)
	stdout := testenv.Must(cmd.StdoutPipe())(t)
	testenv.OK(t, cmd.Start())
	t.Cleanup(func() { stdin.Close(); _ = cmd.Wait() })
	return stdin, bufio.NewReaderSize(stdout, 1<<20), resampler
}

// resamplerOf returns the resampler of a release of Pillow such as "12.1.1", or "".
func resamplerOf(version string) string {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return ""
	}
	major, _ := strconv.Atoi(parts[0])
	minor, _ := strconv.Atoi(parts[1])
	switch {
	case major >= 13:
		return "pillow-13"
	case major > 9 || major == 9 && minor >= 4:
		return "pillow-12"
	}
	return ""
}

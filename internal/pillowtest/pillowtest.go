// Package pillowtest finds the Python that tests compare with, and says which releases' bits its Pillow has.
package pillowtest

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

// Find returns a Python that has Pillow 9.4 or later and the modules named: IMGFEED_TEST_PYTHON if that is set, else the
// first python3 that has them. resampler is the name of the resampler whose bits its Pillow has, "pillow-13" or
// "pillow-12". The test is skipped if there is none; a Python that was named and cannot serve is an error. Quick tests compare with
// checksums instead, see Answers: with -short the test is skipped, too.
func Find(t testing.TB, modules ...string) (python, resampler string) {
	t.Helper()
	if testing.Short() {
		t.Skip("compares with Pillow itself, which quick tests do not: make test-all")
	}
	candidates := []string{"python3", "/usr/bin/python3"}
	named := os.Getenv("IMGFEED_TEST_PYTHON")
	if named != "" {
		candidates = []string{named}
	}
	imports := strings.Join(append([]string{"PIL"}, modules...), ", ")
	var said []byte
	var err error
	for _, python := range candidates {
		said, err = exec.Command(python, "-W", "ignore", "-c", "import "+imports+"; print(PIL.__version__)").Output()
		if err != nil {
			continue
		}
		version := strings.TrimSpace(string(said))
		if resampler = resamplerOf(version); resampler != "" {
			t.Logf("comparing with Pillow %s of %s", version, python)
			return python, resampler
		}
	}
	if named != "" {
		t.Fatalf("IMGFEED_TEST_PYTHON is %s: it cannot import %s, or its Pillow is older than 9.4 (%s%v)", named, imports, said, err)
	}
	Skip(t, modules...)
	return "", ""
}

// Skip skips a test for want of a Python that has Pillow and the modules named.
func Skip(t testing.TB, modules ...string) {
	t.Helper()
	t.Skip(testenv.Python(append([]string{"pillow>=9.4"}, modules...)...))
}

// resamplerOf returns the resampler of a release such as "12.1.1", "" if there is none.
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

package pillowtest

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

// Answers are Pillow's results for one test, in order. Tests without -short compare with Pillow itself. Quick tests
// compare checksums with those of a file, which the test with -update writes if all its results equal Pillow's.
type Answers struct {
	Live bool // the test runs Pillow
	t    testing.TB
	path string
	want []string // checksums of the file
	seen []string // checksums of this run
}

// Load reads the checksums of a file. They are of results on amd64: elsewhere a test's random numbers may differ in
// their last bit, so it always runs Pillow. A quick run fails if it has more or fewer results than the file.
func Load(t testing.TB, path string, update bool) *Answers {
	t.Helper()
	a := &Answers{t: t, path: path, Live: update || !testing.Short() || runtime.GOARCH != "amd64"}
	if !a.Live {
		text := testenv.Must(os.ReadFile(path))(t)
		a.want = strings.Fields(string(text))
	}
	t.Cleanup(func() {
		switch {
		case t.Failed() || t.Skipped():
		case !a.Live && len(a.seen) != len(a.want):
			t.Errorf("%d results, but %s has the checksums of %d: run this test with -update", len(a.seen), path, len(a.want))
		case update:
			testenv.OK(t, os.WriteFile(path, []byte(strings.Join(a.seen, "\n")+"\n"), 0o666))
		}
	})
	return a
}

// Compare compares got with the k-th result, want, or in a quick run with its checksum.
func (a *Answers) Compare(k int, got, want []byte) error {
	sum := fmt.Sprintf("%08x", crc32.ChecksumIEEE(got))
	if k == len(a.seen) {
		a.seen = append(a.seen, sum)
	}
	switch {
	case !a.Live && (k >= len(a.want) || sum != a.want[k]):
		return fmt.Errorf("result %d has the checksum %s, unlike Pillow's in %s", k, sum, a.path)
	case !a.Live || bytes.Equal(got, want):
		return nil
	case len(got) != len(want):
		return fmt.Errorf("result %d has %d bytes, Pillow's %d", k, len(got), len(want))
	}
	i := 0
	for got[i] == want[i] {
		i++
	}
	return fmt.Errorf("byte %d of result %d is %d, Pillow's is %d", i, k, got[i], want[i])
}

// Output returns the output of a Python program that needs modules. Quick tests read the output of the last -update,
// from a .json file beside the program.
func Output(t testing.TB, program string, update bool, modules ...string) []byte {
	t.Helper()
	path := strings.TrimSuffix(program, ".py") + ".json"
	if testing.Short() && !update {
		return testenv.Must(os.ReadFile(path))(t)
	}
	python, _ := Find(t, modules...)
	out, err := exec.Command(python, "-W", "ignore", program).Output()
	if err == nil && update {
		err = os.WriteFile(path, out, 0o666)
	}
	testenv.OK(t, err)
	return out
}

// Writer returns a writer that receives one result at a time. It passes them on to w, which compares them with
// Pillow's; a quick run compares their checksums instead.
func (a *Answers) Writer(w io.Writer) io.Writer { return &answersWriter{a, w} }

type answersWriter struct {
	answers *Answers
	w       io.Writer
}

func (w *answersWriter) Write(result []byte) (int, error) {
	k := len(w.answers.seen)
	if err := w.answers.Compare(k, result, result); err != nil {
		head, _, _ := bytes.Cut(result, []byte("\n"))
		w.answers.t.Errorf("%.300s: %v", head, err)
	}
	if !w.answers.Live {
		return len(result), nil
	}
	return w.w.Write(result)
}

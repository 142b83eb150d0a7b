// Package testenv finds the programs that tests compare with. A test that has to do without one is skipped in words of one form,
// "needs PROGRAM: how to install it", which scripts/skipped.py lists at the end of make test.
package testenv

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A Program is one that tests run.
type Program struct {
	name    string
	names   []string // of the command, the first that is the true one serves
	version string   // the option that makes it say what it is
	sign    string   // what stands in what it then says: other programs bear the same names
	install string
}

// The programs of libjpeg-turbo (other jpegtrans and cjpegs lack options) and ImageMagick, whose convert is magick since version 7.
// Windows' and other tools named convert are not ImageMagick's.
var (
	Cjpeg       = &Program{"cjpeg of libjpeg-turbo", []string{"cjpeg"}, "-version", "libjpeg-turbo", "apt install libjpeg-turbo-progs"}
	Jpegtran    = &Program{"jpegtran of libjpeg-turbo", []string{"jpegtran"}, "-version", "libjpeg-turbo", "apt install libjpeg-turbo-progs"}
	ImageMagick = &Program{"ImageMagick", []string{"magick", "convert"}, "-version", "ImageMagick", "apt install imagemagick"}
	Make        = &Program{"GNU make", []string{"make"}, "--version", "GNU Make", "apt install make"}
	Go          = &Program{"the go command", []string{"go"}, "version", "go version", "put it on PATH"}
)

// versionLimit is how long a program may take to say what it is. Strangers of the same name may wait for input, of which there is none.
const versionLimit = 20 * time.Second

// Python returns, for String, a Python that has packages: what finds one is pillowtest.
func Python(packages ...string) *Program {
	list := strings.Join(packages, " ")
	return &Program{name: "Python with " + list, install: "pip install " + list + ", for the Python that PYTHON or IMGFEED_TEST_PYTHON names"}
}

// PythonWith returns the Python that IMGFEED_TEST_PYTHON names, or else python3, if it can import modules, and skips the test if it can't: for what is
// compared where it can be had.
func PythonWith(t testing.TB, modules ...string) string {
	t.Helper()
	python := cmp.Or(os.Getenv("IMGFEED_TEST_PYTHON"), "python3")
	if err := exec.Command(python, "-W", "ignore", "-c", "import "+strings.Join(modules, ", ")).Run(); err != nil {
		t.Skip(Python(modules...))
	}
	return python
}

var found sync.Map // *Program → func() string

// Find returns the path of a program, "" if there is none that is what it should be.
func (p *Program) Find() string {
	look, _ := found.LoadOrStore(p, sync.OnceValue(p.look))
	return look.(func() string)()
}

func (p *Program) look() string {
	for _, name := range p.names {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), versionLimit)
		said, _ := exec.CommandContext(ctx, path, p.version).CombinedOutput() // jpegtran -version ends with status 1
		cancel()
		if bytes.Contains(said, []byte(p.sign)) {
			return path
		}
	}
	return ""
}

// String says what is needed, and how to get it: "needs ImageMagick: apt install imagemagick".
func (p *Program) String() string {
	return fmt.Sprintf("needs %s: %s", p.name, p.install)
}

// Path returns the path of a program, and skips the test where there is none.
func (p *Program) Path(t testing.TB) string {
	t.Helper()
	path := p.Find()
	if path == "" {
		t.Skip(p)
	}
	return path
}

// Missing collects programs that a test could have done more with.
type Missing []*Program

// Add notes a program, once.
func (m *Missing) Add(p *Program) {
	if !slices.Contains(*m, p) {
		*m = append(*m, p)
	}
}

// Skip ends a test that did all else that it could, if anything was missing: what was not compared is then listed too.
func (m Missing) Skip(t testing.TB) {
	t.Helper()
	if len(m) == 0 {
		return
	}
	lines := make([]string, len(m))
	for i, p := range m {
		lines[i] = p.String()
	}
	t.Skip(strings.Join(lines, "\n"))
}

// Package testenv finds the programs that tests compare with. A test that has to do without one is skipped in words of one form,
// "needs PROGRAM: how to install it", which scripts/skipped.py lists at the end of make test.
package testenv

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A Program is one that tests run. Its command is known by its exit status and by its answer, as other programs bear the same names.
type Program struct {
	Name     string   // for people
	Install  string   // how to get it
	Commands []string // the first of these that is the program is used
	Version  []string // arguments that make it print its version
	Says     string   // regular expression that a line of the answer matches
	Status   []int    // exit statuses of the answer beside 0
}

//go:embed programs.json
var programsJSON []byte

// programs is the table of all programs, which scripts/needs.py reads too.
var programs = sync.OnceValue(func() (table map[string]*Program) {
	if err := json.Unmarshal(programsJSON, &table); err != nil {
		panic(err)
	}
	return table
})

// Command returns the program that the table lists under a name.
func Command(name string) *Program {
	p := programs()[name]
	if p == nil {
		panic("testenv: programs.json has no " + name)
	}
	return p
}

// Programs that several tests run.
var (
	Cjpeg       = Command("cjpeg")
	Jpegtran    = Command("jpegtran")
	ImageMagick = Command("imagemagick")
)

// versionLimit is how long a program may take to say what it is. Strangers of the same name may wait for input, of which there is none.
const versionLimit = 20 * time.Second

// Python returns, for String, a Python that has packages: what finds one is pillowtest.
func Python(packages ...string) *Program {
	list := strings.Join(packages, " ")
	return &Program{Name: "Python with " + list, Install: "pip install " + list + ", for the Python that PYTHON or IMGFEED_TEST_PYTHON names"}
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
	says := regexp.MustCompile("(?m)" + p.Says)
	for _, name := range p.Commands {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), versionLimit)
		cmd := exec.CommandContext(ctx, path, p.Version...)
		answer, _ := cmd.CombinedOutput()
		cancel()
		if cmd.ProcessState != nil && slices.Contains(append([]int{0}, p.Status...), cmd.ProcessState.ExitCode()) && says.Match(answer) {
			return path
		}
	}
	return ""
}

// String names the program and how to get it: "needs ImageMagick: apt install imagemagick".
func (p *Program) String() string {
	return fmt.Sprintf("needs %s: %s", p.Name, p.Install)
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

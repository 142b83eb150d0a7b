// Package testenv has helpers of tests. It finds the programs that tests compare with: a test without its program is skipped with
// the message "needs PROGRAM: how to install it", which scripts/skipped.py lists at the end of make test.
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

// A Program is used by tests. Other programs may have the same name, so its command is recognised by its exit status and its output.
type Program struct {
	Name     string   // shown to people
	Install  string   // how to get it
	Commands []string // candidates; the first one recognised is used
	Version  []string // arguments that make it print its version
	Says     string   // regular expression that a line of the answer matches
	Status   []int    // accepted exit statuses, in addition to 0

	find func() string // searches once
}

//go:embed programs.json
var programsJSON []byte

// programs is the table of all programs, which scripts/needs.py reads too.
var programs = sync.OnceValue(func() (table map[string]*Program) {
	if err := json.Unmarshal(programsJSON, &table); err != nil {
		panic(err)
	}
	for _, p := range table {
		p.find = sync.OnceValue(p.search)
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

// versionLimit bounds the time of a version query. Another program of the same name may wait for input, which never comes.
const versionLimit = 20 * time.Second

// Python says that a test needs a Python with packages. Package pillowtest finds one.
func Python(packages ...string) string {
	list := strings.Join(packages, " ")
	return fmt.Sprintf("needs Python with %s: pip install %[1]s, for the Python in PYTHON or IMGFEED_TEST_PYTHON", list)
}

// PythonWith returns the Python in IMGFEED_TEST_PYTHON, or python3, and skips the test if it cannot import modules.
func PythonWith(t testing.TB, modules ...string) string {
	t.Helper()
	python := cmp.Or(os.Getenv("IMGFEED_TEST_PYTHON"), "python3")
	if err := exec.Command(python, "-W", "ignore", "-c", "import "+strings.Join(modules, ", ")).Run(); err != nil {
		t.Skip(Python(modules...))
	}
	return python
}

// Find returns the path of a program, or "" if it is not installed.
func (p *Program) Find() string { return p.find() }

func (p *Program) search() string {
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

// Path returns the path of a program, and skips the test if it is not installed.
func (p *Program) Path(t testing.TB) string {
	t.Helper()
	path := p.Find()
	if path == "" {
		t.Skip(p)
	}
	return path
}

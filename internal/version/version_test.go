package version

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

func TestFrom(t *testing.T) {
	stamped := &debug.BuildInfo{Main: debug.Module{Version: "v0.0.0-20260101000000-1a2b3c4d5e6f"}, Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "1a2b3c4d5e6f778899"}, {Key: "vcs.modified", Value: "true"},
	}}
	for _, c := range []struct {
		build          *debug.BuildInfo
		number, commit string
		want           string
	}{
		{nil, "", "", "(devel)"},
		{&debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, "", "", "(devel)"},
		{&debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}}, "", "", "v1.2.3"},
		{stamped, "", "", "v0.0.0-20260101000000-1a2b3c4d5e6f (1a2b3c4d5e6f, modified)"},
		{stamped, "0.1.0", "aabbccddeeff", "0.1.0 (aabbccddeeff)"},
		{nil, "0.1.0", "aabbccddeeff-dirty", "0.1.0 (aabbccddeeff, modified)"},
		{nil, "0.1.0", "", "0.1.0"}, // from an archive without git
	} {
		if got := from(c.build, c.number, c.commit).String(); got != c.want {
			t.Errorf("%q, %q: %q, want %q", c.number, c.commit, got, c.want)
		}
	}
}

// TestMakefileStamps builds a program as make does, and checks that its version is the Python package's.
func TestMakefileStamps(t *testing.T) {
	gnuMake := testenv.Command("make").Path(t)
	testenv.Command("go").Path(t)
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "python/imgfeed/__init__.py"))
	if err != nil {
		t.Fatal(err)
	}
	want := regexp.MustCompile(`(?m)^__version__ = "(.*)"$`).FindSubmatch(text)
	if want == nil {
		t.Fatal("no __version__ in the Python package")
	}
	out, err := exec.Command(gnuMake, "-C", root, "--no-print-directory", "--dry-run", "bin/imgfeed").Output()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "imgfeed")
	line := strings.Replace(strings.TrimSpace(string(out)), "-o bin/imgfeed", "-o "+program, 1)
	build := exec.Command("sh", "-c", line)
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", line, err, text)
	}
	if got, err := exec.Command(program, "version").Output(); err != nil || !strings.HasPrefix(string(got), "imgfeed "+string(want[1])) {
		t.Errorf("%q, %v; want version %s, by %s", got, err, want[1], line)
	}
}

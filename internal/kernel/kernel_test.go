package kernel

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

func TestParseLevelRoundTrip(t *testing.T) {
	for _, l := range []Level{Generic, AVX2, AVX512, NEON} {
		testenv.Equal(t, testenv.Must(ParseLevel(l.String()))(t), l, "ParseLevel")
	}
	testenv.Fails(ParseLevel("sse9"))(t, nil, "ParseLevel accepted an unknown level")
}

func TestActiveIsAvailable(t *testing.T) {
	levels := Available()
	testenv.Require(t, len(levels) > 0 && levels[0] == Generic, "Available() = %v, want it to start with generic", levels)
	a := Active()
	testenv.Check(t, a <= levels[len(levels)-1], "Active() = %v, above the highest available level %v", a, levels[len(levels)-1])
}

func TestCheckEnv(t *testing.T) {
	for value, ok := range map[string]bool{"": true, "generic": true, "avx2": runtime.GOARCH == "amd64", "neon": runtime.GOARCH == "arm64", "fast": false} {
		t.Setenv(EnvVar, value)
		err := CheckEnv()
		testenv.Check(t, (err == nil) == ok, "%s=%q: CheckEnv() = %v", EnvVar, value, err)
	}
}

// TestToolchain: one release of Go, named in go.mod, builds everything.
func TestToolchain(t *testing.T) {
	for _, c := range []struct{ file, pattern string }{
		{"go.mod", `(?m)^toolchain (.*)$`},
		{"Dockerfile", `(?m)^ARG GO_IMAGE=golang:(.*)$`},
		{"trainer/Dockerfile", `(?m)^ARG GO_IMAGE=golang:(.*)$`},
		{"CONTRIBUTING.md", `GOTOOLCHAIN=(\S+)`},
		{"compose.yaml", `GO_IMAGE:-golang:(.*)}`},
	} {
		text := testenv.Must(os.ReadFile(filepath.Join("../..", c.file)))(t)
		found := regexp.MustCompile(c.pattern).FindAllSubmatch(text, -1)
		testenv.Check(t, len(found) > 0, "%s names no release of Go", c.file)
		for _, f := range found {
			testenv.Equal(t, "go"+strings.TrimPrefix(string(f[1]), "go"), Toolchain, "%s", c.file)
		}
	}
}

// TestNotice: a binary for amd64 or arm64 either has the kernels or says that it has none.
func TestNotice(t *testing.T) {
	notice := Notice()
	want := (runtime.GOARCH == "amd64" || runtime.GOARCH == "arm64") && Compiled() == Generic
	testenv.Check(t, (notice != "") == want, "%s/%v: notice %q", runtime.GOARCH, Compiled(), notice)
	testenv.Check(t, !strings.Contains(notice, "\n") && (notice == "" || strings.Contains(notice, Toolchain)),
		"notice %q is not one line that names %s", notice, Toolchain)
}

package shard

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// makeFolder makes a folder that holds one file.
func makeFolder(t *testing.T, dir, file string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, file), nil, 0o666); err != nil {
		t.Fatal(err)
	}
}

func TestExchange(t *testing.T) {
	for name, swap := range map[string]func(a, b string) error{"at once": exchange, "by renames": exchangeByRenames} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			a, b := filepath.Join(dir, ".out.partial"), filepath.Join(dir, "out")
			makeFolder(t, a, "new")
			makeFolder(t, b, "old")
			if err := swap(a, b); err != nil {
				t.Fatal(err)
			}
			if got := [][]string{names(t, dir), names(t, a), names(t, b)}; !slices.EqualFunc(got, [][]string{{".out.partial", "out"}, {"old"}, {"new"}}, slices.Equal) {
				t.Errorf("after: %v", got)
			}
			if err := os.RemoveAll(a); err != nil {
				t.Fatal(err)
			}
			if err := swap(a, b); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("with nothing: %v", err)
			}
			if got := names(t, dir); !slices.Equal(got, []string{"out"}) {
				t.Errorf("after an exchange that failed: %v", got)
			}
		})
	}
}

// TestBuildKilledWhileItReplaced is killed between the two renames: the next build gives the old set its name back.
func TestBuildKilledWhileItReplaced(t *testing.T) {
	for _, replace := range []bool{false, true} {
		dir := writeSet(t, makeSamples(3), testOptions(1))
		makeFolder(t, hiddenBeside(dir, "partial"), manifestName)
		if err := os.Rename(dir, hiddenBeside(dir, "replaced")); err != nil {
			t.Fatal(err)
		}
		options := testOptions(1)
		options.Replace = replace
		w, err := NewSetWriter(dir, options)
		if replace {
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Abort(); err != nil {
				t.Fatal(err)
			}
		} else if err == nil || !strings.Contains(err.Error(), "--force") {
			t.Errorf("over the set: %v", err)
		}
		if s := openSet(t, dir); s.Len() != 3 {
			t.Errorf("%d samples are left", s.Len())
		}
	}
}

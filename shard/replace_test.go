package shard

import (
	"errors"
	"os"
	"strings"
	"testing"
)

// TestBuildKilledWhileItReplaced is killed between the two renames: the next build gives the old set its name back.
func TestBuildKilledWhileItReplaced(t *testing.T) {
	for _, replace := range []bool{false, true} {
		dir := writeSet(t, makeSamples(3), testOptions(1))
		if err := errors.Join(os.Mkdir(hiddenBeside(dir, "partial"), 0o777), os.Rename(dir, hiddenBeside(dir, "replaced"))); err != nil {
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

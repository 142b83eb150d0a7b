package advice

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
)

func TestAdd(t *testing.T) {
	plain := errors.New("something else")
	if got := Add(plain); got != "something else" {
		t.Errorf("%q", got)
	}
	full := fmt.Errorf("packing: %w", &fs.PathError{Op: "write", Path: "/data/x", Err: syscall.ENOSPC})
	for _, want := range []string{"packing: write /data/x: no space left on device", "make room"} {
		if got := Add(full); !strings.Contains(got, want) {
			t.Errorf("%q does not say %q", got, want)
		}
	}
}

// TestFullDevice gets the error from the system itself.
func TestFullDevice(t *testing.T) {
	err := os.WriteFile("/dev/full", []byte("x"), 0)
	if err == nil {
		t.Skip("no /dev/full here")
	}
	if got := Add(err); !strings.Contains(got, "make room") {
		t.Errorf("%q", got)
	}
	if _, err := os.Open(filepath.Join(t.TempDir(), "nothing")); Add(err) != err.Error() {
		t.Errorf("advice on a missing file: %q", Add(err))
	}
}

func TestFlag(t *testing.T) {
	cmd := &cobra.Command{Use: "serve"}
	cmd.Flags().Int("threads", 0, "")
	cmd.Flags().Int("secret", 0, "")
	if err := cmd.Flags().MarkHidden("secret"); err != nil {
		t.Fatal(err)
	}
	for given, want := range map[string]string{
		"--thread=3": "unknown flag: --thread (is --threads meant?)",
		"--secre=3":  "unknown flag: --secre",
		"-t":         "unknown shorthand flag: 't' in -t",
		"--socket":   "unknown flag: --socket",
	} {
		if got := Flag(cmd, cmd.ParseFlags([]string{given})); got.Error() != want {
			t.Errorf("%s: %q, want %q", given, got, want)
		}
	}
}

package imgshard

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

// roleEnv makes this test program the program itself.
const roleEnv = "IMGSHARD_TEST_ROLE"

func TestMain(m *testing.M) {
	if os.Getenv(roleEnv) == "" {
		os.Exit(m.Run())
	}
	Main(os.Args[1:])
}

// TestInterruptedIsAStatusOfItsOwn tells scripts an interrupted verify from one of a damaged set.
func TestInterruptedIsAStatusOfItsOwn(t *testing.T) {
	set := copySet(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, words := range [][]string{{"verify", set}, {"stats", set}, {"build", images, "-o", set, "--force"}} {
		var diag strings.Builder
		status := run(ctx, words, io.Discard, &diag)
		testenv.Check(t, status == interruptedStatus && strings.Contains(diag.String(), "interrupted"),
			"%s: status %d, %s", words[0], status, &diag)
	}
}

// TestOneSignalEndsOpening interrupts commands whose set takes long to open, of which a line tells each second.
func TestOneSignalEndsOpening(t *testing.T) {
	set := filepath.Join(t.TempDir(), "set")
	succeed(t, "build", images, "-o", set)
	testenv.Hold(t, filepath.Join(set, "rank-0000/00000.imgshard"))
	for _, words := range [][]string{{"ls", set}, {"view", set, "-o", "-"}, {"repack", set, "-o", set + "2"}} {
		t.Run(words[0], func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0], words...)
			cmd.Env = append(os.Environ(), roleEnv+"=1")
			diag := testenv.Must(cmd.StderrPipe())(t)
			testenv.OK(t, cmd.Start())
			said := ""
			for lines := bufio.NewScanner(diag); lines.Scan(); {
				if said += lines.Text() + "\n"; strings.HasSuffix(lines.Text(), "set: 0 of 1 shard opened") {
					cmd.Process.Signal(os.Interrupt)
				}
			}
			cmd.Wait()
			testenv.Check(t, cmd.ProcessState.ExitCode() == interruptedStatus, "%v: %v, %s", words, cmd.ProcessState, said)
		})
	}
}

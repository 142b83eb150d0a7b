package imgshard

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

// roleEnv makes this test program the program itself, or one that does not end by its first signal.
const roleEnv = "IMGSHARD_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleEnv) {
	case "":
		os.Exit(m.Run())
	case "held":
		first, _ := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		context.AfterFunc(first, func() { endAtOnce(os.Interrupt, syscall.SIGTERM) })
		if os.Args[1] == "write" {
			writeFile(os.Args[2], os.Stdout, func(io.Writer) error { select {} })
		}
		os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
	}
	Main(os.Args[1:])
}

// TestSecondSignalLeavesNoLock ends a build between the first signal and the removal of what is unfinished. The next build must not find a lock.
func TestSecondSignalLeavesNoLock(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	source, out := filepath.Join(dir, "raw"), filepath.Join(dir, "out")
	if _, diag, status := imgshard(t, "synth", source, "--classes", "2", "--train", "6", "--val", "0"); status != 0 {
		t.Fatal(diag)
	}
	images, err := filepath.Glob(filepath.Join(source, "train", "*", "*"))
	if err != nil || len(images) == 0 {
		t.Fatal(images, err)
	}
	t.Run("held", func(t *testing.T) {
		testenv.Hold(t, images[len(images)-1]) // the build waits for it, until the end of this part
		endTwice(t, dir, ".partial-", "build", filepath.Join(source, "train"), "-o", out, "--encoding", "pixels")
	})
	if left := hidden(t, dir, ".lock"); len(left) > 0 {
		t.Fatalf("left: %v", left)
	}
	if _, diag, status := imgshard(t, "build", filepath.Join(source, "train"), "-o", out); status != 0 {
		t.Fatal(diag)
	}
	if left := hidden(t, dir, ""); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestSecondSignalLeavesNoFile ends the writing of a sheet at once.
func TestSecondSignalLeavesNoFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	endTwice(t, dir, "sheet", "write", filepath.Join(dir, "sheet.png"))
	if left := hidden(t, dir, ""); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// endTwice runs a command that no first signal ends, and once a hidden file of a name is in dir, ends it by a second one.
func endTwice(t *testing.T, dir, begun string, args ...string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), roleEnv+"=held")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(20*time.Second, func() { cmd.Process.Kill() })
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for len(hidden(t, dir, begun)) == 0 && len(ended) == 0 {
		time.Sleep(time.Millisecond)
	}
	for signals := 0; len(ended) == 0; signals++ { // more than two, as the second may overtake what the first does
		cmd.Process.Signal([]os.Signal{os.Interrupt, syscall.SIGTERM}[signals%2])
		time.Sleep(10 * time.Millisecond)
	}
	if err := <-ended; !late.Stop() || !cmd.ProcessState.Sys().(syscall.WaitStatus).Signaled() {
		t.Errorf("no signal ended it: %v", err)
	}
}

// TestInterruptedIsAStatusOfItsOwn tells scripts an interrupted verify from one of a damaged set.
func TestInterruptedIsAStatusOfItsOwn(t *testing.T) {
	set := copySet(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, words := range [][]string{{"verify", set}, {"stats", set}, {"build", images, "-o", set, "--force"}} {
		var diag strings.Builder
		if status := run(ctx, words, io.Discard, &diag); status != interruptedStatus || !strings.Contains(diag.String(), "interrupted") {
			t.Errorf("%s: status %d, %s", words[0], status, &diag)
		}
	}
}

// TestOneSignalEndsOpening interrupts commands whose set takes long to open, of which a line tells each second.
func TestOneSignalEndsOpening(t *testing.T) {
	set := filepath.Join(t.TempDir(), "set")
	if _, diag, status := imgshard(t, "build", images, "-o", set); status != 0 {
		t.Fatal(diag)
	}
	testenv.Hold(t, filepath.Join(set, "rank-0000/00000.imgshard"))
	for _, words := range [][]string{{"ls", set}, {"view", set, "-o", "-"}, {"repack", set, "-o", set + "2"}} {
		t.Run(words[0], func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0], words...)
			cmd.Env = append(os.Environ(), roleEnv+"=1")
			diag, err := cmd.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			late := time.AfterFunc(20*time.Second, func() { cmd.Process.Kill() })
			said := ""
			for lines := bufio.NewScanner(diag); lines.Scan(); {
				if said += lines.Text() + "\n"; strings.HasSuffix(lines.Text(), "set: 0 of 1 shard opened") {
					cmd.Process.Signal(os.Interrupt)
				}
			}
			cmd.Wait()
			if cmd.ProcessState.ExitCode() != interruptedStatus || !late.Stop() {
				t.Errorf("%v: %v, %s", words, cmd.ProcessState, said)
			}
		})
	}
}

// hidden returns the hidden names in a folder that contain a text.
func hidden(t *testing.T, dir, text string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if name := entry.Name(); strings.HasPrefix(name, ".") && strings.Contains(name, text) {
			names = append(names, name)
		}
	}
	return names
}

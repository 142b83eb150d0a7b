package imgshard

import (
	"bufio"
	"context"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/imgfeed/imgfeed/internal/testenv"
)

// roleEnv makes this test program the program itself.
const roleEnv = "IMGSHARD_TEST_ROLE"

func TestMain(m *testing.M) {
	if os.Getenv(roleEnv) != "" {
		Main(os.Args[1:])
	}
	os.Exit(m.Run())
}

// TestSecondSignalLeavesNoLock ends builds by two signals in a row, at moments between the first and the removal of what is
// unfinished.
func TestSecondSignalLeavesNoLock(t *testing.T) {
	dir := t.TempDir()
	source, out := filepath.Join(dir, "raw"), filepath.Join(dir, "out")
	if _, diag, status := imgshard(t, "synth", source, "--classes", "2", "--train", "60", "--val", "0"); status != 0 {
		t.Fatal(diag)
	}
	moments := rand.New(rand.NewPCG(1, 1))
	atOnce := 0
	for builds := 0; builds < 6 || atOnce == 0 && builds < 60; builds++ { // a busy machine lets many end before
		build := exec.Command(os.Args[0], "build", filepath.Join(source, "train"), "-o", out, "--encoding", "pixels")
		build.Env = append(os.Environ(), roleEnv+"=1")
		if err := build.Start(); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(20 * time.Second); len(hidden(t, dir, ".partial-")) == 0; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("the build does not begin")
			}
		}
		build.Process.Signal(os.Interrupt)
		time.Sleep(time.Duration(moments.IntN(3000)) * time.Microsecond)
		build.Process.Signal(syscall.SIGTERM)
		build.Wait()
		if state := build.ProcessState.Sys().(syscall.WaitStatus); state.Signaled() { // by either: they may overtake one another
			atOnce++
		} else if left := hidden(t, dir, ".partial-"); state.ExitStatus() != interruptedStatus || len(left) > 0 {
			t.Errorf("status %v, left: %v", build.ProcessState, left)
		}
		if left := hidden(t, dir, ".lock"); len(left) > 0 {
			t.Fatalf("left: %v", left)
		}
	}
	if atOnce == 0 {
		t.Error("every build had ended before its second signal")
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
	dir := t.TempDir()
	source := filepath.Join(dir, "raw")
	if _, diag, status := imgshard(t, "synth", source, "--classes", "2", "--train", "100", "--val", "0"); status != 0 {
		t.Fatal(diag)
	}
	atOnce := false
	for views := 0; views < 20 && !atOnce; views++ { // a busy machine lets many end before
		view := exec.Command(os.Args[0], "view", filepath.Join(source, "train"), "-n", "200", "-o", filepath.Join(dir, "sheet.png"))
		view.Env = append(os.Environ(), roleEnv+"=1")
		if err := view.Start(); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(20 * time.Second); len(hidden(t, dir, "sheet")) == 0; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("the sheet is not begun")
			}
		}
		view.Process.Signal(os.Interrupt)
		time.Sleep(20 * time.Millisecond)
		view.Process.Signal(os.Interrupt)
		view.Wait()
		atOnce = view.ProcessState.Sys().(syscall.WaitStatus).Signaled()
		if left := hidden(t, dir, "sheet"); len(left) > 0 {
			t.Fatalf("%v, left: %v", view.ProcessState, left)
		}
	}
	if !atOnce {
		t.Error("every sheet was written before the second signal")
	}
}

// TestInterruptedIsAStatusOfItsOwn tells scripts an interrupted verify from one of a damaged set.
func TestInterruptedIsAStatusOfItsOwn(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "raw")
	if _, diag, status := imgshard(t, "synth", dir, "--classes", "2", "--train", "4", "--val", "0"); status != 0 {
		t.Fatal(diag)
	}
	set := filepath.Join(dir, "set")
	if _, diag, status := imgshard(t, "build", filepath.Join(dir, "train"), "-o", set); status != 0 {
		t.Fatal(diag)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, words := range [][]string{{"verify", set}, {"stats", set}, {"build", filepath.Join(dir, "train"), "-o", set, "--force"}} {
		var diag strings.Builder
		if status := run(ctx, words, io.Discard, &diag); status != interruptedStatus || !strings.Contains(diag.String(), "interrupted") {
			t.Errorf("%s: status %d, %s", words[0], status, &diag)
		}
	}
}

// TestOneSignalEndsOpening interrupts commands whose set takes long to open, of which a line tells each second.
func TestOneSignalEndsOpening(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "raw")
	if _, diag, status := imgshard(t, "synth", dir, "--classes", "2", "--train", "4", "--val", "0"); status != 0 {
		t.Fatal(diag)
	}
	set := filepath.Join(dir, "set")
	if _, diag, status := imgshard(t, "build", filepath.Join(dir, "train"), "-o", set); status != 0 {
		t.Fatal(diag)
	}
	testenv.Hold(t, filepath.Join(set, "rank-0000/00000.imgshard"))
	for _, words := range [][]string{{"ls", set}, {"view", set, "-o", "-"}, {"repack", set, "-o", set + "2"}} {
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

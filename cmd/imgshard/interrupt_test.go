package main

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// roleEnv makes this test program the program itself.
const roleEnv = "IMGSHARD_TEST_ROLE"

func TestMain(m *testing.M) {
	if os.Getenv(roleEnv) != "" {
		main()
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
		} else if left := hidden(t, dir, ".partial-"); state.ExitStatus() != 1 || len(left) > 0 {
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

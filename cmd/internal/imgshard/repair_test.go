package imgshard

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRepair damages a set, repairs it, and compares.
func TestRepair(t *testing.T) {
	dir, good := filepath.Join(t.TempDir(), "set"), filepath.Join(t.TempDir(), "good")
	for _, out := range []string{dir, good} {
		if _, diag, status := imgshard(t, "build", images, "-o", out); status != 0 {
			t.Fatal(diag)
		}
	}
	path := filepath.Join(dir, "rank-0000", "00000.imgshard")
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	damage := func() {
		data := append([]byte(nil), want...)
		data[len(data)/2] ^= 1
		if err := os.WriteFile(path, data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, from := range []string{images, good} {
		damage()
		out, diag, status := imgshard(t, "repair", dir, "--from", from)
		if status != 0 || !strings.Contains(out, "1 record put back, 1 of 1 damaged shard is as built") || !strings.Contains(diag, "found: "+path) || strings.Contains(diag, "imgshard repair") {
			t.Fatalf("%q, %q, status %d", out, diag, status)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != string(want) {
			t.Fatalf("the shard is another one, %v", err)
		}
	}
	if out, diag, status := imgshard(t, "repair", dir, "--from", images); status != 0 || !strings.Contains(out, "nothing is to be repaired") {
		t.Errorf("%q, %q, status %d", out, diag, status)
	}
	damage()
	other := filepath.Join(t.TempDir(), "other")
	if _, diag, status := imgshard(t, "synth", other, "--classes", "2", "--train", "3", "--val", "0", "--size", "40", "--seed", "9"); status != 0 {
		t.Fatal(diag)
	}
	out, diag, status := imgshard(t, "repair", dir, "--from", filepath.Join(other, "train"))
	if status != 1 || !strings.Contains(diag, "not repaired: "+path) || !strings.Contains(out, "0 of 1") {
		t.Errorf("from others: %q, %q, status %d", out, diag, status)
	}
	for want, args := range map[string][]string{
		"needs --from":   {"repair", dir},
		"standard input": {"repair", dir, "--from", "-"},
		"is the set":     {"repair", dir, "--from", dir},
		`--jobs "-1"`:    {"repair", dir, "--from", images, "--jobs", "-1"},
	} {
		if _, diag, status := imgshard(t, args...); status != 2 || !strings.Contains(diag, want) {
			t.Errorf("%q: status %d, %q, want %q", args, status, diag, want)
		}
	}
}

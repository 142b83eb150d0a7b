//go:build linux

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestSlowFS reads a folder through the file system, where it can be mounted.
func TestSlowFS(t *testing.T) {
	folder, mountpoint := t.TempDir(), t.TempDir()
	content := bytes.Repeat([]byte("0123456789abcdef"), 50_000)
	if err := os.MkdirAll(filepath.Join(folder, "a"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "a", "file"), content, 0o666); err != nil {
		t.Fatal(err)
	}
	s, err := mount(folder, mountpoint, 30*time.Millisecond)
	if err != nil {
		t.Skip(err)
	}
	ended := make(chan error)
	go func() { ended <- s.serve() }()
	began := time.Now()
	got, err := os.ReadFile(filepath.Join(mountpoint, "a", "file"))
	if err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes of %d, %v", len(got), len(content), err)
	}
	if took := time.Since(began); took < 30*time.Millisecond {
		t.Errorf("reading took %v", took)
	}
	entries, err := os.ReadDir(filepath.Join(mountpoint, "a"))
	if err != nil || len(entries) != 1 || entries[0].Name() != "file" {
		t.Error(entries, err)
	}
	if _, err := os.Stat(filepath.Join(mountpoint, "b")); !os.IsNotExist(err) {
		t.Error(err)
	}
	if err := unix.Unmount(mountpoint, 0); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

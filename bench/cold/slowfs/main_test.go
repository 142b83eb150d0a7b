//go:build linux

package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"sync"
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
	server, err := mount(folder, mountpoint, 30*time.Millisecond)
	if err != nil {
		t.Skip(err)
	}
	path := filepath.Join(mountpoint, "a", "file")
	began := time.Now()
	got, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes of %d, %v", len(got), len(content), err)
	}
	if took := time.Since(began); took < 30*time.Millisecond {
		t.Errorf("reading took %v", took)
	}
	readMany(t, path, content, 30*time.Millisecond)
	entries, err := os.ReadDir(filepath.Join(mountpoint, "a"))
	if err != nil || len(entries) != 1 || entries[0].Name() != "file" {
		t.Error(entries, err)
	}
	if _, err := os.Stat(filepath.Join(mountpoint, "b")); !os.IsNotExist(err) {
		t.Error(err)
	}
	if err := unix.Unmount(mountpoint, unix.MNT_FORCE); err != nil { // a container that begins meanwhile may have a copy of the mount
		t.Fatal(err)
	}
	server.Wait()
}

// readMany reads a file past the page cache at many places at once: each read waits, but not for the others.
func readMany(t *testing.T, path string, content []byte, delay time.Duration) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECT, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	began := time.Now()
	var all sync.WaitGroup
	for i := range 48 {
		all.Go(func() {
			offset := i * 16_384
			p, err := unix.Mmap(-1, 0, 32_768, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
			if err != nil {
				t.Error(err)
				return
			}
			defer unix.Munmap(p)
			began := time.Now()
			n, err := f.ReadAt(p, int64(offset))
			if took := time.Since(began); took < delay {
				t.Errorf("the read at %d took %v", offset, took)
			}
			want := content[offset:min(offset+len(p), len(content))]
			if !bytes.Equal(p[:n], want) || err != nil && err != io.EOF {
				t.Errorf("%d bytes at %d of %d, %v", n, offset, len(want), err)
			}
		})
	}
	all.Wait()
	if took := time.Since(began); took > 40*delay {
		t.Errorf("48 reads at once took %v", took)
	}
}

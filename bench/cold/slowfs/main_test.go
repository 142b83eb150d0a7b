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

	"github.com/imgfeed/imgfeed/internal/testenv"
)

// TestSlowFS reads a folder through the file system, where it can be mounted.
func TestSlowFS(t *testing.T) {
	folder, mountpoint := t.TempDir(), t.TempDir()
	content := bytes.Repeat([]byte("0123456789abcdef"), 50_000)
	testenv.OK(t, os.MkdirAll(filepath.Join(folder, "a"), 0o777))
	testenv.OK(t, os.WriteFile(filepath.Join(folder, "a", "file"), content, 0o666))
	server, err := mount(folder, mountpoint, 30*time.Millisecond)
	if err != nil {
		t.Skip(err)
	}
	path := filepath.Join(mountpoint, "a", "file")
	began := time.Now()
	got, err := os.ReadFile(path)
	testenv.Check(t, err == nil && bytes.Equal(got, content), "%d bytes of %d, %v", len(got), len(content), err)
	took := time.Since(began)
	testenv.Check(t, took >= 30*time.Millisecond, "reading took %v", took)
	readMany(t, path, content, 30*time.Millisecond)
	entries, err := os.ReadDir(filepath.Join(mountpoint, "a"))
	testenv.Check(t, err == nil && len(entries) == 1 && entries[0].Name() == "file", "%v, %v", entries, err)
	_, err = os.Stat(filepath.Join(mountpoint, "b"))
	testenv.Check(t, os.IsNotExist(err), "%v", err)
	testenv.OK(t, unix.Unmount(mountpoint, unix.MNT_FORCE)) // a container that begins meanwhile may have a copy of the mount
	server.Wait()
}

// readMany reads a file past the page cache at many places at once: each read waits, but not for the others.
func readMany(t *testing.T, path string, content []byte, delay time.Duration) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECT, 0)
	testenv.OK(t, err)
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
			took := time.Since(began)
			testenv.Check(t, took >= delay, "the read at %d took %v", offset, took)
			want := content[offset:min(offset+len(p), len(content))]
			testenv.Check(t, bytes.Equal(p[:n], want) && (err == nil || err == io.EOF),
				"%d bytes at %d of %d, %v", n, offset, len(want), err)
		})
	}
	all.Wait()
	took := time.Since(began)
	testenv.Check(t, took <= 40*delay, "48 reads at once took %v", took)
}

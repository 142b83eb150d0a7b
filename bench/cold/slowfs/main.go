//go:build linux

// Slowfs is a slow view of a folder: every read waits before it is answered. It is read-only, needs root, and runs
// until it is unmounted.
//
// Its own computing would take time from the processes under test. So it shows the folder as it was at the start and
// keeps the files in memory: the kernel copies a read from there once.
//
//	slowfs -delay 2ms FOLDER MOUNTPOINT
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

const (
	readMax    = 1 << 20
	background = 128 // limit of the kernel's concurrent read-aheads
)

// A file has its content in memory.
type file struct {
	fs.MemRegularFile
	delay time.Duration
}

func (f *file) Read(ctx context.Context, h fs.FileHandle, to []byte, offset int64) (fuse.ReadResult, syscall.Errno) {
	time.Sleep(f.delay)
	return f.MemRegularFile.Read(ctx, h, to, offset)
}

// newFile maps a file and keeps it in memory.
func newFile(path string, delay time.Duration) (*file, error) {
	opened, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	f := &file{delay: delay}
	var st syscall.Stat_t
	if err := syscall.Fstat(int(opened.Fd()), &st); err != nil {
		return nil, err
	}
	if f.Attr.FromStat(&st); st.Size == 0 {
		return f, nil
	}
	if f.Data, err = unix.Mmap(int(opened.Fd()), 0, int(st.Size), unix.PROT_READ, unix.MAP_SHARED); err != nil {
		return nil, err
	}
	return f, unix.Mlock(f.Data)
}

// add adds everything in a folder below parent.
func add(ctx context.Context, parent *fs.Inode, folder string, delay time.Duration) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		path := filepath.Join(folder, entry.Name())
		if entry.IsDir() {
			below := parent.NewPersistentInode(ctx, &fs.Inode{}, fs.StableAttr{Mode: syscall.S_IFDIR})
			parent.AddChild(entry.Name(), below, false)
			if err := add(ctx, below, path, delay); err != nil {
				return err
			}
			continue
		}
		f, err := newFile(path, delay)
		if err != nil {
			return fmt.Errorf("holding %s in memory: %w", path, err)
		}
		parent.AddChild(entry.Name(), parent.NewPersistentInode(ctx, f, fs.StableAttr{}), false)
	}
	return nil
}

// mount shows a folder at mountpoint.
func mount(folder, mountpoint string, delay time.Duration) (server *fuse.Server, err error) {
	valid := time.Hour // the kernel need not ask again
	root := &fs.Inode{}
	options := &fs.Options{EntryTimeout: &valid, AttrTimeout: &valid}
	options.MountOptions = fuse.MountOptions{
		AllowOther: true, DirectMountStrict: true, DirectMountFlags: unix.MS_RDONLY, FsName: "slowfs", Name: "slowfs",
		MaxWrite: readMax, MaxReadAhead: readMax, MaxBackground: background, CongestionThreshold: background,
		ExtraCapabilities: fuse.CAP_ASYNC_DIO, // else direct reads that were begun together come one after the other
	}
	var failed error
	options.OnAdd = func(ctx context.Context) { failed = add(ctx, root, folder, delay) }
	server, err = fs.Mount(mountpoint, root, options)
	if err == nil && failed != nil {
		server.Unmount()
		err = failed
	}
	return server, err
}

func main() {
	delay := flag.Duration("delay", 2*time.Millisecond, "of each read")
	flag.Parse()
	if flag.NArg() != 2 {
		fmt.Fprintln(os.Stderr, "usage: slowfs [-delay 2ms] FOLDER MOUNTPOINT")
		os.Exit(2)
	}
	server, err := mount(flag.Arg(0), flag.Arg(1), *delay)
	if err != nil {
		fmt.Fprintln(os.Stderr, "slowfs:", err)
		os.Exit(1)
	}
	server.Wait()
}

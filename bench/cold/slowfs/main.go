//go:build linux

// Slowfs shows a folder and takes its time: every read waits before it is answered. It speaks the kernel's FUSE protocol
// (include/uapi/linux/fuse.h), is read-only, needs root, and runs until it is unmounted. What it computes it takes from those whom it is to
// keep waiting, so it reads past the page cache into memory that it uses again.
//
//	slowfs -delay 2ms FOLDER MOUNTPOINT
package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Requests, by opcode.
const (
	opLookup     = 1
	opForget     = 2
	opGetattr    = 3
	opOpen       = 14
	opRead       = 15
	opStatfs     = 17
	opRelease    = 18
	opFlush      = 25
	opInit       = 26
	opOpendir    = 27
	opReaddir    = 28
	opReleasedir = 29
	opForgetMany = 42
)

const (
	flagsWanted = 1<<0 | 1<<15 | 1<<22 // reads ahead and direct reads many at a time, of more than 128 KiB
	readMax     = 1 << 20
	atATime     = 128 // reads ahead that the kernel has under way
	requestMax  = 16 << 10
	page        = 4096
	valid       = 3600
)

// inHeader is what is needed of what begins each request.
type inHeader struct {
	Opcode       uint32
	Unique, Node uint64
}

const inHeaderSize = 40

type attributes struct {
	Node, Size, Blocks, Atime, Mtime, Ctime uint64
	Nanoseconds                             [3]uint32
	Mode, Links, UID, GID, Device, Block, _ uint32
}

type initOut struct {
	Major, Minor, ReadAhead, Flags uint32
	Background, Congestion         uint16
	WriteMax, TimeGranularity      uint32
	PagesMax, _                    uint16
	_                              [8]uint32
}

// A slowFS is a mounted folder.
type slowFS struct {
	device *os.File
	delay  time.Duration
	spare  chan *buffer

	mu    sync.Mutex
	paths []string          // by node
	nodes map[string]uint64 // by path
	files map[uint64]file
	next  uint64 // handle
}

// A file is open twice; direct, past the page cache, is nil where that can't be done.
type file struct{ plain, direct *os.File }

// A buffer has a request, and room for what it reads.
type buffer struct {
	request []byte
	data    []byte // begins at a page
}

// buffer takes one that is not in use.
func (s *slowFS) buffer() *buffer {
	select {
	case b := <-s.spare:
		return b
	default:
	}
	memory, err := unix.Mmap(-1, 0, readMax, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		panic(err)
	}
	return &buffer{make([]byte, requestMax), memory}
}

func mount(folder, mountpoint string, delay time.Duration) (*slowFS, error) {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("/dev/fuse: %w", err)
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other,max_read=%d", fd, readMax)
	if err := unix.Mount("slowfs", mountpoint, "fuse", unix.MS_RDONLY, options); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("mounting at %s: %w", mountpoint, err)
	}
	return &slowFS{
		device: os.NewFile(uintptr(fd), "/dev/fuse"), delay: delay, spare: make(chan *buffer, 2*atATime),
		paths: []string{"", folder}, nodes: map[string]uint64{folder: 1}, files: map[uint64]file{},
	}, nil
}

// serve answers requests until the file system is unmounted.
func (s *slowFS) serve() error {
	b := s.buffer()
	for {
		n, err := s.device.Read(b.request)
		switch {
		case errors.Is(err, unix.ENODEV):
			return nil
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.ENOENT), errors.Is(err, unix.EAGAIN):
		case err != nil:
			return err
		default:
			go s.respond(b, n)
			b = s.buffer()
		}
	}
}

// respond answers a buffer's request of n bytes.
func (s *slowFS) respond(b *buffer, n int) {
	defer s.putBack(b)
	h := inHeader{
		Opcode: binary.NativeEndian.Uint32(b.request[4:]), Unique: binary.NativeEndian.Uint64(b.request[8:]),
		Node: binary.NativeEndian.Uint64(b.request[16:]),
	}
	if n < inHeaderSize || h.Opcode == opForget || h.Opcode == opForgetMany {
		return
	}
	body, err := s.answer(&h, b.request[inHeaderSize:n], b.data)
	var errno unix.Errno
	if err != nil {
		errno = unix.EIO
		errors.As(err, &errno)
		body = nil
	}
	var out [16]byte
	binary.NativeEndian.PutUint32(out[:], uint32(len(out)+len(body)))
	binary.NativeEndian.PutUint32(out[4:], uint32(-int32(errno)))
	binary.NativeEndian.PutUint64(out[8:], h.Unique)
	parts := [][]byte{out[:], body}
	if len(body) == 0 {
		parts = parts[:1]
	}
	unix.Writev(int(s.device.Fd()), parts) // an error says that nobody waits for it any more
}

func (s *slowFS) putBack(b *buffer) {
	select {
	case s.spare <- b:
	default:
		unix.Munmap(b.data)
	}
}

func (s *slowFS) answer(h *inHeader, body, room []byte) ([]byte, error) {
	switch h.Opcode {
	case opInit:
		var in struct{ Major, Minor, ReadAhead, Flags uint32 }
		if _, err := binary.Decode(body, binary.NativeEndian, &in); err != nil {
			return nil, err
		}
		return encode(initOut{
			Major: 7, Minor: 31, ReadAhead: in.ReadAhead, Flags: in.Flags & flagsWanted,
			Background: atATime, Congestion: atATime, WriteMax: 4096, TimeGranularity: 1, PagesMax: readMax / 4096,
		}), nil
	case opLookup:
		return s.lookup(h.Node, string(bytes.TrimRight(body, "\x00")))
	case opGetattr:
		a, err := stat(h.Node, s.path(h.Node))
		return append(encode([2]uint64{valid}), encode(a)...), err
	case opOpen:
		var f file
		var err error
		if f.plain, err = os.Open(s.path(h.Node)); err != nil {
			return nil, err
		}
		unix.Fadvise(int(f.plain.Fd()), 0, 0, unix.FADV_RANDOM) // what is not asked for is not read
		f.direct, _ = os.OpenFile(s.path(h.Node), os.O_RDONLY|unix.O_DIRECT, 0)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.next++
		s.files[s.next] = f
		return encode([2]uint64{s.next}), nil
	case opRead:
		return s.read(body, room)
	case opRelease:
		s.mu.Lock()
		defer s.mu.Unlock()
		handle := binary.NativeEndian.Uint64(body)
		f := s.files[handle]
		delete(s.files, handle)
		f.direct.Close() // of nil too
		return nil, f.plain.Close()
	case opOpendir:
		return make([]byte, 16), nil
	case opReaddir:
		return s.list(h.Node, body)
	case opStatfs:
		return make([]byte, 80), nil
	case opFlush, opReleasedir:
		return nil, nil
	}
	return nil, unix.ENOSYS
}

func (s *slowFS) read(body, room []byte) ([]byte, error) {
	if len(body) < 20 {
		return nil, unix.EINVAL
	}
	handle, offset := binary.NativeEndian.Uint64(body), int64(binary.NativeEndian.Uint64(body[8:]))
	p := room[:min(int(binary.NativeEndian.Uint32(body[16:])), len(room))]
	time.Sleep(s.delay)
	s.mu.Lock()
	f := s.files[handle]
	s.mu.Unlock()
	if f.direct != nil && offset%page == 0 && len(p)%page == 0 {
		if n, err := unix.Pread(int(f.direct.Fd()), p, offset); err == nil {
			return p[:n], nil
		}
	}
	n, err := unix.Pread(int(f.plain.Fd()), p, offset)
	return p[:max(n, 0)], err
}

func (s *slowFS) path(node uint64) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.paths[node]
}

func (s *slowFS) lookup(parent uint64, name string) ([]byte, error) {
	path := filepath.Join(s.path(parent), name)
	if _, err := os.Lstat(path); err != nil {
		return nil, err
	}
	s.mu.Lock()
	node, known := s.nodes[path]
	if !known {
		node = uint64(len(s.paths))
		s.paths, s.nodes[path] = append(s.paths, path), node
	}
	s.mu.Unlock()
	a, err := stat(node, path)
	return append(encode([5]uint64{node, 0, valid, valid}), encode(a)...), err
}

// list gives as many entries as there is room for, from a place on.
func (s *slowFS) list(node uint64, body []byte) ([]byte, error) {
	first, room := binary.NativeEndian.Uint64(body[8:]), binary.NativeEndian.Uint32(body[16:])
	entries, err := os.ReadDir(s.path(node))
	var out []byte
	for i := int(first); i < len(entries); i++ {
		name := entries[i].Name()
		record := encode(struct {
			Inode, Next  uint64
			Length, Kind uint32
		}{uint64(i) + 2, uint64(i) + 1, uint32(len(name)), 0})
		record = append(record, name...)
		record = append(record, make([]byte, -len(record)&7)...)
		if len(out)+len(record) > int(room) {
			break
		}
		out = append(out, record...)
	}
	return out, err
}

func stat(node uint64, path string) (attributes, error) {
	var st unix.Stat_t
	err := unix.Stat(path, &st)
	return attributes{
		Node: node, Size: uint64(st.Size), Blocks: uint64(st.Blocks),
		Atime: uint64(st.Atim.Sec), Mtime: uint64(st.Mtim.Sec), Ctime: uint64(st.Ctim.Sec),
		Mode: st.Mode, Links: 1, UID: st.Uid, GID: st.Gid, Block: 4096,
	}, err
}

func encode(v any) []byte {
	p, err := binary.Append(nil, binary.NativeEndian, v)
	if err != nil {
		panic(err) // a type of ours has no fixed size
	}
	return p
}

func main() {
	delay := flag.Duration("delay", 2*time.Millisecond, "of each read")
	flag.Parse()
	if flag.NArg() != 2 {
		fmt.Fprintln(os.Stderr, "usage: slowfs [-delay 2ms] FOLDER MOUNTPOINT")
		os.Exit(2)
	}
	s, err := mount(flag.Arg(0), flag.Arg(1), *delay)
	if err == nil {
		err = s.serve()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "slowfs:", err)
		os.Exit(1)
	}
}

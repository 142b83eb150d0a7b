//go:build linux

// Slowfs shows a folder and takes its time: every read waits before it is answered. It speaks the kernel's FUSE protocol
// (include/uapi/linux/fuse.h), is read-only, needs root, and runs until it is unmounted.
//
// What it computes it takes from those whom it is to keep waiting. So it shows the folder as it was at the start, and holds its files in
// memory, from which a read is copied once, by the system; and one thread takes and answers what there is every quarter of a millisecond,
// since to be woken for each read costs more than the read. Its calls that don't wait are raw, past Go's scheduler, which would look for
// work for the others.
//
//	slowfs -delay 2ms FOLDER MOUNTPOINT
package main

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Requests, by opcode.
const (
	opLookup     = 1
	opForget     = 2
	opGetattr    = 3
	opRead       = 15
	opStatfs     = 17
	opFlush      = 25
	opInit       = 26
	opReaddir    = 28
	opForgetMany = 42
)

const (
	flagsWanted = 1<<0 | 1<<15 | 1<<22 // reads ahead and direct reads many at a time, of more than 128 KiB
	readMax     = 1 << 20
	atATime     = 128 // reads ahead that the kernel has under way
	requestMax  = 16 << 10
	valid       = 3600
	tick        = 250 * time.Microsecond
)

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
	device  int
	delay   time.Duration
	nodes   []node // by number, from 1, which is the folder
	waiting []read // the oldest first
	tick    unix.Timespec

	// Of respond alone.
	out   [16]byte
	parts [2]unix.Iovec
}

// A node is a file or a folder.
type node struct {
	attributes
	names    []string // of a folder's entries
	children []uint64
	content  []byte // of a file
}

// A read is one that is to be answered.
type read struct {
	unique  uint64
	due     time.Time
	content []byte
}

func mount(folder, mountpoint string, delay time.Duration) (*slowFS, error) {
	s := &slowFS{delay: delay, nodes: make([]node, 1), tick: unix.NsecToTimespec(int64(tick))}
	if err := s.load(folder); err != nil {
		return nil, err
	}
	var err error
	if s.device, err = unix.Open("/dev/fuse", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0); err != nil {
		return nil, fmt.Errorf("/dev/fuse: %w", err)
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other,max_read=%d", s.device, readMax)
	if err := unix.Mount("slowfs", mountpoint, "fuse", unix.MS_RDONLY, options); err != nil {
		unix.Close(s.device)
		return nil, fmt.Errorf("mounting at %s: %w", mountpoint, err)
	}
	return s, nil
}

// load makes the nodes.
func (s *slowFS) load(folder string) error {
	numbers := map[string]uint64{}
	return filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		number := uint64(len(s.nodes))
		var n node
		if n.attributes, err = stat(number, path); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if n.Mode&unix.S_IFMT == unix.S_IFREG && n.Size > 0 {
			if n.content, err = lock(path, int(n.Size)); err != nil {
				return fmt.Errorf("%s: having its %d bytes in memory: %w", path, n.Size, err)
			}
		}
		s.nodes = append(s.nodes, n)
		numbers[path] = number
		if path != folder {
			above := &s.nodes[numbers[filepath.Dir(path)]]
			above.names, above.children = append(above.names, filepath.Base(path)), append(above.children, number)
		}
		return nil
	})
}

// lock maps a file, and has it stay in memory.
func lock(path string, size int) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return content, unix.Mlock(content)
}

// serve answers requests until the file system is unmounted.
func (s *slowFS) serve() error {
	request := make([]byte, requestMax)
	for {
		if err := s.pause(); err != nil {
			return err
		}
		s.answerReads()
		for {
			n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(s.device), uintptr(unsafe.Pointer(&request[0])), requestMax)
			if errno == unix.ENODEV {
				return nil
			}
			if errno == unix.EAGAIN {
				break
			}
			if errno == unix.EINTR || errno == unix.ENOENT { // ENOENT: it was taken back
				continue
			}
			if errno != 0 {
				return errno
			}
			s.take(request[:n])
		}
	}
}

// pause waits for requests, or for a tick if there are reads to answer.
func (s *slowFS) pause() error {
	if len(s.waiting) > 0 {
		unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&s.tick)), 0, 0) // too short a sleep does no harm
		return nil
	}
	_, err := unix.Poll([]unix.PollFd{{Fd: int32(s.device), Events: unix.POLLIN}}, -1)
	if errors.Is(err, unix.EINTR) {
		return nil
	}
	return err
}

// answerReads answers those that are due.
func (s *slowFS) answerReads() {
	done, now := 0, time.Now()
	for done < len(s.waiting) && !s.waiting[done].due.After(now) {
		s.respond(s.waiting[done].unique, s.waiting[done].content, nil)
		done++
	}
	s.waiting = append(s.waiting[:0], s.waiting[done:]...)
}

// take answers a request, but a read, which is to wait.
func (s *slowFS) take(request []byte) {
	if len(request) < inHeaderSize {
		return
	}
	opcode, unique, number := binary.NativeEndian.Uint32(request[4:]), binary.NativeEndian.Uint64(request[8:]), binary.NativeEndian.Uint64(request[16:])
	body := request[inHeaderSize:]
	switch opcode {
	case opForget, opForgetMany: // nobody waits for an answer
	case opRead:
		offset, size := binary.NativeEndian.Uint64(body[8:]), uint64(binary.NativeEndian.Uint32(body[16:]))
		content := s.nodes[number].content
		offset = min(offset, uint64(len(content)))
		s.waiting = append(s.waiting, read{unique, time.Now().Add(s.delay), content[offset:min(offset+size, uint64(len(content)))]})
	default:
		out, err := s.answer(opcode, number, body)
		s.respond(unique, out, err)
	}
}

// respond answers the request of that number.
func (s *slowFS) respond(unique uint64, body []byte, err error) {
	var errno unix.Errno
	if err != nil {
		errno = unix.EIO
		errors.As(err, &errno)
		body = nil
	}
	out := s.out[:]
	binary.NativeEndian.PutUint32(out, uint32(len(out)+len(body)))
	binary.NativeEndian.PutUint32(out[4:], uint32(-int32(errno)))
	binary.NativeEndian.PutUint64(out[8:], unique)
	s.parts[0].Base, s.parts[1].Base = &out[0], unsafe.SliceData(body)
	s.parts[0].SetLen(len(out))
	s.parts[1].SetLen(len(body))
	// An error says that nobody waits for it any more.
	unix.RawSyscall(unix.SYS_WRITEV, uintptr(s.device), uintptr(unsafe.Pointer(&s.parts[0])), uintptr(len(s.parts)))
}

// answer is for everything that need not wait. A file or folder need not be opened, which the kernel learns from ENOSYS.
func (s *slowFS) answer(opcode uint32, number uint64, body []byte) ([]byte, error) {
	switch opcode {
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
		return s.lookup(&s.nodes[number], strings.TrimRight(string(body), "\x00"))
	case opGetattr:
		return append(encode([2]uint64{valid}), encode(s.nodes[number].attributes)...), nil
	case opReaddir:
		return list(&s.nodes[number], body), nil
	case opStatfs:
		return make([]byte, 80), nil
	case opFlush:
		return nil, nil
	}
	return nil, unix.ENOSYS
}

func (s *slowFS) lookup(folder *node, name string) ([]byte, error) {
	for i, known := range folder.names {
		if known == name {
			child := folder.children[i]
			return append(encode([5]uint64{child, 0, valid, valid}), encode(s.nodes[child].attributes)...), nil
		}
	}
	return nil, unix.ENOENT
}

// list gives as many entries as there is room for, from a place on.
func list(folder *node, body []byte) []byte {
	first, room := binary.NativeEndian.Uint64(body[8:]), binary.NativeEndian.Uint32(body[16:])
	var out []byte
	for i := int(first); i < len(folder.names); i++ {
		name := folder.names[i]
		record := encode(struct {
			Inode, Next  uint64
			Length, Kind uint32
		}{folder.children[i], uint64(i) + 1, uint32(len(name)), 0})
		record = append(record, name...)
		record = append(record, make([]byte, -len(record)&7)...)
		if len(out)+len(record) > int(room) {
			break
		}
		out = append(out, record...)
	}
	return out
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

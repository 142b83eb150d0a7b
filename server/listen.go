package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/imgfeed/imgfeed/server/internal/wire"
)

// DefaultSocket returns the path of the socket that server and clients use when nobody names one:
// $XDG_RUNTIME_DIR/imgfeed.sock where that is set, else imgfeed-UID/imgfeed.sock in the folder for temporary files.
func DefaultSocket() string {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "imgfeed.sock")
	}
	return filepath.Join(os.TempDir(), "imgfeed-"+strconv.Itoa(os.Getuid()), "imgfeed.sock")
}

// An InUseError means that another server answers on the socket.
type InUseError struct {
	Path string
	PID  int // 0 if unknown
}

func (e *InUseError) Error() string {
	who := "a server"
	if e.PID != 0 {
		who = fmt.Sprintf("process %d", e.PID)
	}
	return fmt.Sprintf("%s already listens on %s; stop it, or choose another path with --socket", who, e.Path)
}

// A Listener is a Unix socket that removes its file when it is closed, if the file is still its own, and the folders that were
// made for it, if nothing else is in them. [Listener.Keep] puts the file back when it vanishes.
type Listener struct {
	path string
	mode fs.FileMode

	socket atomic.Pointer[net.UnixListener] // what is bound to the path now

	mu     sync.Mutex // held while its file is made or removed
	id     fileID
	other  fileID   // what was put in its place and is left alone; zero if nothing was
	made   []string // folders that were made for it, the innermost first
	closed bool
}

type fileID struct{ dev, ino uint64 }

// SocketMode are the permissions of a socket unless told otherwise: its user's alone.
const SocketMode = 0o600

// Listen is [ListenMode] with [SocketMode].
func Listen(path string) (*Listener, error) { return ListenMode(path, SocketMode) }

// ListenMode creates the socket at path with these permissions; who may write may connect. The folder is made if it is
// missing, and lets those through who may connect. A socket that a dead server left behind is replaced; one that a live
// server listens on is an [*InUseError]; a file that is no socket is never removed.
func ListenMode(path string, mode fs.FileMode) (*Listener, error) {
	if err := wire.CheckPath(path); err != nil {
		return nil, err
	}
	l := &Listener{path: path, mode: mode}
	if err := l.bind(); err != nil {
		return nil, err
	}
	return l, nil
}

// bind makes the socket at the path, in place of the one that it had; mu is held, or nobody else has the listener yet.
func (l *Listener) bind() (err error) {
	dir := filepath.Dir(l.path)
	made := missingFolders(dir)
	defer func() {
		if err != nil {
			removeFolders(made)
		}
	}()
	if err := socketDir(dir, l.mode, l.path == DefaultSocket()); err != nil {
		return err
	}
	unlock := lockDir(dir) // so that two servers that start at once do not both replace the same stale socket
	defer unlock()
	if err := removeStale(l.path); err != nil {
		return err
	}
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		// The file gets the socket's own mode, less the umask, which is left alone: it never exists with a wider one.
		var err error
		return errors.Join(c.Control(func(fd uintptr) { err = unix.Fchmod(int(fd), uint32(l.mode.Perm())) }), err)
	}}
	listener, err := lc.Listen(context.Background(), "unix", l.path)
	if err != nil {
		return fmt.Errorf("socket %s: %w", l.path, err)
	}
	socket := listener.(*net.UnixListener)
	socket.SetUnlinkOnClose(false)
	id, err := identify(l.path)
	if err == nil && l.mode.Perm() != SocketMode {
		err = os.Chmod(l.path, l.mode.Perm())
	}
	if err != nil {
		socket.Close()
		return err
	}
	l.id, l.other = id, fileID{}
	if len(made) > len(l.made) {
		l.made = made
	}
	if before := l.socket.Swap(socket); before != nil {
		before.Close()
	}
	return nil
}

// Path returns the socket's path.
func (l *Listener) Path() string { return l.path }

// AcceptUnix waits for a client, also while the socket is put back; after Close it returns [net.ErrClosed].
func (l *Listener) AcceptUnix() (*net.UnixConn, error) {
	for {
		socket := l.socket.Load()
		conn, err := socket.AcceptUnix()
		if errors.Is(err, net.ErrClosed) && l.socket.Load() != socket {
			continue
		}
		return conn, err
	}
}

// Close stops listening and removes the socket's file, unless another server has replaced it.
func (l *Listener) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	switch id, err := identify(l.path); {
	case err == nil && id == l.id:
		os.Remove(l.path)
		removeFolders(l.made)
	case errors.Is(err, fs.ErrNotExist): // a client may have removed it, and ended before it removed its folder
		removeFolders(l.made)
	}
	return l.socket.Load().Close()
}

// missingFolders returns dir and the folders above it that are not there, the innermost first. The default socket's folder is
// there to stay.
func missingFolders(dir string) (missing []string) {
	if dir == filepath.Dir(DefaultSocket()) {
		return nil
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			return missing
		}
		missing = append(missing, dir)
	}
}

// removeFolders removes those that are empty, from the innermost on.
func removeFolders(dirs []string) {
	for _, dir := range dirs {
		if os.Remove(dir) != nil {
			return
		}
	}
}

func identify(path string) (fileID, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return fileID{}, err
	}
	st := info.Sys().(*syscall.Stat_t)
	return fileID{dev: uint64(st.Dev), ino: st.Ino}, nil
}

// socketDir makes the socket's folder if it is missing, open to this user and to whom mode lets write. The default one in
// the shared folder for temporary files must also be ours alone: another user may have made it first, to stand between
// server and clients.
func socketDir(dir string, mode fs.FileMode, mustBeOurs bool) error {
	_, missing := os.Lstat(dir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("socket folder: %w", err)
	}
	if through := mode & 0o022 >> 1; through != 0 && errors.Is(missing, fs.ErrNotExist) {
		if err := os.Chmod(dir, 0o700|through); err != nil {
			return fmt.Errorf("socket folder: %w", err)
		}
	}
	if !mustBeOurs {
		return nil
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("socket folder: %w", err)
	}
	owner := info.Sys().(*syscall.Stat_t).Uid
	if !info.IsDir() || owner != uint32(os.Getuid()) || info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("socket folder %s is not safe (%v, owner %d): it must be a folder of user %d that no other can write to; choose another path with --socket",
			dir, info.Mode(), owner, os.Getuid())
	}
	return nil
}

// lockDir takes an advisory lock on the folder for the moment between looking and binding, and goes on without it where
// that cannot be had.
func lockDir(dir string) (unlock func()) {
	f, err := os.Open(dir)
	if err != nil {
		return func() {}
	}
	for range 100 {
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return func() { f.Close() }
}

// removeStale removes a socket that nobody listens on.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("socket %s: %w", path, err)
	}
	if info.Mode()&fs.ModeSocket == 0 {
		return fmt.Errorf("%s exists and is no socket (%v): remove it, or choose another path with --socket", path, info.Mode())
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		defer conn.Close()
		return &InUseError{Path: path, PID: peerPID(conn.(*net.UnixConn))}
	}
	if !errors.Is(err, unix.ECONNREFUSED) { // a full backlog, or no permission: somebody may well be there
		if strings.Contains(err.Error(), "timeout") || errors.Is(err, unix.EAGAIN) {
			return &InUseError{Path: path}
		}
		return fmt.Errorf("socket %s: %w", path, err)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("removing the socket of a dead server: %w", err)
	}
	return nil
}

// peerPID returns the process at the other end, or 0.
func peerPID(conn *net.UnixConn) int {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0
	}
	pid := 0
	raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid = int(cred.Pid)
		}
	})
	return pid
}
